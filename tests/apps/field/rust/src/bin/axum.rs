//! axum on tokio, with reqwest, sqlx and redis-rs.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use field_rust::{Answer, Result, Shop};

fn said(answer: Result<Answer>) -> Response {
    match answer {
        Ok(answer) => Json(answer).into_response(),
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

async fn seq(State(shop): State<Shop>, Path(id): Path<String>) -> Response {
    said(shop.seq(id).await)
}

async fn par(State(shop): State<Shop>, Path(id): Path<String>) -> Response {
    said(shop.par(id).await)
}

async fn tx(State(shop): State<Shop>, Path(id): Path<String>) -> Response {
    said(shop.tx(id).await)
}

async fn nest(State(shop): State<Shop>, Path(id): Path<String>) -> Response {
    said(shop.nest(id).await)
}

async fn deep(State(shop): State<Shop>, Path(id): Path<String>) -> Response {
    said(shop.deep(id).await)
}

async fn work(State(shop): State<Shop>, Path(id): Path<String>) -> Response {
    said(shop.work(id).await)
}

async fn later(State(shop): State<Shop>, Path(id): Path<String>) -> Response {
    said(shop.later(id).await)
}

async fn stream(State(shop): State<Shop>, Path(id): Path<String>) -> Body {
    Body::from_stream(shop.stream(id))
}

#[tokio::main]
async fn main() -> Result<()> {
    let routes = Router::new()
        .route("/seq/{id}", get(seq))
        .route("/par/{id}", get(par))
        .route("/tx/{id}", get(tx))
        .route("/nest/{id}", get(nest))
        .route("/deep/{id}", get(deep))
        .route("/work/{id}", get(work))
        .route("/later/{id}", get(later))
        .route("/stream/{id}", get(stream))
        .with_state(Shop::new().await?);
    axum::serve(tokio::net::TcpListener::bind(field_rust::address()).await?, routes).await?;
    Ok(())
}
