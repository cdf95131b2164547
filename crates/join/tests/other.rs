//! Redis, DNS, connections that are not understood, and connections that fail.
#![allow(clippy::unwrap_used)]

mod common;
use common::{end, get, End, Stage, MS, S, T0};
use wirespan_join::{CopyRule, JoinConfig};
use wirespan_model::event::{Actor, SocketChange, TcpTrouble, TroubleKind};
use wirespan_model::{Direction, Endpoint, Event, Role, SocketId, Span, SpanKind, Status, TapSide, Transport};

#[test]
fn redis_pipelining_pairs_in_order() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    c.remote = end(2, 6379);
    stage.event(c.send(T0, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"));
    stage.event(c.send(T0 + 1000, b"*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n"));
    stage.event(c.recv(T0 + MS, b"+OK\r\n$1\r\nv\r\n-ERR value is not an integer\r\n"));
    let seen: Vec<_> = stage.spans.iter().map(|s| (s.operation.to_string(), s.status, s.response_bytes)).collect();
    assert_eq!(seen[0], ("SET".to_string(), Status::Ok, 5));
    assert_eq!(seen[1], ("GET".to_string(), Status::Ok, 7));
    assert_eq!((seen[2].0.as_str(), seen.len()), ("INCR", 3));
    assert!(stage.spans[2].status.is_error(SpanKind::Client), "{:?}", stage.spans[2].status);
    assert_eq!(stage.verdicts().last().unwrap().copy, CopyRule::EveryCall(JoinConfig::default().pipelined_bytes));
}

#[test]
fn lost_bytes_of_a_pipeline_ask_for_whole_calls() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    c.remote = end(2, 6379);
    let ask = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    stage.event(c.send(T0, &ask.repeat(2)));
    let mut cut = c.send(T0 + 1000, &ask.repeat(40));
    if let Event::Data(d) = &mut cut {
        d.payload.truncate(ask.len() * 3);
    }
    stage.event(cut);
    let most = JoinConfig::default().whole_bytes;
    assert_eq!(stage.verdicts().last().unwrap().copy, CopyRule::EveryCall(most));
    stage.event(c.send(T0 + 2000, ask));
    assert!(stage.verdicts().iter().all(|v| v.copy == CopyRule::EveryCall(most)), "never less again");
}

/// The first call of a script has several KiB, and nothing tells before that it comes.
#[test]
fn the_first_calls_of_redis_are_copied_whole() {
    let (mut stage, config) = (Stage::new(), JoinConfig::default());
    let mut c = End::client(1);
    c.remote = end(2, 6379);
    let mut copies = Vec::new();
    for i in 0..20 {
        stage.event(c.send(T0 + i * MS, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"));
        stage.event(c.recv(T0 + i * MS + 1000, b"$1\r\nv\r\n"));
        copies.extend(stage.verdicts().iter().map(|v| v.copy));
    }
    copies.dedup();
    assert_eq!(copies, [config.whole_bytes, config.pipelined_bytes].map(CopyRule::FirstCallOnly));
}

/// A library sends a script of several KiB whole when it calls it for the first time, and pipelines its next command.
#[test]
fn a_request_that_was_cut_shifts_no_response() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    c.remote = end(2, 6379);
    let ask = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    let script = format!("*4\r\n$4\r\nEVAL\r\n$6000\r\n{}\r\n$1\r\n1\r\n$1\r\nk\r\n", "x".repeat(6000));
    let mut cut = c.send(T0, script.as_bytes());
    if let Event::Data(d) = &mut cut {
        d.payload.truncate(4096);
    }
    stage.event(cut);
    stage.event(c.send(T0 + 1000, ask));
    stage.event(c.recv(T0 + MS, b"$1\r\nv\r\n:17\r\n"));
    for i in 2..5 {
        stage.event(c.send(T0 + i * MS, ask));
        stage.event(c.recv(T0 + i * MS + 1000, b"$1\r\nv\r\n"));
    }
    let seen: Vec<_> = stage.spans.iter().map(|s| (&*s.operation, s.status, s.duration_ns())).collect();
    assert_eq!(seen[..2], [("EVAL", Status::Ok, MS + 1000), ("GET", Status::Ok, MS)]);
    assert_eq!(seen[2..], [("GET", Status::Ok, 2000); 3]);
}

/// A DNS message about `example.org`, type A.
fn dns(id: u16, response: bool) -> Vec<u8> {
    let flags: u16 = if response { 0x8180 } else { 0x0100 };
    let mut m = Vec::new();
    for n in [id, flags, 1, u16::from(response), 0, 0] {
        m.extend(n.to_be_bytes());
    }
    m.extend(b"\x07example\x03org\x00\x00\x01\x00\x01");
    if response {
        m.extend(b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x7f\x00\x00\x01");
    }
    m
}

fn resolver() -> End {
    let mut c = End::client(1).udp();
    c.remote = end(53, 53);
    c
}

#[test]
fn dns_pairs_by_id_out_of_order() {
    let mut stage = Stage::new();
    let mut c = resolver();
    for (i, id) in [7, 8, 9].into_iter().enumerate() {
        stage.event(c.send(T0 + i as u64 * MS, &dns(id, false)));
    }
    for (i, id) in [9, 7, 8].into_iter().enumerate() {
        stage.event(c.recv(T0 + (10 + i as u64) * MS, &dns(id, true)));
    }
    let seen: Vec<_> = stage.spans.iter().map(|s| (s.message_id.unwrap(), s.duration_ns() / MS)).collect();
    assert_eq!(seen, [(9, 8), (7, 11), (8, 11)]);
    assert!(stage.spans.iter().all(|s| s.protocol == "dns" && s.name().contains("example.org")));
    assert!(stage.spans.iter().all(|s| s.wire_keys().len() == 1));
    for span in &stage.spans {
        let names: std::collections::HashSet<_> = span.attrs.iter().map(|a| &a.0).collect();
        assert_eq!(names.len(), span.attrs.len(), "an attribute stands once");
    }
}

#[test]
fn a_datagram_sent_again_is_one_request() {
    let mut stage = Stage::new();
    let mut c = resolver();
    stage.event(c.send(T0, &dns(7, false)));
    stage.event(c.send(T0 + 5 * S, &dns(7, false)));
    stage.event(c.recv(T0 + 5 * S + MS, &dns(7, true)));
    stage.event(c.send(T0 + 6 * S, &dns(7, false)));
    stage.event(c.recv(T0 + 6 * S + MS, &dns(7, true)));
    assert_eq!(stage.spans.len(), 2, "{:#?}", stage.spans);
    assert_eq!(stage.spans[0].duration_ns() / MS, 5001);
    assert!(stage.spans[0].attrs.iter().any(|(k, v)| k == "wirespan.retries" && v.to_string() == "1"));
    assert_eq!(stage.stat("datagram_retries"), 1);
}

#[test]
fn one_server_socket_serves_many_ends() {
    let mut stage = Stage::new();
    for i in 0..20u16 {
        let mut s = End::server(2).udp();
        s.local = end(53, 53);
        s.remote = end(9, 2000 + i);
        stage.event(s.recv(T0 + u64::from(i) * 1000, &dns(1, false)));
    }
    for i in (0..20u16).rev() {
        let mut s = End::server(2).udp();
        s.local = end(53, 53);
        s.remote = end(9, 2000 + i);
        stage.event(s.send(T0 + MS + u64::from(i) * 1000, &dns(1, true)));
    }
    assert_eq!(stage.spans.len(), 20);
    assert!(stage.spans.iter().all(|s| s.status == Status::Ok && s.tap == TapSide::ServerProcess));
    assert!(stage.spans.iter().all(|s| s.duration_ns() == MS));
    stage.tick(T0 + 200 * S);
    assert_eq!(stage.joiner.connections(), 0, "forgotten after a while");
    assert_eq!(stage.spans.len(), 20, "and nothing more to tell");
}

#[test]
fn an_unrecognised_protocol_gives_one_span_per_connection() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    c.cause = 5 << 24 | 1;
    stage.event(c.change(T0, SocketChange::Open));
    for i in 0..20u64 {
        stage.event(c.send(T0 + i * MS, &[0xde, 0xad, 0xbe, 0xef, i as u8]));
        stage.event(c.recv(T0 + i * MS + 1000, &[0xfe; 100]));
    }
    stage.event(c.change(T0 + S, SocketChange::Close));
    stage.tick(T0 + 2 * S);
    let [span] = &stage.spans[..] else { panic!("{:#?}", stage.spans) };
    assert_eq!((&*span.protocol, span.status, span.kind), ("tcp", Status::Ok, SpanKind::Client));
    assert_eq!((span.request_bytes, span.response_bytes), (100, 2000));
    assert_eq!((span.start_ns, span.end_ns), (T0 - 1000, T0 + S));
    assert_eq!((span.tcp.srtt_ns, span.tcp.retransmits, span.cause), (70_000, 2, Some(5 << 24 | 1)));
    assert_eq!((span.request_seq, span.response_seq), (Some(1000), Some(5000)));
    let last = stage.verdicts().pop().unwrap();
    assert_eq!((last.protocol, last.copy), ("", CopyRule::EveryCall(0)));
    assert_eq!(stage.stat("unknown_protocol"), 1);
}

#[test]
fn a_long_connection_reports_each_period() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    for i in 0..300u64 {
        stage.event(c.send(T0 + i * S, &[0xde, 0xad, 0xbe, 0xef]));
    }
    stage.event(c.change(T0 + 300 * S, SocketChange::Reset(104)));
    stage.finish();
    let bytes: u64 = stage.spans.iter().map(|s| s.request_bytes).sum();
    assert_eq!(bytes, 1200);
    assert!((5..=7).contains(&stage.spans.len()), "{}", stage.spans.len());
    let (last, earlier) = stage.spans.split_last().unwrap();
    assert!(earlier.iter().all(|s| s.status == Status::Unset));
    assert_eq!((last.status, &*last.error), (Status::Reset, "ECONNRESET"));
    let ids: std::collections::HashSet<_> = stage.spans.iter().map(|s| s.id).collect();
    assert_eq!(ids.len(), stage.spans.len());
}

#[test]
fn a_failed_connect_is_a_span() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    c.cause = 5 << 24 | 1;
    stage.event(c.change(T0, SocketChange::ConnectFailed(111)));
    stage.tick(T0 + S);
    let [span] = &stage.spans[..] else { panic!("{:#?}", stage.spans) };
    assert_eq!((span.status, &*span.error, span.status_code), (Status::Reset, "ECONNREFUSED", Some(111)));
    assert_eq!((span.name().as_str(), span.cause), ("connect 10.0.0.2:80", Some(5 << 24 | 1)));
    assert_eq!(stage.joiner.connections(), 0);
}

#[test]
fn a_reset_of_an_unknown_connection_is_a_span() {
    let mut stage = Stage::new();
    let c = End::client(1);
    stage.event(c.change(T0, SocketChange::Close));
    assert_eq!(stage.joiner.connections(), 0);
    stage.event(c.change(T0, SocketChange::Reset(104)));
    stage.tick(T0 + S);
    let [span] = &stage.spans[..] else { panic!("{:#?}", stage.spans) };
    assert_eq!((span.status, span.request_bytes, span.duration_ns()), (Status::Reset, 0, 0));
}

#[test]
fn a_failed_send_makes_the_close_a_reset() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    stage.event(c.send(T0, &get("/")));
    let mut failed = c.call(Direction::Ingress, T0 + MS, b"");
    failed.errno = 104;
    stage.event(Event::Data(failed));
    stage.event(c.change(T0 + 2 * MS, SocketChange::Close));
    stage.tick(T0 + S);
    assert_eq!((stage.spans[0].status, &*stage.spans[0].error), (Status::Reset, "ECONNRESET"));
}

#[test]
fn the_connecting_thread_is_evidence_if_the_sender_is_unknown() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    c.cause = 5 << 24 | 1;
    stage.event(c.change(T0, SocketChange::Open));
    c.cause = 0;
    for i in 1..3 {
        stage.event(c.send(T0 + i * MS, &get("/")));
        stage.event(c.recv(T0 + i * MS + 1000, b"HTTP/1.1 204 No Content\r\n\r\n"));
    }
    let causes: Vec<_> = stage.spans.iter().map(|s| s.cause).collect();
    assert_eq!(causes, [Some(5 << 24 | 1), None], "only the first request of the connection");
    assert_eq!(stage.spans[0].cause_evidence, Some(wirespan_model::Evidence::Connect));
}

#[test]
fn a_capture_file_has_no_process_and_learns_roles_from_requests() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    c.actor = Actor::default();
    c.role = Role::Unknown;
    stage.event(c.send(T0, &get("/")));
    stage.event(c.recv(T0 + MS, b"HTTP/1.1 204 No Content\r\n\r\n"));
    let [span] = &stage.spans[..] else { panic!("{:#?}", stage.spans) };
    assert_eq!((span.tap, span.kind, span.pid), (TapSide::Capture, SpanKind::Client, 0));
    assert_eq!((span.tuple.client, span.tuple.server), (end(1, 40000), end(2, 80)));
    assert!(stage.verdicts().is_empty(), "nobody to give a verdict to");
    // And the other way round: the "local" end of the capture is the server.
    let mut stage = Stage::new();
    let mut s = End::server(1);
    s.actor = Actor::default();
    s.role = Role::Unknown;
    stage.event(s.recv(T0, &get("/")));
    stage.event(s.send(T0 + MS, b"HTTP/1.1 204 No Content\r\n\r\n"));
    assert_eq!(stage.spans[0].tuple.server, end(2, 80));
    assert_eq!(stage.spans[0].status, Status::Ok);
}

#[test]
fn unix_sockets_are_read_like_others() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    (c.transport, c.seq) = (Transport::UnixStream, [None, None]);
    (c.local, c.remote) = (Endpoint::UNSPECIFIED, Endpoint::UNSPECIFIED);
    stage.event(c.send(T0, &get("/docker")));
    stage.event(c.recv(T0 + MS, b"HTTP/1.1 204 No Content\r\n\r\n"));
    assert_eq!((stage.spans[0].name().as_str(), stage.spans[0].request_seq), ("GET /docker", None));
}

#[test]
fn waiting_requests_are_bounded() {
    let mut stage = Stage::with(JoinConfig { max_pending: 16, ..JoinConfig::default() });
    let mut c = resolver();
    for id in 0..1000u16 {
        stage.event(c.send(T0 + u64::from(id), &dns(id, false)));
    }
    assert_eq!(stage.spans.len(), 984);
    assert_eq!((stage.stat("pending_overflow"), stage.stat("no_response")), (984, 984));
    stage.finish();
    assert_eq!(stage.spans.len(), 1000);
}

#[test]
fn an_idle_silent_connection_costs_no_time() {
    let mut stage = Stage::new();
    for i in 0..1000 {
        let mut c = End::client(i + 1);
        stage.event(c.send(T0, &get("/")));
        stage.event(c.recv(T0 + MS, b"HTTP/1.1 204 No Content\r\n\r\n"));
    }
    assert_eq!(stage.spans.len(), 1000);
    for i in 0..100 {
        stage.tick(T0 + i * S);
    }
    assert_eq!((stage.spans.len(), stage.joiner.connections()), (1000, 1000));
}

#[test]
fn retransmissions_count_on_the_span_whose_bytes_they_hold() {
    let again = |socket, at, from, to| {
        let kind = TroubleKind::Retransmit { from, to, segments: 1 };
        Event::Trouble(TcpTrouble { socket: SocketId(socket), kind, direction: Direction::Egress, time_ns: at })
    };
    let get = |n| format!("GET /{n} HTTP/1.1\r\nhost: x\r\n\r\n").into_bytes();
    let ok = b"HTTP/1.1 204 No Content\r\n\r\n".to_vec();
    let (q, a) = (get(1).len() as u32, ok.len() as u32);
    let mut stage = Stage::with(JoinConfig { settle_ns: 300 * MS, ..JoinConfig::default() });
    let (mut c, mut s) = (End::client(1), End::server(2));
    for n in 1..=3u64 {
        let at = T0 + n * 10 * MS;
        stage.event(c.send(at, &get(n)));
        if n == 2 {
            stage.event(again(1, at + MS, 1000 + q, 1000 + 2 * q));
        }
        stage.event(s.recv(at + 2 * MS, &get(n)));
        stage.event(s.send(at + 3 * MS, &ok));
        stage.event(c.recv(at + 4 * MS, &ok));
    }
    // A server's span waits for news of its answer; the third is lost twice.
    let server = |s: &&Span| s.tap == TapSide::ServerProcess;
    assert_eq!((stage.spans.len(), stage.spans.iter().filter(server).count()), (3, 0));
    stage.event(again(2, T0 + 240 * MS, 5000 + 2 * a, 5000 + 3 * a));
    stage.tick(T0 + 400 * MS);
    assert_eq!(stage.spans.iter().filter(server).count(), 2);
    stage.event(again(2, T0 + 640 * MS, 5000 + 2 * a, 5000 + 3 * a));
    stage.tick(T0 + 2 * S);
    let of = |server: bool| {
        let mine = stage.spans.iter().filter(|s| (s.tap == TapSide::ServerProcess) == server);
        mine.map(|s| (s.target.to_string(), s.tcp.retransmits)).collect::<Vec<_>>()
    };
    let told = |again: [u32; 3]| (1..=3).map(|n| format!("/{n}")).zip(again).collect::<Vec<_>>();
    assert_eq!(of(false), told([0, 1, 0]));
    assert_eq!(of(true), told([0, 0, 2]));
}

#[test]
fn protocols_that_need_whole_calls_ask_for_them() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    c.remote = end(2, 27017);
    // OP_COMPRESSED around OP_MSG, by snappy (1) and by zstd (3).
    let packed = |id: u8, compressor: u8| {
        let body = [&2013i32.to_le_bytes()[..], &[40, 0, 0, 0, compressor], &[0; 32]].concat();
        [&[57, 0, 0, 0, id, 0, 0, 0, 0, 0, 0, 0], &2012i32.to_le_bytes()[..], &body].concat()
    };
    let config = JoinConfig::default();
    stage.event(c.send(T0, &packed(1, 1)));
    assert_eq!(stage.verdicts().last().unwrap().copy, CopyRule::EveryCall(config.copy_bytes));
    stage.event(c.send(T0 + MS, &packed(2, 3)));
    assert_eq!(stage.verdicts().last().unwrap().copy, CopyRule::EveryCall(config.whole_bytes));
}

/// The kernel has one rule for a socket, and a server's socket of datagrams has many clients.
#[test]
fn a_client_that_is_not_understood_takes_no_bytes_of_others() {
    let mut stage = Stage::new();
    let query = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04shop\x04test\x00\x00\x01\x00\x01";
    let mut answer = query.to_vec();
    answer[2..4].copy_from_slice(b"\x81\x80");
    let peer = |port: u16, understood: bool, stage: &mut Stage| {
        let mut s = End::server(1).udp();
        (s.local, s.remote) = (end(2, 53), end(1, port));
        s.role = Role::Unknown;
        for i in 0..8 {
            let at = T0 + u64::from(port) * S + i * MS;
            stage.event(s.recv(at, if understood { query } else { b"what is this?" }));
            stage.event(s.send(at + 1000, if understood { &answer } else { b"nothing" }));
        }
        stage.verdicts().last().map(|v| v.copy)
    };
    let understood = peer(1, true, &mut stage).unwrap();
    assert!(matches!(understood, CopyRule::EveryCall(1..)), "{understood:?}");
    assert_eq!(peer(2, false, &mut stage), Some(understood));
    // Nobody is understood: a client may still begin with a handshake of QUIC.
    let mut other = Stage::new();
    assert_eq!(peer(3, false, &mut other), Some(CopyRule::LongHeaders(4096)));
}
