//! The tree of a trace.
#![allow(clippy::unwrap_used)]

mod world;
use std::sync::Arc;
use wirespan_model::{hop, Span, SpanId, TapSide, Value};
use wirespan_trace::link;
use wirespan_trace::tree::{text, trace_json, TextOptions};
use world::{failing_shop, proc, World, MS, T0, US};

#[test]
fn a_tree_of_lines() {
    let w = failing_shop();
    let spans: Vec<Arc<Span>> = w.arcs().into_iter().filter(|s| s.start_ns >= T0 + 900 * MS).collect();
    let traces = link(spans);
    let shown = text(&traces[0], TextOptions::default());
    println!("{shown}");
    let lines: Vec<&str> = shown.lines().collect();
    assert!(
        lines[0].contains("4 spans") && lines[0].contains("2 services") && lines[0].contains("19.9ms"),
        "{}",
        lines[0]
    );
    assert!(lines[1].starts_with("● gateway  GET /gateway"));
    assert!(lines[2].starts_with("└─ → gateway  GET /gateway  to 10.0.0.2:80"));
    assert!(lines[2].contains("thread 0.98"));
    assert!(lines[3].starts_with("   └─ ● cart  GET /cart"));
    assert!(lines[3].contains("hop 100µs ± 9.90µs  there ?  back ?") && lines[3].ends_with("wire 1.00"));
    assert!(lines[4].starts_with("      └─ → cart") && lines[4].ends_with("ECONNRESET"));
    let columns: Vec<usize> = lines[1..].iter().map(|l| l[..l.find("+").unwrap()].chars().count()).collect();
    assert!(columns.windows(2).all(|c| c[0].abs_diff(c[1]) <= 6), "aligned: {columns:?}");
    assert!(!shown.contains('\x1b'));
    let coloured = text(&traces[0], TextOptions { color: true, ..TextOptions::default() });
    assert_eq!(coloured.matches("\x1b[31m").count(), 1);
}

#[test]
fn text_from_the_wire_does_not_command_the_terminal() {
    let mut w = World::default();
    let c = w.call(None, proc(1, 1, "a"), proc(1, 2, "b"), T0, T0 + MS);
    w.spans[c.client].target = "/\x1b[2J\n\u{9b}1m".into();
    w.spans[c.client].error = "\x07".into();
    let shown = text(&link(w.arcs())[0], TextOptions::default());
    assert_eq!(shown.lines().count(), 3);
    assert!(!shown.contains(['\x1b', '\x07', '\u{9b}']));
}

#[test]
fn a_device_on_the_way_has_its_name_its_hop_and_its_losses() {
    let mut w = World::default();
    let c = w.call(None, proc(1, 1, "a"), proc(1, 2, "b"), T0, T0 + 9 * MS);
    let end = w.spans[c.client].clone();
    let word = |key: &'static str, text: &str| (key.into(), Value::Str(text.into()));
    let number = |key: &'static str, n: i64| (key.into(), Value::Int(n));
    let nic = Span {
        id: SpanId(77),
        tap: TapSide::ClientNic,
        pid: 0,
        exchange: None,
        start_ns: end.start_ns + 10 * US,
        end_ns: end.end_ns - 10 * US,
        attrs: vec![
            number(hop::POSITION, 2),
            number(hop::ROUND_TRIP, 20_000),
            number(hop::REQUEST, 10_000),
            number(hop::RESPONSE, 10_000),
            number(hop::QUEUE, 4_000_000),
            number(hop::DROPPED, 2),
            word(hop::DROP_REASON, "QDISC_DROP"),
            word(hop::DEVICE, "eth0"),
            word(hop::NETNS, "shop"),
        ],
        ..end
    };
    w.spans.push(nic);
    let shown = text(&link(w.arcs())[0], TextOptions::default());
    let line = shown.lines().find(|line| line.contains("· eth0 in shop")).unwrap_or_else(|| panic!("{shown}"));
    assert!(line.contains("hop 20.0µs  there 10.0µs  back 10.0µs"), "{shown}");
    assert!(line.contains("2 dropped (QDISC_DROP)") && line.contains("in its queue 4.00ms"), "{shown}");
}

#[test]
fn a_time_between_hosts_that_may_be_nothing_is_told_by_its_upper_bound() {
    let mut w = World::default();
    let call = w.call(None, proc(1, 2, "shop"), proc(2, 3, "cart"), T0, T0 + 20 * MS);
    let number = |key: &'static str, n: i64| (key.into(), Value::Int(n));
    w.spans[call.server].attrs = vec![
        number(hop::ROUND_TRIP, 240_000),
        number(hop::REQUEST, 61_000),
        number(hop::REQUEST_ERROR, 12_000),
        number(hop::RESPONSE, 88_100),
        number(hop::RESPONSE_ERROR, 88_100),
    ];
    let shown = text(&link(w.arcs())[0], TextOptions::default());
    assert!(shown.contains("hop 240µs  there 61.0µs ± 12.0µs  back at most 176µs"), "{shown}");
}

#[test]
fn the_way_back_is_that_of_the_first_byte_of_the_response() {
    let mut w = World::default();
    let call = w.call(None, proc(1, 2, "shop"), proc(1, 3, "cart"), T0, T0 + 20 * MS);
    let [client, server] = [call.client, call.server];
    // The last byte is read long after the first one.
    w.spans[server].response_ns = w.spans[server].end_ns - 5 * MS;
    w.spans[client].response_ns = w.spans[server].response_ns + 11 * US;
    let shown = text(&link(w.arcs())[0], TextOptions::default());
    assert!(shown.contains(" back 11.0µs"), "{shown}");
}

#[test]
fn a_call_that_waits_for_work_says_so() {
    let mut w = World::default();
    let call = w.call(None, proc(1, 2, "worker"), proc(1, 3, "kafka"), T0, T0 + 500 * MS);
    for span in [call.client, call.server] {
        (w.spans[span].protocol, w.spans[span].operation) = ("kafka".into(), "Fetch".into());
    }
    let shown = text(&link(w.arcs())[0], TextOptions::default());
    assert_eq!(shown.matches("waits for work").count(), 2, "{shown}");
}

#[test]
fn very_deep_and_very_wide_trees_stay_readable() {
    let mut w = World::default();
    let mut up = None;
    for i in 0..300u32 {
        let inset = u64::from(i) * 200 * US;
        up = Some(w.call(up, proc(1, i + 1, "s"), proc(1, i + 2, "s"), T0 + inset, T0 + 1000 * MS - inset));
    }
    let shown = text(&link(w.arcs())[0], TextOptions { color: false, width: 100 });
    assert_eq!(shown.lines().count(), 601);
    assert!(shown.lines().all(|l| l.chars().count() < 240));
    assert!(shown.contains("[599] "));
}

#[test]
fn json_uses_opentelemetry_names() {
    let w = failing_shop();
    let traces = link(w.arcs());
    let v = trace_json(traces.last().unwrap());
    let spans = v["spans"].as_array().unwrap();
    assert_eq!(spans.len(), 4);
    assert_eq!(v["traceId"].as_str().unwrap().len(), 32);
    assert!(spans[0].get("parentSpanId").is_none());
    assert_eq!(spans[1]["parentSpanId"], spans[0]["spanId"]);
    assert_eq!(spans[1]["wirespan.evidence"], "thread");
    assert_eq!(spans[1]["service.name"], "gateway");
    assert_eq!(spans[1]["server.address"], "10.0.0.2");
    assert_eq!(spans[1]["server.port"], 80);
    assert_eq!((&spans[3]["status"], &spans[3]["error"]), (&"reset".into(), &true.into()));
    assert_eq!(spans[3]["network.protocol.name"], "redis");
}
