//! Changes between two maps that are reported, and changes that are not.
#![allow(clippy::unwrap_used)]

mod documents;
#[path = "../../trace/tests/world/mod.rs"]
mod world;

use documents::{document, of_flows};
use wirespan_map::{Diff, DiffLimits, Document};

fn diff(before: &Document, after: &Document) -> Diff {
    Diff::new(before, after, &DiffLimits::default())
}

#[test]
fn edges_appear_vanish_and_slow() {
    let (before, after) = (document(30, 2, Some("redis")), document(40, 20, Some("valkey")));
    let found = diff(&before, &after);
    assert_eq!((&*found.appeared_nodes, &*found.vanished_nodes), (&["valkey".into()][..], &["redis".into()][..]));
    assert_eq!((found.appeared.len(), found.vanished.len(), found.failing.len(), found.common), (1, 1, 0, 1));
    let (slowed, growth) = found.slowed_by().next().unwrap();
    assert_eq!((&*slowed.after.from, &*slowed.after.to), ("service:web", "service:cart"));
    assert_eq!((growth.what, growth.before.times, growth.after.times), ("p95", 30, 40));
    assert!((9.0..11.0).contains(&growth.by), "{growth:?}");
    let same = diff(&after, &after);
    assert_eq!((same.appeared.len(), same.vanished.len(), same.slowed.len(), same.common), (0, 0, 0, 2));
}

#[test]
fn edges_of_flow_records_alone_are_compared_by_their_handshakes_and_failures() {
    let before = of_flows(100, 0, 10);
    let found = diff(&before, &of_flows(100, 0, 12));
    let (_, growth) = found.slowed_by().next().unwrap();
    assert_eq!(growth.what, "handshake p95");
    assert!((growth.by - 4.0).abs() < 1e-3, "{growth:?}");
    // One bucket more may be a tiny change: buckets are powers of two. A handful of handshakes proves nothing.
    assert_eq!(diff(&before, &of_flows(100, 0, 11)).slowed, []);
    assert_eq!(diff(&before, &of_flows(19, 0, 15)).slowed, []);
    let found = diff(&before, &of_flows(75, 25, 10));
    let (_, growth) = found.failing_by().next().unwrap();
    assert_eq!((growth.what, growth.before.value, growth.after.value), ("failed to connect", 0.0, 0.25));
}
