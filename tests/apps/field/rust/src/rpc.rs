//! The gRPC service `shop.Shop`: its messages, and what tonic makes of `build.rs`.

include!(concat!(env!("OUT_DIR"), "/shop.Shop.rs"));

#[derive(Clone, PartialEq, prost::Message)]
pub struct Item {
    #[prost(string, tag = "1")]
    pub id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Reply {
    #[prost(string, tag = "1")]
    pub text: String,
}

/// A question about an item. Its header tells the comparison for which request a call is.
pub fn about(id: &str) -> tonic::Request<Item> {
    let mut request = tonic::Request::new(Item { id: id.to_string() });
    if let Ok(value) = id.parse() {
        request.metadata_mut().insert("x-item", value);
    }
    request
}
