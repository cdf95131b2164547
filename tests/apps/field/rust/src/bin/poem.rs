//! poem on tokio, with deadpool-postgres, fred (one connection for all) and reqwest.

use deadpool_postgres::{Config, Pool, Runtime};
use field_rust::{Answer, Result};
use fred::prelude::{Builder, Client, ClientLike, Config as RedisConfig, Expiration, KeysInterface, Value};
use futures::{stream, StreamExt, TryStreamExt};
use poem::http::StatusCode;
use poem::listener::TcpListener;
use poem::web::{Data, Json, Path};
use poem::{get, handler, Body, EndpointExt, Route, Server};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

#[derive(Clone)]
struct Shop {
    redis: Client,
    database: Pool,
    http: reqwest::Client,
    leaf: String,
    back: String,
}

fn said(answer: Result<Answer>) -> poem::Result<Json<Answer>> {
    answer.map(Json).map_err(|error| poem::Error::from_string(error.to_string(), StatusCode::BAD_GATEWAY))
}

impl Shop {
    async fn new() -> Result<Self> {
        let env = |name| std::env::var(name).unwrap_or_default();
        let redis = RedisConfig::from_url(&format!("redis://127.0.0.1:{}", env("REDIS_PORT")))?;
        let redis = Builder::from_config(redis).build()?;
        redis.init().await?;
        let database = Config { url: Some(env("DATABASE_URL")), ..Config::default() };
        Ok(Self {
            redis,
            database: database.create_pool(Some(Runtime::Tokio1), NoTls)?,
            http: reqwest::Client::new(),
            leaf: env("LEAF_URL"),
            back: env("BACK_URL"),
        })
    }

    async fn fetch(&self, url: String) -> Result<String> {
        Ok(self.http.get(url).send().await?.error_for_status()?.text().await?)
    }

    async fn leaf(&self, path: &str, id: &str) -> Result<String> {
        self.fetch(format!("{}/{path}/{id}", self.leaf)).await
    }

    async fn cached(&self, id: &str) -> Result<Option<String>> {
        Ok(self.redis.get(format!("item:{id}")).await?)
    }

    async fn item(&self, id: &str) -> Result<String> {
        let client = self.database.get().await?;
        let find = client.prepare_cached("SELECT name FROM items WHERE id = $1").await?;
        Ok(client.query_opt(&find, &[&id]).await?.map(|row| row.get(0)).unwrap_or_default())
    }
}

#[handler]
async fn seq(Path(id): Path<String>, Data(shop): Data<&Shop>) -> poem::Result<Json<Answer>> {
    let calls = async {
        shop.cached(&id).await?;
        let name = shop.item(&id).await?;
        let detail = shop.leaf("price", &id).await?;
        let kept = Some(Expiration::EX(60));
        shop.redis.set::<(), _, _>(format!("item:{id}"), name.as_str(), kept, None, false).await?;
        Ok(Answer { id, name, stock: 0, detail })
    };
    said(calls.await)
}

#[handler]
async fn par(Path(id): Path<String>, Data(shop): Data<&Shop>) -> poem::Result<Json<Answer>> {
    let calls = async {
        let mut set = JoinSet::new();
        for path in ["price", "stock"] {
            let (shop, id) = (shop.clone(), id.clone());
            set.spawn(async move { shop.leaf(path, &id).await });
        }
        let (shop, of) = (shop.clone(), id.clone());
        set.spawn(async move { Ok(futures::future::try_join(shop.cached(&of), shop.item(&of)).await?.1) });
        let mut detail = String::new();
        while let Some(done) = set.join_next().await {
            detail += &done??;
        }
        Ok(Answer { id, detail, ..Answer::default() })
    };
    said(calls.await)
}

#[handler]
async fn tx(Path(id): Path<String>, Data(shop): Data<&Shop>) -> poem::Result<Json<Answer>> {
    let calls = async {
        let mut client = shop.database.get().await?;
        let tx = client.transaction().await?;
        tx.execute("INSERT INTO orders (id, item) VALUES ($1, 'book')", &[&id]).await?;
        tx.execute("UPDATE orders SET state = 'paid' WHERE id = $1", &[&id]).await?;
        tx.commit().await?;
        drop(client);
        let both = shop.redis.pipeline();
        let _: Value = both.del(format!("item:{id}")).await?;
        let _: Value = both.incr(format!("sold:{id}")).await?;
        let _: Vec<Value> = both.all().await?;
        let detail = shop.leaf("ship", &id).await?;
        Ok(Answer { id, detail, ..Answer::default() })
    };
    said(calls.await)
}

#[handler]
async fn nest(Path(id): Path<String>, Data(shop): Data<&Shop>) -> poem::Result<Json<Answer>> {
    let calls = async {
        shop.redis.incr::<i64, _>(format!("seen:{id}")).await?;
        let back = shop.fetch(format!("{}/seq/{id}", shop.back));
        let (detail, name) = futures::future::try_join(back, shop.leaf("price", &id)).await?;
        Ok(Answer { id, name, stock: 0, detail })
    };
    said(calls.await)
}

/// Five calls, two at a time, in the request's own task.
#[handler]
async fn deep(Path(id): Path<String>, Data(shop): Data<&Shop>) -> poem::Result<Json<Answer>> {
    let calls = async {
        let parts = ["part0", "part1", "part2", "part3", "part4"].map(|part| shop.leaf(part, &id));
        let parts: Vec<String> = stream::iter(parts).buffer_unordered(2).try_collect().await?;
        let name = shop.item(&id).await?;
        Ok(Answer { id, name, stock: 0, detail: parts.concat() })
    };
    said(calls.await)
}

/// Tries with a short time limit, then without.
#[handler]
async fn retry(Path(id): Path<String>, Data(shop): Data<&Shop>) -> poem::Result<Json<Answer>> {
    let calls = async {
        for attempt in ["try0", "try1"] {
            if let Ok(detail) = tokio::time::timeout(Duration::from_millis(15), shop.leaf(attempt, &id)).await {
                return Ok(Answer { detail: detail?, id, ..Answer::default() });
            }
        }
        let detail = shop.leaf("last", &id).await?;
        Ok(Answer { id, detail, ..Answer::default() })
    };
    said(calls.await)
}

/// Answers at once; its calls come after the answer.
#[handler]
async fn later(Path(id): Path<String>, Data(shop): Data<&Shop>) -> poem::Result<Json<Answer>> {
    let (shop, of) = (shop.clone(), id.clone());
    tokio::spawn(async move {
        shop.item(&of).await?;
        shop.redis.incr::<i64, _>(format!("seen:{of}")).await?;
        shop.leaf("mail", &of).await
    });
    said(Ok(Answer { id, ..Answer::default() }))
}

#[handler]
async fn streamed(Path(id): Path<String>, Data(shop): Data<&Shop>) -> Body {
    let shop = shop.clone();
    let parts = stream::iter(["price", "stock", "ship"]).then(move |part| {
        let (shop, id) = (shop.clone(), id.clone());
        async move { shop.leaf(part, &id).await.map_err(std::io::Error::other) }
    });
    Body::from_bytes_stream(parts)
}

#[tokio::main]
async fn main() -> Result<()> {
    let routes = Route::new()
        .at("/seq/:id", get(seq))
        .at("/par/:id", get(par))
        .at("/tx/:id", get(tx))
        .at("/nest/:id", get(nest))
        .at("/deep/:id", get(deep))
        .at("/retry/:id", get(retry))
        .at("/later/:id", get(later))
        .at("/stream/:id", get(streamed))
        .data(Shop::new().await?);
    Server::new(TcpListener::bind(field_rust::address())).run(routes).await?;
    Ok(())
}
