//! HTTP/1 over one connection, as the client and as the server see it.
#![allow(clippy::unwrap_used)]

mod common;
use common::{get, ok, End, Stage, MS, S, T0};
use wirespan_join::{CopyRule, JoinConfig};
use wirespan_model::event::SocketChange;
use wirespan_model::{Direction, Event, Evidence, ExchangeRange, SpanKind, Status, TapSide, TraceId};

#[test]
fn client_and_server_see_the_same_bytes() {
    let mut stage = Stage::new();
    let (mut c, mut s) = (End::client(1), End::server(2));
    s.exchange = 2 << 24 | 1;
    c.cause = 9 << 24 | 4;
    stage.event(c.send(T0, &get("/cart/7")));
    stage.event(s.recv(T0 + MS, &get("/cart/7")));
    stage.event(s.send(T0 + 5 * MS, &ok(10)));
    stage.event(c.recv(T0 + 6 * MS, &ok(10)));
    let [server, client] = &stage.spans[..] else { panic!("{:#?}", stage.spans) };
    assert_eq!((client.tap, client.kind), (TapSide::ClientProcess, SpanKind::Client));
    assert_eq!((server.tap, server.kind), (TapSide::ServerProcess, SpanKind::Server));
    for span in [client, server] {
        assert_eq!(span.name(), "GET /cart/7");
        assert_eq!((span.status, span.status_code), (Status::Ok, Some(200)));
        assert_eq!(span.request_bytes, get("/cart/7").len() as u64);
        assert_eq!(span.response_bytes, ok(10).len() as u64);
        assert_eq!((span.request_seq, span.response_seq), (Some(1000), Some(5000)));
        assert_eq!(span.tuple.server.port, 80);
    }
    assert_eq!(client.wire_keys(), server.wire_keys());
    assert_eq!((client.start_ns, client.end_ns), (T0 - 1000, T0 + 6 * MS));
    assert_eq!((server.start_ns, server.response_ns), (T0 + MS, T0 + 5 * MS - 1000));
    assert_eq!((client.cause, client.cause_evidence), (Some(9 << 24 | 4), Some(Evidence::Thread)));
    assert_eq!((server.cause, client.exchange), (None, None));
    assert_eq!(server.exchange, Some(ExchangeRange { first: 2 << 24 | 1, last: 2 << 24 | 1 }));
    assert_eq!((&*client.comm, &*client.resource.service), ("curl", "svc-100"));
    assert_ne!(client.id, server.id);
    assert!(stage.verdicts().iter().all(|v| v.copy == CopyRule::EveryCall(512) && v.protocol == "http"));
}

#[test]
fn keep_alive_gives_one_span_per_request_and_each_its_own_exchange() {
    let mut stage = Stage::new();
    let mut s = End::server(2);
    for i in 0..5 {
        s.exchange = 2 << 24 | (i + 1);
        stage.event(s.recv(T0 + i * 10 * MS, &get(&format!("/{i}"))));
        stage.event(s.send(T0 + i * 10 * MS + MS, &ok(3)));
    }
    assert_eq!(stage.spans.len(), 5);
    for (i, span) in stage.spans.iter().enumerate() {
        let id = 2 << 24 | (i as u64 + 1);
        assert_eq!(&*span.target, format!("/{i}"));
        assert_eq!(span.exchange, Some(ExchangeRange { first: id, last: id }));
        assert_eq!(span.duration_ns(), MS);
    }
}

#[test]
fn a_body_in_many_calls_ends_with_its_last_byte() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    stage.event(c.send(T0, &get("/big")));
    let whole = ok(100_000);
    stage.event(c.recv(T0 + MS, &whole[..4000]));
    for (i, part) in whole[4000..].chunks(8000).enumerate() {
        assert!(stage.spans.is_empty(), "ended early, before part {i}");
        let mut e = c.call(Direction::Ingress, T0 + (i as u64 + 2) * MS, part);
        e.payload.clear();
        stage.event(Event::Data(e));
    }
    let [span] = &stage.spans[..] else { panic!("{:#?}", stage.spans) };
    assert_eq!(span.response_bytes, whole.len() as u64);
    assert_eq!(span.response_ns, T0 + MS);
    assert_eq!(span.end_ns, T0 + 14 * MS);
}

#[test]
fn calls_out_of_order_and_twice_are_put_right() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    let request = get("/a-long-enough-path");
    let answer = ok(300);
    let q = [c.send(T0, &request[..10]), c.send(T0 + 1, &request[10..20]), c.send(T0 + 2, &request[20..])];
    let a =
        [c.recv(T0 + MS, &answer[..100]), c.recv(T0 + MS + 1, &answer[100..200]), c.recv(T0 + MS + 2, &answer[200..])];
    for e in [&q[0], &q[2], &q[1], &q[1], &a[0], &a[2], &a[1], &a[0]] {
        stage.event(e.clone());
    }
    let [span] = &stage.spans[..] else { panic!("{:#?}", stage.spans) };
    assert_eq!((span.request_bytes, span.response_bytes), (request.len() as u64, answer.len() as u64));
    assert_eq!(span.status, Status::Ok);
    assert_eq!((stage.stat("reordered"), stage.stat("duplicates"), stage.stat("gaps")), (2, 2, 0));
}

#[test]
fn a_hole_in_a_body_is_counted_and_costs_nothing_else() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    let answer = ok(3000);
    stage.event(c.send(T0, &get("/")));
    stage.event(c.recv(T0 + MS, &answer[..1000]));
    let _lost = c.recv(T0 + MS, &answer[1000..2000]);
    stage.event(c.recv(T0 + MS, &answer[2000..]));
    assert!(stage.spans.is_empty());
    stage.tick(T0 + 150 * MS);
    let [span] = &stage.spans[..] else { panic!("{:#?}", stage.spans) };
    assert_eq!((span.response_bytes, span.end_ns), (answer.len() as u64, T0 + MS));
    assert_eq!((stage.stat("gaps"), stage.stat("gap_bytes")), (1, 1000));
}

#[test]
fn pipelined_requests_pair_in_order_and_ask_for_every_call() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    let both = [get("/1"), get("/2")].concat();
    stage.event(c.send(T0, &both));
    stage.event(c.send(T0 + 1, &get("/3")));
    assert_eq!(stage.verdicts().last().unwrap().copy, CopyRule::EveryCall(JoinConfig::default().pipelined_bytes));
    stage.event(c.recv(T0 + MS, &[ok(1), ok(2)].concat()));
    stage.event(c.recv(T0 + 2 * MS, &ok(3)));
    let seen: Vec<_> = stage.spans.iter().map(|s| (s.target.to_string(), s.response_bytes)).collect();
    let len = |n| ok(n).len() as u64;
    assert_eq!(seen, [("/1".into(), len(1)), ("/2".into(), len(2)), ("/3".into(), len(3))]);
    let ids: std::collections::HashSet<_> = stage.spans.iter().map(|s| s.id).collect();
    assert_eq!(ids.len(), 3);
    assert_eq!(stage.spans[1].request_seq, Some(1000 + get("/1").len() as u32));
}

#[test]
fn a_missing_response_is_reported_and_a_late_one_answers_nobody_else() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    stage.event(c.send(T0, &get("/slow")));
    for t in 1..900 {
        stage.tick(T0 + t * S);
    }
    assert!(stage.spans.is_empty());
    stage.tick(T0 + 901 * S);
    assert_eq!((stage.spans[0].status, &*stage.spans[0].target), (Status::NoResponse, "/slow"));
    stage.event(c.send(T0 + 902 * S, &get("/next")));
    stage.event(c.recv(T0 + 903 * S, &ok(1)));
    stage.event(c.recv(T0 + 904 * S, &ok(2)));
    stage.tick(T0 + 910 * S);
    assert_eq!(stage.spans.len(), 3, "{:#?}", stage.spans);
    let late = stage.spans.iter().find(|s| s.status == Status::NoRequest).unwrap();
    assert!(late.attrs.iter().any(|(k, _)| k == "wirespan.late"));
    let next = stage.spans.iter().find(|s| &*s.target == "/next").unwrap();
    assert_eq!((next.status, next.response_bytes), (Status::Ok, ok(2).len() as u64));
    assert_eq!((stage.stat("no_response"), stage.stat("late_responses")), (1, 1));
}

#[test]
fn an_answer_after_minutes_is_that_of_its_request() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    stage.event(c.send(T0, &get("/report")));
    for t in 1..=300 {
        stage.tick(T0 + t * S);
    }
    stage.event(c.recv(T0 + 300 * S, &ok(1)));
    let [span] = &stage.spans[..] else { panic!("{:#?}", stage.spans) };
    assert_eq!((span.status, span.end_ns), (Status::Ok, T0 + 300 * S));
}

#[test]
fn an_event_of_the_future_does_not_end_the_windows_of_others() {
    let mut stage = Stage::new();
    stage.tick(T0);
    let (mut c, mut other) = (End::client(1), End::client(3));
    stage.event(c.send(T0, &get("/")));
    stage.event(other.send(T0 + 10_000 * S, &get("/")));
    stage.tick(T0 + S);
    assert!(stage.spans.is_empty());
    stage.event(c.recv(T0 + S, &ok(1)));
    assert_eq!(stage.spans[0].status, Status::Ok);
}

#[test]
fn without_a_clock_the_time_of_events_counts() {
    let mut stage = Stage::new();
    let (mut c, mut other) = (End::client(1), End::client(3));
    stage.event(c.send(T0, &get("/")));
    stage.event(other.send(T0 + 1_000 * S, &get("/")));
    assert_eq!(stage.spans[0].status, Status::NoResponse);
}

#[test]
fn joined_in_the_middle_the_first_response_has_no_request() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    stage.event(c.recv(T0, &ok(5)));
    stage.event(c.send(T0 + MS, &get("/x")));
    stage.event(c.recv(T0 + 2 * MS, &ok(6)));
    stage.finish();
    let seen: Vec<_> = stage.spans.iter().map(|s| (s.status, s.target.to_string())).collect();
    assert_eq!(seen, [(Status::NoRequest, String::new()), (Status::Ok, "/x".into())]);
    assert_eq!((stage.spans[0].request_seq, stage.spans[0].response_seq), (None, Some(5000)));
    assert_eq!(stage.spans[0].tap, TapSide::ClientProcess);
}

#[test]
fn a_response_seen_before_its_request_still_finds_it() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    stage.event(c.send(T0, &get("/0")));
    stage.event(c.recv(T0 + MS, &ok(1)));
    // Two threads, two processors: the ring shows the answer first.
    let q = c.send(T0 + 2 * MS, &get("/1"));
    let a = c.recv(T0 + 3 * MS, &ok(2));
    stage.event(a);
    stage.event(q);
    assert_eq!(stage.spans.len(), 2, "{:#?}", stage.spans);
    let span = &stage.spans[1];
    assert_eq!((&*span.target, span.status, span.status_code), ("/1", Status::Ok, Some(200)));
    assert_eq!((span.end_ns, span.response_bytes), (T0 + 3 * MS, ok(2).len() as u64));
}

#[test]
fn a_reset_or_close_before_the_response_is_the_status() {
    for (change, status, error) in
        [(SocketChange::Reset(104), Status::Reset, "ECONNRESET"), (SocketChange::Close, Status::Closed, "")]
    {
        let mut stage = Stage::new();
        let mut c = End::client(1);
        stage.event(c.send(T0, &get("/")));
        stage.event(c.change(T0 + MS, change));
        stage.tick(T0 + S);
        let [span] = &stage.spans[..] else { panic!("{:#?}", stage.spans) };
        assert_eq!((span.status, &*span.error), (status, error));
        assert_eq!((span.end_ns, span.tcp.srtt_ns, span.tcp.retransmits), (T0 + MS, 70_000, 0));
        assert_eq!(stage.joiner.connections(), 0);
    }
}

#[test]
fn a_close_inside_a_response_says_how_much_came() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    stage.event(c.send(T0, &get("/")));
    stage.event(c.recv(T0 + MS, &ok(1000)[..500]));
    stage.event(c.change(T0 + 2 * MS, SocketChange::Close));
    stage.tick(T0 + S);
    let [span] = &stage.spans[..] else { panic!("{:#?}", stage.spans) };
    assert_eq!((span.status, span.status_code), (Status::Closed, Some(200)));
    let error = format!("closed after 500 of {} bytes of the response", ok(1000).len());
    assert_eq!(&*span.error, error);
}

#[test]
fn a_head_that_the_close_cut_short_is_still_a_request() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    stage.event(c.send(T0, &get("/first")));
    stage.event(c.recv(T0 + MS, &ok(0)));
    stage.event(c.send(T0 + 2 * MS, b"GET /second HTTP/1.1\r\nHost: x\r\n"));
    stage.event(c.change(T0 + 3 * MS, SocketChange::Close));
    stage.tick(T0 + S);
    let [_, span] = &stage.spans[..] else { panic!("{:#?}", stage.spans) };
    assert_eq!((&*span.target, span.status), ("/second", Status::Closed));
}

#[test]
fn a_response_until_close_ends_with_its_last_byte() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    stage.event(c.send(T0, b"GET / HTTP/1.0\r\n\r\n"));
    stage.event(c.recv(T0 + MS, b"HTTP/1.0 200 OK\r\n\r\nsome"));
    stage.event(c.recv(T0 + 2 * MS, b" text"));
    stage.event(c.change(T0 + 9 * MS, SocketChange::Close));
    stage.tick(T0 + S);
    let [span] = &stage.spans[..] else { panic!("{:#?}", stage.spans) };
    assert_eq!((span.status, span.end_ns, span.response_bytes), (Status::Ok, T0 + 2 * MS, 28));
}

#[test]
fn chunked_bytes_that_were_not_captured_end_by_silence_or_by_the_next_request() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2710\r\n";
    for (i, at) in [T0, T0 + 10 * S].into_iter().enumerate() {
        stage.event(c.send(at, &get(&format!("/{i}"))));
        stage.event(c.recv(at + MS, head));
        let mut rest = c.call(Direction::Ingress, at + 2 * MS, &[b'x'; 10_007]);
        rest.payload.clear();
        stage.event(Event::Data(rest));
        if i == 0 {
            stage.tick(at + 500 * MS);
        }
    }
    stage.event(c.send(T0 + 10 * S + 3 * MS, &get("/2")));
    stage.event(c.recv(T0 + 10 * S + 4 * MS, &ok(1)));
    stage.finish();
    let seen: Vec<_> = stage.spans.iter().map(|s| (s.target.to_string(), s.status, s.duration_ns())).collect();
    let d = 2 * MS + 1000;
    assert_eq!(
        seen,
        [("/0".into(), Status::Ok, d), ("/1".into(), Status::Ok, d), ("/2".into(), Status::Ok, MS + 1000)]
    );
}

#[test]
fn continue_is_part_of_one_exchange_of_several_runs() {
    let mut stage = Stage::new();
    let mut s = End::server(2);
    s.exchange = 2 << 24 | 1;
    stage.event(s.recv(T0, b"POST /up HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"));
    stage.event(s.send(T0 + MS, b"HTTP/1.1 100 Continue\r\n\r\n"));
    s.exchange += 1;
    stage.event(s.recv(T0 + 2 * MS, b"hello"));
    stage.event(s.send(T0 + 3 * MS, b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"));
    let [span] = &stage.spans[..] else { panic!("{:#?}", stage.spans) };
    assert_eq!((span.status_code, span.duration_ns()), (Some(201), 3 * MS));
    assert_eq!(span.exchange, Some(ExchangeRange { first: 2 << 24 | 1, last: 2 << 24 | 2 }));
}

#[test]
fn the_carried_context_and_request_id_stand_on_the_span() {
    let mut stage = Stage::new();
    let mut s = End::server(2);
    let q = b"GET / HTTP/1.1\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\r\n";
    stage.event(s.recv(T0, q));
    stage.event(s.send(T0 + MS, b"HTTP/1.1 204 No Content\r\nX-Request-ID: r-1\r\n\r\n"));
    let [span] = &stage.spans[..] else { panic!("{:#?}", stage.spans) };
    assert_eq!(span.trace_id.unwrap().to_string(), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(span.parent_span_id.unwrap().to_string(), "b7ad6b7169203331");
    assert_eq!(span.request_id.as_deref(), Some("r-1"));
}

#[test]
fn the_context_of_skywalking_names_a_span_and_keeps_its_own_trace_id() {
    let mut stage = Stage::new();
    let mut s = End::server(2);
    let q = b"GET / HTTP/1.1\r\nsw8: 1-YWJjLjEuMg==-c2VnbWVudA==-3-c3Zj-aW5zdA==-L2VuZA==-YTo4MA==\r\n\r\n";
    stage.event(s.recv(T0, q));
    stage.event(s.send(T0 + MS, &ok(10)));
    let [span] = &stage.spans[..] else { panic!("{:#?}", stage.spans) };
    assert_eq!(span.trace_id, Some(TraceId::of_foreign("abc.1.2")));
    assert!(span.parent_span_id.is_some() && span.carries_foreign_trace());
}

#[test]
fn an_upgrade_to_an_unknown_protocol_is_reported_by_its_bytes() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    stage.event(c.send(T0, b"GET /ws HTTP/1.1\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n\r\n"));
    stage.event(c.recv(T0 + MS, b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n\r\n"));
    stage.event(c.send(T0 + 2 * MS, b"\x81\x85abcdefghi"));
    stage.event(c.recv(T0 + 3 * MS, b"\x81\x05hello"));
    stage.event(c.change(T0 + 4 * MS, SocketChange::Close));
    stage.tick(T0 + S);
    let seen: Vec<_> = stage.spans.iter().map(|s| (s.protocol.to_string(), s.status_code)).collect();
    assert_eq!(seen, [("http".to_string(), Some(101)), ("tcp".to_string(), None)]);
    assert_eq!((stage.spans[1].request_bytes, stage.spans[1].response_bytes), (11, 7));
}

#[test]
fn connections_are_bounded() {
    let mut stage = Stage::with(JoinConfig { max_connections: 10, ..JoinConfig::default() });
    for i in 0..100 {
        let mut c = End::client(i + 1);
        stage.event(c.send(T0 + i, &get("/")));
    }
    assert_eq!(stage.joiner.connections(), 10);
    assert_eq!(stage.stat("evicted_connections"), 90);
    assert_eq!(stage.spans.len(), 90);
    stage.finish();
    assert_eq!(stage.spans.len(), 100);
    assert_eq!(stage.joiner.buffered(), 0);
}
