//! Salvo on tokio, with SeaORM, a pool of redis-rs by bb8, and isahc: libcurl in a thread that serves all requests.

use bb8_redis::{bb8::Pool, RedisConnectionManager};
use field_rust::{Answer, Result};
use futures::future::{try_join, try_join4};
use isahc::AsyncReadResponseExt;
use redis::AsyncCommands;
use salvo::prelude::{affix_state, handler, Depot, Json, Listener, Request, Router, Server, TcpListener};
use sea_orm::{ActiveModelTrait, Database, DatabaseConnection, EntityTrait, Set, TransactionTrait};
use std::time::Duration;

mod item {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, DeriveEntityModel)]
    #[sea_orm(table_name = "items")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: String,
        pub name: String,
        pub stock: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

mod order {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, DeriveEntityModel)]
    #[sea_orm(table_name = "orders")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: String,
        pub item: String,
        pub state: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

#[derive(Clone)]
struct Shop {
    redis: Pool<RedisConnectionManager>,
    database: DatabaseConnection,
    leaf: String,
    back: String,
}

impl Shop {
    async fn new() -> Result<Self> {
        let env = |name| std::env::var(name).unwrap_or_default();
        let redis = RedisConnectionManager::new(format!("redis://127.0.0.1:{}", env("REDIS_PORT")))?;
        let mut database = sea_orm::ConnectOptions::new(env("DATABASE_URL"));
        database.max_connections(10);
        Ok(Self {
            redis: Pool::builder().max_size(10).build(redis).await?,
            database: Database::connect(database).await?,
            leaf: env("LEAF_URL"),
            back: env("BACK_URL"),
        })
    }

    async fn fetch(&self, url: String) -> Result<String> {
        Ok(isahc::get_async(url).await?.text().await?)
    }

    async fn leaf(&self, path: &str, id: &str) -> Result<String> {
        self.fetch(format!("{}/{path}/{id}", self.leaf)).await
    }

    async fn cached(&self, id: &str) -> Result<Option<String>> {
        Ok(self.redis.get().await?.get(format!("item:{id}")).await?)
    }

    async fn item(&self, id: &str) -> Result<String> {
        Ok(item::Entity::find_by_id(id).one(&self.database).await?.map(|item| item.name).unwrap_or_default())
    }

    async fn seq(&self, id: String) -> Result<Answer> {
        self.cached(&id).await?;
        let name = self.item(&id).await?;
        let detail = self.leaf("price", &id).await?;
        self.redis.get().await?.set_ex::<_, _, ()>(format!("item:{id}"), &name, 60).await?;
        Ok(Answer { id, name, stock: 0, detail })
    }

    async fn par(&self, id: String) -> Result<Answer> {
        let (cached, item) = (self.cached(&id), self.item(&id));
        let (_, name, detail, _) = try_join4(cached, item, self.leaf("price", &id), self.leaf("stock", &id)).await?;
        Ok(Answer { id, name, stock: 0, detail })
    }

    async fn tx(&self, id: String) -> Result<Answer> {
        let order = self.database.begin().await?;
        let new = order::ActiveModel { id: Set(id.clone()), item: Set("book".into()), state: Set("new".into()) };
        let mut new: order::ActiveModel = new.insert(&order).await?.into();
        new.state = Set("paid".into());
        new.update(&order).await?;
        order.commit().await?;
        self.redis.get().await?.del::<_, ()>(format!("item:{id}")).await?;
        let detail = self.leaf("ship", &id).await?;
        Ok(Answer { id, detail, ..Answer::default() })
    }

    async fn nest(&self, id: String) -> Result<Answer> {
        self.redis.get().await?.incr::<_, _, i64>(format!("seen:{id}"), 1).await?;
        let back = self.fetch(format!("{}/seq/{id}", self.back));
        let (detail, name) = try_join(back, self.leaf("price", &id)).await?;
        Ok(Answer { id, name, stock: 0, detail })
    }

    /// A task of its own for each part.
    async fn deep(&self, id: String) -> Result<Answer> {
        let parts = ["part0", "part1", "part2"].map(|part| {
            let (shop, id) = (self.clone(), id.clone());
            tokio::spawn(async move { shop.leaf(part, &id).await })
        });
        let name = self.item(&id).await?;
        let mut detail = String::new();
        for part in parts {
            detail += &part.await??;
        }
        Ok(Answer { id, name, stock: 0, detail })
    }

    /// Tries with a short time limit, then without.
    async fn retry(&self, id: String) -> Result<Answer> {
        for attempt in ["try0", "try1"] {
            if let Ok(detail) = tokio::time::timeout(Duration::from_millis(15), self.leaf(attempt, &id)).await {
                return Ok(Answer { detail: detail?, id, ..Answer::default() });
            }
        }
        let detail = self.leaf("last", &id).await?;
        Ok(Answer { id, detail, ..Answer::default() })
    }

    async fn later(&self, id: String) -> Result<Answer> {
        let (shop, of) = (self.clone(), id.clone());
        tokio::spawn(async move {
            shop.item(&of).await?;
            shop.cached(&of).await?;
            shop.leaf("mail", &of).await
        });
        Ok(Answer { id, ..Answer::default() })
    }
}

/// One handler for each route, which Salvo makes of a function.
macro_rules! routes {
    ($($name:ident)*) => {
        $(
            #[handler]
            async fn $name(request: &mut Request, depot: &mut Depot) -> std::result::Result<Json<Answer>, String> {
                let id = request.param::<String>("id").unwrap_or_default();
                let shop = depot.get_typed::<Shop>().map_err(|_| "no shop".to_string())?.clone();
                shop.$name(id).await.map(Json).map_err(|error| error.to_string())
            }
        )*
        fn routes() -> Router {
            Router::new()$(.push(Router::with_path(concat!(stringify!($name), "/{id}")).get($name)))*
        }
    };
}

routes!(seq par tx nest deep retry later);

#[tokio::main]
async fn main() -> Result<()> {
    let router = routes().hoop(affix_state::inject(Shop::new().await?));
    let acceptor = TcpListener::new(field_rust::address()).bind().await;
    Server::new(acceptor).serve(router).await;
    Ok(())
}
