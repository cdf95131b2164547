//! A gRPC server of tonic, with reqwest, sqlx and redis-rs.

use field_rust::rpc::shop_server::{Shop as Service, ShopServer};
use field_rust::rpc::{Item, Reply};
use field_rust::{Answer, Error, Result, Shop};
use futures::{Stream, StreamExt};
use std::pin::Pin;
use tonic::{Request, Response, Status};

struct Served(Shop);

fn failed(error: Error) -> Status {
    Status::unavailable(error.to_string())
}

fn said(answer: Result<Answer>) -> std::result::Result<Response<Reply>, Status> {
    answer.map(|answer| Response::new(Reply { text: answer.detail })).map_err(failed)
}

#[tonic::async_trait]
impl Service for Served {
    type ListStream = Pin<Box<dyn Stream<Item = std::result::Result<Reply, Status>> + Send>>;

    async fn seq(&self, request: Request<Item>) -> std::result::Result<Response<Reply>, Status> {
        said(self.0.seq(request.into_inner().id).await)
    }

    async fn par(&self, request: Request<Item>) -> std::result::Result<Response<Reply>, Status> {
        said(self.0.par(request.into_inner().id).await)
    }

    async fn list(&self, request: Request<Item>) -> std::result::Result<Response<Self::ListStream>, Status> {
        let parts = self.0.clone().stream(request.into_inner().id);
        Ok(Response::new(Box::pin(parts.map(|text| text.map(|text| Reply { text }).map_err(failed)))))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let service = ShopServer::new(Served(Shop::new().await?));
    tonic::transport::Server::builder().add_service(service).serve(field_rust::address().parse()?).await?;
    Ok(())
}
