//! The dependency map as text, DOT and SVG, and the map of a store's contents.
#![allow(clippy::unwrap_used)]

#[path = "../../map/tests/documents/mod.rs"]
mod documents;
#[path = "../../trace/tests/world/mod.rs"]
mod world;

use documents::{document, of_flows, RANGE};
use std::time::Duration;
use wirespan_map::{Diff, DiffLimits, Document, ServiceMap};
use wirespan_store::{Embedded, Options, Store, TimeRange};
use wirespan_view::draw::{diff, dot, svg, text};
use wirespan_view::service_map;
use world::{proc, World, MS, T0};

#[test]
fn the_map_of_a_store_is_the_map_of_its_spans() {
    let mut w = World::default();
    for n in 0..10 {
        let at = T0 + n * 100 * MS;
        let first = w.call(None, proc(1, 1, "web"), proc(2, 2, "cart"), at, at + 20 * MS);
        w.call(Some(first), proc(2, 2, "cart"), proc(3, 3, "db"), at + MS, at + 10 * MS);
    }
    let years = Duration::from_secs(1000 * 365 * 24 * 3600);
    let store = Embedded::memory(Options { max_age: years, ..Options::default() }).unwrap();
    store.append(w.arcs()).unwrap();
    let map = service_map(&store, TimeRange::ALL).unwrap();
    assert_eq!(map, ServiceMap::of_spans(&w.spans));
    assert_eq!((map.nodes.len(), map.edges.len()), (3, 2));
}

#[test]
fn what_appeared_vanished_and_slowed() {
    let (before, after) = (document(30, 2, Some("redis")), document(40, 20, Some("<valkey>\u{1b}")));
    let found = Diff::new(&before, &after, &DiffLimits::default());
    let lines = diff(&found, &before, &after);
    assert_eq!(found.appeared_nodes, ["<valkey>\u{1b}"]);
    assert_eq!((found.appeared.len(), found.vanished.len(), found.slowed.len(), found.common), (1, 1, 1, 1), "{lines}");
    assert!(lines.contains("vanished  cart → redis:80"), "{lines}");
    assert!(lines.lines().any(|l| l.starts_with("slowed") && l.contains("web → cart:80")), "{lines}");
    let same = Diff::new(&after, &after, &DiffLimits::default());
    assert_eq!(diff(&same, &after, &after), "no difference in 2 edges\n");
    for drawn in [text(&after), svg(&after), lines] {
        assert!(!drawn.contains("\u{1b}"), "{drawn}");
    }
    assert!(svg(&after).contains("&lt;valkey&gt;"));
}

#[test]
fn an_edge_of_flow_records_alone_is_compared_by_its_handshakes_and_failures() {
    let limits = DiffLimits::default();
    let says = |before: &Document, after: &Document| diff(&Diff::new(before, after, &limits), before, after);
    let before = of_flows(100, 0, 10);
    let lines = says(&before, &of_flows(100, 0, 12));
    assert!(
        lines.starts_with("slowed  web → 10.0.0.9:80 ") && lines.contains("handshake p95") && lines.contains("×4.0"),
        "{lines}"
    );
    // The next power of two may be a tiny change, and a handful of handshakes proves nothing.
    assert!(says(&before, &of_flows(100, 0, 11)).starts_with("no difference"));
    assert!(says(&before, &of_flows(19, 0, 15)).starts_with("no difference"));
    let lines = says(&before, &of_flows(75, 25, 10));
    assert!(lines.starts_with("failing") && lines.contains("failed to connect 0.0 % → 25.0 %"), "{lines}");
    let lines = text(&of_flows(75, 25, 10));
    assert!(lines.contains("75 connections") && lines.contains("75, 2 open, 25 failed"), "{lines}");
    for drawn in [svg(&before), dot(&before)] {
        assert!(drawn.contains("RTT 1.45ms"), "{drawn}");
    }
    assert!(dot(&of_flows(75, 25, 10)).contains("color=red") && svg(&of_flows(75, 25, 10)).contains("class=\"e bad\""));
}

#[test]
fn a_connection_that_was_not_understood_is_drawn_as_a_connection() {
    let mut w = World::default();
    let c = w.call(None, proc(1, 1, "web"), proc(2, 2, "vault"), T0, T0 + 40_000 * MS);
    for i in [c.client, c.server] {
        w.spans[i].protocol = "".into();
    }
    let map = Document::new(&ServiceMap::of_spans(&w.spans), RANGE);
    assert!(text(&map).contains("1 connection ") && svg(&map).contains(">1 connection<"), "{}", text(&map));
}

#[test]
fn a_line_per_edge_with_numbers_and_rates() {
    let lines = text(&document(30, 2, Some("redis")));
    assert_eq!(lines.lines().count(), 3, "{lines}");
    assert!(lines.contains("web") && lines.contains("30 requests") && lines.contains("10.3/s"), "{lines}");
}

#[test]
fn hostile_names_stay_text_in_every_drawing() {
    let hostile = "x\\\"];\u{1b}]0;title\u{7}\n\u{202e}</text><script>\\";
    let mut map = document(30, 2, Some(hostile));
    map.edges.iter_mut().for_each(|e| e.protocol = hostile.into());
    map.nodes.iter_mut().for_each(|n| n.name = hostile.into());
    let diff_of = diff(&Diff::new(&document(1, 0, None), &map, &DiffLimits::default()), &map, &map);
    for drawn in [text(&map), dot(&map), svg(&map), diff_of] {
        assert!(!drawn.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'), "{drawn:?}");
    }
    assert!(!svg(&map).contains("<script>"));
    // In DOT, every quotation mark within a text is escaped, and no backslash escapes the closing one.
    for line in dot(&map).lines().filter(|l| l.contains("label")) {
        let (mut inside, mut escaped) = (false, false);
        let outside: String = line
            .chars()
            .filter(|c| {
                let quote = *c == '"' && !escaped;
                escaped = inside && *c == '\\' && !escaped;
                inside ^= quote;
                !inside && !quote
            })
            .collect();
        assert!(!inside && !outside.contains("script") && outside.matches(';').count() == 1, "{line}");
    }
}

#[test]
fn a_name_of_ten_kilobytes_is_cut_in_every_drawing() {
    let long: &str = Box::leak("é".repeat(10_000).into_boxed_str());
    let mut map = document(30, 2, Some(long));
    map.edges.iter_mut().for_each(|e| e.protocol = long.into());
    map.nodes.iter_mut().for_each(|n| n.name = long.into());
    let diff_of = diff(&Diff::new(&document(1, 0, None), &map, &DiffLimits::default()), &map, &map);
    for drawn in [text(&map), dot(&map), svg(&map), diff_of] {
        let longest = drawn.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest < 4_000, "{longest} characters in a line");
        assert!(drawn.contains("é…"), "it is said that something is missing");
    }
}
