//! Drivers' housekeeping in traces.
#![allow(clippy::unwrap_used)]

mod world;
use std::sync::Arc;
use wirespan_model::{Span, Status, Trace, Value};
use wirespan_trace::{fold, is_noise, link, Stream, StreamConfig};
use world::{cart, check, edge, proc, Call, World, MS, T0, USER};

/// A request of `cart`, and what it asks a database: operation and text, all on one connection unless it is named.
fn handled(w: &mut World, calls: &[(&str, &str)]) -> (Call, Vec<Call>) {
    let request = w.call(None, USER, cart(), T0, T0 + 900 * MS);
    let calls = calls.iter().enumerate().map(|(i, (operation, text))| {
        let t = T0 + (i as u64 + 1) * 10 * MS;
        asked(w, Some(request), t, operation, text)
    });
    (request, calls.collect())
}

fn asked(w: &mut World, cause: Option<Call>, t: u64, operation: &str, text: &str) -> Call {
    let call = w.call(cause, cart(), proc(2, 41, "postgres"), t, t + 2 * MS);
    for (i, socket) in [(call.client, 71), (call.server, 72)] {
        let span = &mut w.spans[i];
        (span.protocol, span.operation, span.socket) = ("postgresql".into(), operation.into(), socket);
        span.target = if text.contains(" items") { "items" } else { "" }.into();
        span.exchange = None;
        span.attrs.push(("db.query.text".into(), Value::from(text)));
    }
    call
}

fn folded(w: &World) -> Trace {
    let mut traces = link(w.arcs());
    assert_eq!(traces.len(), 1);
    fold(&mut traces[0]);
    check(&traces[0]);
    traces.remove(0)
}

fn operations(trace: &Trace) -> Vec<&str> {
    trace.spans.iter().filter(|s| s.span.protocol == "postgresql").map(|s| &*s.span.operation).collect()
}

fn attr<'a>(span: &'a Span, key: &str) -> Option<&'a Value> {
    span.attrs.iter().find(|(k, _)| k == key).map(|(_, v)| v)
}

const QUERY: (&str, &str) = ("SELECT", "SELECT name FROM items WHERE id = $1");
const RESET: (&str, &str) = ("SELECT", "SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL;");

#[test]
fn what_prepares_and_resets_is_told_by_the_query() {
    let mut w = World::default();
    let (_, calls) = handled(&mut w, &[("STARTUP", ""), ("PREPARE", QUERY.1), QUERY, RESET, ("CLOSE", "")]);
    let trace = folded(&w);
    assert_eq!(operations(&trace), ["SELECT", "SELECT"], "both ends of the query");
    let query = &trace.spans.iter().find(|s| s.span.id == w.id(calls[2].client)).unwrap().span;
    assert_eq!(attr(query, "wirespan.housekeeping.count"), Some(&Value::Int(4)));
    assert_eq!(attr(query, "wirespan.housekeeping.duration_ns"), Some(&Value::Int(8 * MS as i64)));
    assert_eq!(attr(query, "wirespan.housekeeping.operations"), Some(&Value::from("STARTUP, PREPARE, SELECT, CLOSE")));
    let server = &trace.spans.iter().find(|s| s.span.id == w.id(calls[2].server)).unwrap().span;
    assert_eq!(attr(server, "wirespan.housekeeping.count"), None, "each is counted once");
}

#[test]
fn each_query_of_a_connection_has_its_own_prepare() {
    let mut w = World::default();
    let update = ("UPDATE", "UPDATE items SET stock = $1");
    let (_, calls) = handled(&mut w, &[("PREPARE", QUERY.1), QUERY, ("PREPARE", update.1), update]);
    let trace = folded(&w);
    for i in [1, 3] {
        let query = &trace.spans.iter().find(|s| s.span.id == w.id(calls[i].client)).unwrap().span;
        assert_eq!(attr(query, "wirespan.housekeeping.count"), Some(&Value::Int(1)));
    }
}

#[test]
fn a_ping_that_is_all_that_a_handler_does_stays() {
    let ping = ("SELECT", "SELECT ?");
    for (calls, shown) in [
        (vec![ping], 2),
        (vec![ping, ping], 4),
        (vec![ping, RESET], 2),
        (vec![ping, QUERY], 2),
        (vec![QUERY, ("PING", "")], 2),
    ] {
        let mut w = World::default();
        handled(&mut w, &calls);
        assert_eq!(operations(&folded(&w)).len(), shown, "{calls:?}");
    }
}

#[test]
fn what_failed_or_took_long_stays() {
    for (status, length, shown) in [(Status::Ok, 2, 2), (Status::ServerError, 2, 4), (Status::Ok, 200, 4)] {
        let mut w = World::default();
        let (_, calls) = handled(&mut w, &[("STARTUP", ""), QUERY]);
        for i in [calls[0].client, calls[0].server] {
            let span = &mut w.spans[i];
            (span.status, span.end_ns) = (status, span.start_ns + length * MS);
        }
        assert_eq!(operations(&folded(&w)).len(), shown, "{status:?} {length}");
    }
}

#[test]
fn another_connection_and_another_request_are_not_charged() {
    let mut w = World::default();
    let (request, calls) = handled(&mut w, &[("PREPARE", QUERY.1)]);
    let query = asked(&mut w, Some(request), T0 + 50 * MS, QUERY.0, QUERY.1);
    w.spans[query.client].socket = 99;
    let trace = folded(&w);
    assert!(trace.spans.iter().any(|s| s.span.id == w.id(calls[0].client)));
    assert!(trace.spans.iter().all(|s| attr(&s.span, "wirespan.housekeeping.count").is_none()));
}

#[test]
fn a_connection_that_was_only_set_up_is_one_span() {
    let mut w = World::default();
    let (_, calls) = handled(&mut w, &[("SSL REQUEST", ""), ("STARTUP", ""), ("SET", "SET application_name = 'x'")]);
    let trace = folded(&w);
    assert_eq!(operations(&trace), ["STARTUP", "STARTUP"]);
    let startup = &trace.spans.iter().find(|s| s.span.id == w.id(calls[1].client)).unwrap().span;
    assert_eq!(attr(startup, "wirespan.housekeeping.count"), Some(&Value::Int(2)));
}

#[test]
fn work_below_a_call_keeps_it() {
    let mut w = World::default();
    let (_, calls) = handled(&mut w, &[("PREPARE", QUERY.1), QUERY]);
    w.spans[calls[0].server].exchange = Some(wirespan_model::ExchangeRange { first: 72 << 24 | 1, last: 72 << 24 | 1 });
    w.call(Some(calls[0]), proc(2, 41, "postgres"), edge(), T0 + 10 * MS + MS / 2, T0 + 11 * MS);
    assert_eq!(operations(&folded(&w)), ["PREPARE", "PREPARE", "SELECT", "SELECT"]);
}

/// A pool's pings and a loop that waits for a port: no request is behind them.
#[test]
fn traces_of_nothing_but_housekeeping_or_probes_are_noise() {
    let mut w = World::default();
    asked(&mut w, None, T0, "PING", "");
    let probe = w.blank(USER, wirespan_model::TapSide::ClientProcess, T0 + MS, T0 + 2 * MS);
    w.spans.push(Span { protocol: "tcp".into(), operation: "connect".into(), status: Status::Reset, ..probe });
    let traces = link(w.arcs());
    assert_eq!((traces.len(), traces.iter().filter(|t| is_noise(t)).count()), (2, 2));
    for i in 0..2 {
        w.spans[i].status = Status::ServerError;
    }
    assert_eq!(link(w.arcs()).iter().filter(|t| is_noise(t)).count(), 1, "a ping that failed is shown");
}

#[test]
fn a_push_without_a_name_makes_no_trace() {
    for (operation, noise) in [("", true), ("MESSAGE", false)] {
        let mut w = World::default();
        let push = w.blank(USER, wirespan_model::TapSide::ClientProcess, T0, T0 + MS);
        let operation = operation.into();
        w.spans.push(Span { protocol: "redis".into(), operation, status: Status::OneWay, ..push });
        assert_eq!(is_noise(&link(w.arcs())[0]), noise);
    }
}

/// A handler whose call is refused: the connection belongs to a request.
#[test]
fn a_refused_connection_of_a_request_stays_in_its_trace() {
    let mut w = World::default();
    let (_, calls) = handled(&mut w, &[QUERY]);
    w.spans.remove(calls[0].server);
    let span = &mut w.spans[calls[0].client];
    (span.protocol, span.operation, span.status) = ("tcp".into(), "connect".into(), Status::Reset);
    let traces = link(w.arcs());
    assert!(!is_noise(&traces[0]));
    assert_eq!(folded(&w).spans.len(), 3);
}

#[test]
fn the_export_folds_and_leaves_out_and_counts_both_unless_it_is_told_not_to() {
    let mut w = World::default();
    handled(&mut w, &[("PREPARE", QUERY.1), QUERY]);
    asked(&mut w, None, T0 + 2000 * MS, "PING", "");
    for (housekeeping, expected) in [(false, (4, 2, 2)), (true, (8, 0, 0))] {
        let mut stream = Stream::new(StreamConfig { housekeeping, ..StreamConfig::default() });
        let mut out: Vec<Trace> = Vec::new();
        w.arcs().into_iter().for_each(|s: Arc<Span>| stream.push(s, &mut |t| out.push(t)));
        stream.finish(&mut |t| out.push(t));
        let spans = out.iter().map(|t| t.spans.len()).sum::<usize>();
        let stats = stream.stats();
        assert_eq!((spans, stats.folded_spans, stats.noise_spans), expected, "{housekeeping}");
    }
}
