//! axum that calls a gRPC service by tonic, on one channel for all.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::Router;
use field_rust::rpc::about;
use field_rust::rpc::shop_client::ShopClient;
use field_rust::{Result, Shop};
use futures::future::try_join3;
use tonic::transport::Channel;

type Front = State<(Shop, ShopClient<Channel>)>;

fn said(answer: Result<String>) -> Response {
    match answer {
        Ok(text) => text.into_response(),
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

async fn seq(State((shop, mut rpc)): Front, Path(id): Path<String>) -> Response {
    said(
        async {
            shop.count(&id).await?;
            Ok(rpc.seq(about(&id)).await?.into_inner().text)
        }
        .await,
    )
}

async fn par(State((shop, rpc)): Front, Path(id): Path<String>) -> Response {
    let (mut one, mut two) = (rpc.clone(), rpc);
    let first = async { Ok(one.seq(about(&id)).await?.into_inner().text) };
    let second = async { Ok(two.par(about(&id)).await?.into_inner().text) };
    said(try_join3(first, second, shop.get("price", &id)).await.map(|(a, b, c)| a + &b + &c))
}

async fn list(State((shop, mut rpc)): Front, Path(id): Path<String>) -> Response {
    said(
        async {
            let mut parts = rpc.list(about(&id)).await?.into_inner();
            let mut all = String::new();
            while let Some(part) = parts.message().await? {
                all += &part.text;
            }
            shop.count(&id).await?;
            Ok(all)
        }
        .await,
    )
}

#[tokio::main]
async fn main() -> Result<()> {
    let rpc = ShopClient::connect(std::env::var("BACK_URL")?).await?;
    let routes = Router::new()
        .route("/seq/{id}", get(seq))
        .route("/par/{id}", get(par))
        .route("/list/{id}", get(list))
        .with_state((Shop::new().await?, rpc));
    axum::serve(tokio::net::TcpListener::bind(field_rust::address()).await?, routes).await?;
    Ok(())
}
