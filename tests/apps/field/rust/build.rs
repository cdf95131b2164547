//! The gRPC service `shop.Shop` for tonic, described here as no compiler of protocol buffers is needed for it.

use tonic_build::manual::{Builder, Method, Service};

fn main() {
    let method = |name: &str, route: &str| {
        Method::builder()
            .name(name)
            .route_name(route)
            .input_type("crate::rpc::Item")
            .output_type("crate::rpc::Reply")
            .codec_path("tonic_prost::ProstCodec")
    };
    let shop = Service::builder()
        .name("Shop")
        .package("shop")
        .method(method("seq", "Seq").build())
        .method(method("par", "Par").build())
        .method(method("list", "List").server_streaming().build())
        .build();
    Builder::new().compile(&[shop]);
}
