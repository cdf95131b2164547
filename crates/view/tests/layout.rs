//! The layouts that the UI's own drawing (`ui/src/domain/graph.ts`) has to find, too.
#![allow(clippy::unwrap_used)]

use serde_json::{json, Value};
use wirespan_view::draw::{layout, Place};

#[test]
fn the_picture_and_the_page_put_everything_at_the_same_place() {
    let text = include_str!("layouts.json");
    let cases: Value = serde_json::from_str(text).unwrap();
    let place = |p: &Place| json!([p.layer, p.row]);
    let found: Vec<Value> = cases
        .as_array()
        .unwrap()
        .iter()
        .map(|case| {
            let edges: Vec<(usize, usize)> = serde_json::from_value(case["edges"].clone()).unwrap();
            let l = layout(case["nodes"].as_u64().unwrap() as usize, &edges);
            let nodes: Vec<Value> = l.nodes.iter().map(place).collect();
            let stops: Vec<Value> = l.stops.iter().map(|s| s.iter().map(place).collect()).collect();
            json!({ "name": case["name"], "nodes": case["nodes"], "edges": edges, "places": nodes, "stops": stops })
        })
        .collect();
    assert_eq!(cases, Value::Array(found.clone()), "found: {}", Value::Array(found));
}
