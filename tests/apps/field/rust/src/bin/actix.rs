//! actix-web, whose workers have a thread and a runtime of tokio each, with reqwest, sqlx and redis-rs.

use actix_web::error::ErrorBadGateway;
use actix_web::web::{get, Data, Json, Path};
use actix_web::{App, HttpResponse, HttpServer};
use field_rust::{Answer, Result, Shop};
use futures::TryStreamExt;

type Said = actix_web::Result<Json<Answer>>;

fn said(answer: Result<Answer>) -> Said {
    answer.map(Json).map_err(ErrorBadGateway)
}

async fn seq(shop: Data<Shop>, id: Path<String>) -> Said {
    said(shop.seq(id.into_inner()).await)
}

async fn par(shop: Data<Shop>, id: Path<String>) -> Said {
    said(shop.par(id.into_inner()).await)
}

async fn tx(shop: Data<Shop>, id: Path<String>) -> Said {
    said(shop.tx(id.into_inner()).await)
}

async fn nest(shop: Data<Shop>, id: Path<String>) -> Said {
    said(shop.nest(id.into_inner()).await)
}

async fn deep(shop: Data<Shop>, id: Path<String>) -> Said {
    said(shop.deep(id.into_inner()).await)
}

async fn work(shop: Data<Shop>, id: Path<String>) -> Said {
    said(shop.work(id.into_inner()).await)
}

async fn later(shop: Data<Shop>, id: Path<String>) -> Said {
    said(shop.later(id.into_inner()).await)
}

async fn stream(shop: Data<Shop>, id: Path<String>) -> HttpResponse {
    let parts = shop.get_ref().clone().stream(id.into_inner());
    HttpResponse::Ok().streaming(parts.map_ok(Into::into).map_err(ErrorBadGateway))
}

#[actix_web::main]
async fn main() -> Result<()> {
    let shop = Data::new(Shop::new().await?);
    let routes = move || {
        App::new()
            .app_data(shop.clone())
            .route("/seq/{id}", get().to(seq))
            .route("/par/{id}", get().to(par))
            .route("/tx/{id}", get().to(tx))
            .route("/nest/{id}", get().to(nest))
            .route("/deep/{id}", get().to(deep))
            .route("/work/{id}", get().to(work))
            .route("/later/{id}", get().to(later))
            .route("/stream/{id}", get().to(stream))
    };
    HttpServer::new(routes).bind(field_rust::address())?.run().await?;
    Ok(())
}
