//! Rocket: its pool of synchronous connections to PostgreSQL, which threads for blocking calls use; reqwest, redis-rs.

use field_rust::{Answer, Result};
use isahc::ReadResponseExt;
use redis::aio::ConnectionManager;
use redis::AsyncCommands;
use rocket::figment::{util::map, Figment};
use rocket::response::Debug;
use rocket::serde::json::Json;
use rocket::{get, routes, State};
use rocket_sync_db_pools::{database, postgres};

#[database("shop")]
struct Db(postgres::Client);

struct Shop {
    redis: ConnectionManager,
    http: reqwest::Client,
    leaf: String,
    back: String,
}

type Said = std::result::Result<Json<Answer>, Debug<field_rust::Error>>;

impl Shop {
    async fn fetch(&self, url: String) -> Result<String> {
        Ok(self.http.get(url).send().await?.error_for_status()?.text().await?)
    }

    async fn leaf(&self, path: &str, id: &str) -> Result<String> {
        self.fetch(format!("{}/{path}/{id}", self.leaf)).await
    }

    async fn cached(&self, id: &str) -> Result<Option<String>> {
        Ok(self.redis.clone().get(format!("item:{id}")).await?)
    }
}

async fn item(db: &Db, id: &str) -> Result<String> {
    let id = id.to_string();
    let find = move |client: &mut postgres::Client| client.query_opt("SELECT name FROM items WHERE id = $1", &[&id]);
    Ok(db.run(find).await?.map(|row| row.get(0)).unwrap_or_default())
}

#[get("/seq/<id>")]
async fn seq(id: &str, db: Db, shop: &State<Shop>) -> Said {
    let calls = async {
        shop.cached(id).await?;
        let name = item(&db, id).await?;
        let detail = shop.leaf("price", id).await?;
        shop.redis.clone().set_ex::<_, _, ()>(format!("item:{id}"), &name, 60).await?;
        Ok::<_, field_rust::Error>(Json(Answer { id: id.to_string(), name, stock: 0, detail }))
    };
    Ok(calls.await?)
}

#[get("/par/<id>")]
async fn par(id: &str, db: Db, shop: &State<Shop>) -> Said {
    let (_, name, detail, _) =
        rocket::tokio::try_join!(shop.cached(id), item(&db, id), shop.leaf("price", id), shop.leaf("stock", id))?;
    Ok(Json(Answer { id: id.to_string(), name, stock: 0, detail }))
}

#[get("/tx/<id>")]
async fn tx(id: &str, db: Db, shop: &State<Shop>) -> Said {
    let calls = async {
        let of = id.to_string();
        let order = move |client: &mut postgres::Client| {
            let mut tx = client.transaction()?;
            tx.execute("INSERT INTO orders (id, item) VALUES ($1, 'book')", &[&of])?;
            tx.execute("UPDATE orders SET state = 'paid' WHERE id = $1", &[&of])?;
            tx.commit()
        };
        db.run(order).await?;
        shop.redis.clone().del::<_, ()>(format!("item:{id}")).await?;
        let detail = shop.leaf("ship", id).await?;
        Ok::<_, field_rust::Error>(Json(Answer { id: id.to_string(), detail, ..Answer::default() }))
    };
    Ok(calls.await?)
}

#[get("/nest/<id>")]
async fn nest(id: &str, shop: &State<Shop>) -> Said {
    let calls = async {
        shop.redis.clone().incr::<_, _, i64>(format!("seen:{id}"), 1).await?;
        let back = shop.fetch(format!("{}/seq/{id}", shop.back));
        let (detail, name) = rocket::tokio::try_join!(back, shop.leaf("price", id))?;
        Ok::<_, field_rust::Error>(Json(Answer { id: id.to_string(), name, stock: 0, detail }))
    };
    Ok(calls.await?)
}

/// Blocking calls in threads: libcurl as a synchronous client, a thread for each part.
#[get("/thread/<id>")]
async fn thread(id: &str, shop: &State<Shop>) -> Said {
    let calls = async {
        let parts = ["part0", "part1"].map(|part| {
            let url = format!("{}/{part}/{id}", shop.leaf);
            rocket::tokio::task::spawn_blocking(move || Ok::<_, field_rust::Error>(isahc::get(url)?.text()?))
        });
        let mut detail = String::new();
        for part in parts {
            detail += &part.await??;
        }
        shop.cached(id).await?;
        Ok::<_, field_rust::Error>(Json(Answer { id: id.to_string(), detail, ..Answer::default() }))
    };
    Ok(calls.await?)
}

#[rocket::main]
async fn main() -> Result<()> {
    let env = |name| std::env::var(name).unwrap_or_default();
    let shop = Shop {
        redis: redis::Client::open(format!("redis://127.0.0.1:{}", env("REDIS_PORT")))?
            .get_connection_manager()
            .await?,
        http: reqwest::Client::new(),
        leaf: env("LEAF_URL"),
        back: env("BACK_URL"),
    };
    let url = map! { "url" => env("DATABASE_URL") };
    let port: u16 = env("PORT").parse()?;
    let config = Figment::from(rocket::Config::release_default())
        .merge(("port", port))
        .merge(("log_level", "critical"))
        .merge(("databases", map! { "shop" => url }));
    let rocket = rocket::custom(config).attach(Db::fairing()).manage(shop);
    rocket.mount("/", routes![seq, par, tx, nest, thread]).launch().await?;
    Ok(())
}
