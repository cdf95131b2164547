//! What the Rust services do for each route, whatever their framework is: `reqwest`, a pool of `sqlx`, and one
//! multiplexed connection to Redis for all requests.

pub mod rpc;

use futures::future::{try_join, try_join3, try_join4};
use redis::aio::ConnectionManager;
use redis::AsyncCommands;
use serde::Serialize;
use sqlx::postgres::{PgPool, PgPoolOptions};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

pub type Error = Box<dyn std::error::Error + Send + Sync>;
pub type Result<T> = std::result::Result<T, Error>;

/// What all routes answer with.
#[derive(Default, Serialize)]
pub struct Answer {
    pub id: String,
    pub name: String,
    pub stock: i32,
    pub detail: String,
}

/// A call that a worker makes, and who waits for it.
struct Task {
    url: String,
    done: oneshot::Sender<Result<String>>,
}

#[derive(Clone)]
pub struct Shop {
    cache: ConnectionManager,
    database: PgPool,
    http: reqwest::Client,
    leaf: String,
    back: String,
    tasks: mpsc::Sender<Task>,
}

fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// Where to listen.
pub fn address() -> String {
    format!("127.0.0.1:{}", env("PORT"))
}

async fn fetch(http: &reqwest::Client, url: &str) -> Result<String> {
    Ok(http.get(url).send().await?.error_for_status()?.text().await?)
}

impl Shop {
    /// Connects, and starts a worker to which `work` hands its calls over.
    pub async fn new() -> Result<Self> {
        let cache = redis::Client::open(format!("redis://127.0.0.1:{}", env("REDIS_PORT")))?;
        let (tasks, mut asked) = mpsc::channel::<Task>(64);
        let http = reqwest::Client::new();
        let client = http.clone();
        tokio::spawn(async move {
            while let Some(task) = asked.recv().await {
                let client = client.clone();
                tokio::spawn(async move { task.done.send(fetch(&client, &task.url).await) });
            }
        });
        Ok(Self {
            cache: cache.get_connection_manager().await?,
            database: PgPoolOptions::new().max_connections(10).connect(&env("DATABASE_URL")).await?,
            http,
            leaf: env("LEAF_URL"),
            back: env("BACK_URL"),
            tasks,
        })
    }

    pub async fn get(&self, path: &str, id: &str) -> Result<String> {
        fetch(&self.http, &format!("{}/{path}/{id}", self.leaf)).await
    }

    async fn cached(&self, id: &str) -> Result<Option<String>> {
        Ok(self.cache.clone().get(format!("item:{id}")).await?)
    }

    pub async fn count(&self, id: &str) -> Result<i64> {
        Ok(self.cache.clone().incr(format!("seen:{id}"), 1).await?)
    }

    async fn item(&self, id: &str) -> Result<(String, i32)> {
        let found = sqlx::query_as("SELECT name, stock FROM items WHERE id = $1").bind(id);
        Ok(found.fetch_optional(&self.database).await?.unwrap_or_default())
    }

    async fn restock(&self, id: &str) -> Result<()> {
        sqlx::query("UPDATE items SET stock = stock + 1 WHERE id = $1").bind(id).execute(&self.database).await?;
        Ok(())
    }

    /// Makes its calls one after the other.
    pub async fn seq(&self, id: String) -> Result<Answer> {
        self.cached(&id).await?;
        let (name, stock) = self.item(&id).await?;
        let detail = self.get("price", &id).await?;
        self.cache.clone().set_ex::<_, _, ()>(format!("item:{id}"), &name, 60).await?;
        Ok(Answer { id, name, stock, detail })
    }

    /// Makes its calls all at once, in its own task.
    pub async fn par(&self, id: String) -> Result<Answer> {
        let (cached, item) = (self.cached(&id), self.item(&id));
        let (_, (name, stock), detail, _) =
            try_join4(cached, item, self.get("price", &id), self.get("stock", &id)).await?;
        Ok(Answer { id, name, stock, detail })
    }

    /// Has a transaction, and a pipeline of Redis.
    pub async fn tx(&self, id: String) -> Result<Answer> {
        let mut tx = self.database.begin().await?;
        sqlx::query("INSERT INTO orders (id, item) VALUES ($1, $2)").bind(&id).bind("book").execute(&mut *tx).await?;
        sqlx::query("UPDATE orders SET state = 'paid' WHERE id = $1").bind(&id).execute(&mut *tx).await?;
        tx.commit().await?;
        let mut both = redis::pipe();
        both.del(format!("item:{id}")).ignore().incr(format!("sold:{id}"), 1);
        let (stock,): (i32,) = both.query_async(&mut self.cache.clone()).await?;
        let detail = self.get("ship", &id).await?;
        Ok(Answer { id, name: "book".to_string(), stock, detail })
    }

    /// Calls the back, and the leaf meanwhile.
    pub async fn nest(&self, id: String) -> Result<Answer> {
        self.count(&id).await?;
        let back = format!("{}/seq/{id}", self.back);
        let (detail, name) = try_join(fetch(&self.http, &back), self.get("price", &id)).await?;
        Ok(Answer { id, name, stock: 0, detail })
    }

    /// Has a group of tasks in a group, and a call after both.
    pub async fn deep(&self, id: String) -> Result<Answer> {
        let (shop, of) = (self.clone(), id.clone());
        let group = tokio::spawn(async move {
            let parts = ["part0", "part1", "part2"].map(|part| {
                let (shop, of) = (shop.clone(), of.clone());
                tokio::spawn(async move { shop.get(part, &of).await })
            });
            let [a, b, c] = parts;
            let (a, b, c) = try_join3(a, b, c).await?;
            Ok::<_, Error>([a?, b?, c?].concat())
        });
        self.cached(&id).await?;
        let detail = group.await??;
        let (name, stock) = self.item(&id).await?;
        Ok(Answer { id, name, stock, detail })
    }

    /// Hands a call to the worker that all requests share, and waits for it.
    pub async fn work(&self, id: String) -> Result<Answer> {
        let (done, printed) = oneshot::channel();
        self.tasks.send(Task { url: format!("{}/print/{id}", self.leaf), done }).await?;
        self.restock(&id).await?;
        let detail = printed.await??;
        self.count(&id).await?;
        Ok(Answer { id, detail, ..Answer::default() })
    }

    /// Answers at once; its calls come after the answer.
    pub async fn later(&self, id: String) -> Result<Answer> {
        let (shop, of) = (self.clone(), id.clone());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            shop.restock(&of).await?;
            shop.count(&of).await?;
            shop.get("mail", &of).await
        });
        Ok(Answer { id, detail: "accepted".to_string(), ..Answer::default() })
    }

    /// An answer in three parts, with a call before each.
    pub fn stream(self, id: String) -> impl futures::Stream<Item = Result<String>> + Send {
        futures::stream::unfold(0, move |part| {
            let (shop, id) = (self.clone(), id.clone());
            async move {
                let said = match part {
                    0 => shop.item(&id).await.map(|(name, _)| name),
                    1 => shop.get("price", &id).await,
                    2 => shop.cached(&id).await.map(Option::unwrap_or_default),
                    _ => return None,
                };
                Some((said.map(|line| line + "\n"), part + 1))
            }
        })
    }
}
