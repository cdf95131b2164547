//! The description of the API that the UI's types are made of (`ui/openapi.json`) is that of the code.
#![allow(clippy::unwrap_used)]

#[test]
fn the_committed_description_is_that_of_the_code() {
    let committed = include_str!("../../../ui/openapi.json");
    let made = wirespan_view::openapi().to_pretty_json().unwrap();
    let write = "cargo run --release -p wirespan-view --example openapi > ui/openapi.json";
    assert!(committed.trim_end() == made, "stale: run `{write}`");
}
