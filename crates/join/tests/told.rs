//! An end of TLS that no library shows gets its spans from what the other end reads.
#![allow(clippy::unwrap_used)]

mod common;
use common::{get, ok, End, Stage, MS, T0};
use wirespan_model::{DataEvent, Direction, Event, Span, TapSide};

/// A record of this type around so many bytes, as TLS 1.3 makes it.
fn record(kind: u8, plaintext: usize) -> Vec<u8> {
    let body = plaintext + 17;
    let mut r = vec![kind, 3, 3, (body >> 8) as u8, body as u8];
    r.resize(5 + body, 0xa5);
    r
}

/// Plaintext that a library took or gave, of the ciphertext that begins at `seq`.
fn plain(end: &End, direction: Direction, at: u64, bytes: &[u8], seq: Option<u32>) -> Event {
    let mut e = end.clone();
    e.seq = [None, None];
    Event::Data(DataEvent { seq, plaintext: true, ..e.call(direction, at, bytes) })
}

fn shake_hands(stage: &mut Stage, client: &mut End, server: &mut End) {
    let steps = [record(22, 500), [record(22, 90), record(20, 1), record(23, 900)].concat(), record(23, 36)];
    for (i, bytes) in steps.iter().enumerate() {
        let (from, to) = if i == 1 { (&mut *server, &mut *client) } else { (&mut *client, &mut *server) };
        let sent = from.send(T0 - MS, bytes);
        stage.event(sent);
        let received = to.recv(T0 - MS, bytes);
        stage.event(received);
    }
}

fn of(spans: &[Span], tap: TapSide) -> Vec<&Span> {
    spans.iter().filter(|s| s.tap == tap && &*s.target == "/told").collect()
}

#[test]
fn a_client_that_is_not_read_gets_its_span_from_the_server() {
    let mut stage = Stage::new();
    let (mut c, mut s) = (End::client(1), End::server(2));
    shake_hands(&mut stage, &mut c, &mut s);
    (c.cause, s.exchange) = (9 << 24 | 4, 2 << 24 | 3);
    let (request, answer) = (get("/told"), ok(3000));
    let (asked, answered) = (record(23, request.len()), record(23, answer.len()));
    let at = [c.seq[1], s.seq[1]];
    stage.event(c.send(T0, &asked));
    stage.event(s.recv(T0 + MS, &asked));
    stage.event(plain(&s, Direction::Ingress, T0 + MS, &request, at[0]));
    stage.event(s.send(T0 + 2 * MS, &answered));
    stage.event(plain(&s, Direction::Egress, T0 + 2 * MS, &answer, at[1]));
    assert_eq!(of(&stage.spans, TapSide::ServerProcess).len(), 1);
    assert!(of(&stage.spans, TapSide::ClientProcess).is_empty(), "the client has not received the answer yet");
    stage.event(c.recv(T0 + 3 * MS, &answered[..1000]));
    stage.event(c.recv(T0 + 4 * MS, &answered[1000..]));
    assert!(of(&stage.spans, TapSide::ClientProcess).is_empty(), "its plaintext may still come");
    stage.tick(T0 + 500 * MS);
    let [client] = of(&stage.spans, TapSide::ClientProcess)[..] else { panic!("{:#?}", stage.spans) };
    let [server] = of(&stage.spans, TapSide::ServerProcess)[..] else { panic!("{:#?}", stage.spans) };
    assert_eq!(client.wire_keys(), server.wire_keys());
    assert_eq!((client.pid, &*client.resource.service, client.socket), (100, "svc-100", 1));
    assert_eq!((client.cause, client.exchange), (Some(9 << 24 | 4), None));
    assert_eq!((client.start_ns, client.response_ns, client.end_ns), (T0 - 1000, T0 + 3 * MS, T0 + 4 * MS));
    assert_eq!((client.status_code, &*client.operation), (Some(200), "GET"));
    assert_eq!(client.attrs.iter().filter(|(key, _)| key == "wirespan.read_at").count(), 1);
    assert_ne!(client.id, server.id);
    stage.finish();
    assert_eq!((stage.stat("told_spans"), stage.stat("untold_spans")), (1, 0));
}

#[test]
fn a_server_that_is_not_read_gets_its_span_from_the_client() {
    let mut stage = Stage::new();
    let (mut c, mut s) = (End::client(1), End::server(2));
    shake_hands(&mut stage, &mut c, &mut s);
    s.exchange = 2 << 24 | 3;
    let (request, answer) = (get("/told"), ok(30));
    let (asked, answered) = (record(23, request.len()), record(23, answer.len()));
    let at = [c.seq[1], s.seq[1]];
    stage.event(c.send(T0, &asked));
    stage.event(plain(&c, Direction::Egress, T0, &request, at[0]));
    stage.event(s.recv(T0 + MS, &asked));
    stage.event(s.send(T0 + 2 * MS, &answered));
    stage.event(c.recv(T0 + 3 * MS, &answered));
    stage.event(plain(&c, Direction::Ingress, T0 + 3 * MS, &answer, at[1]));
    stage.tick(T0 + 500 * MS);
    let [server] = of(&stage.spans, TapSide::ServerProcess)[..] else { panic!("{:#?}", stage.spans) };
    let [client] = of(&stage.spans, TapSide::ClientProcess)[..] else { panic!("{:#?}", stage.spans) };
    assert_eq!(client.wire_keys(), server.wire_keys());
    assert_eq!((server.pid, server.cause), (200, None));
    assert_eq!(server.exchange.unwrap().first, 2 << 24 | 3);
    assert_eq!((server.start_ns, server.end_ns), (T0 + MS, T0 + 2 * MS));
}

/// A goroutine that writes a request is seen when it returns, maybe after another one has read the answer.
#[test]
fn plaintext_that_comes_after_the_answer_is_told_once() {
    let mut stage = Stage::new();
    let (mut c, mut s) = (End::client(1), End::server(2));
    shake_hands(&mut stage, &mut c, &mut s);
    let (request, answer) = (get("/told"), ok(300));
    let (asked, answered) = (record(23, request.len()), record(23, answer.len()));
    let at = [c.seq[1], s.seq[1]];
    stage.event(c.send(T0, &asked));
    stage.event(s.recv(T0 + MS, &asked));
    stage.event(plain(&s, Direction::Ingress, T0 + MS, &request, at[0]));
    stage.event(s.send(T0 + 2 * MS, &answered));
    stage.event(plain(&s, Direction::Egress, T0 + 2 * MS, &answer, at[1]));
    stage.event(c.recv(T0 + 3 * MS, &answered));
    stage.event(plain(&c, Direction::Egress, T0, &request, at[0]));
    stage.event(plain(&c, Direction::Ingress, T0 + 3 * MS, &answer, at[1]));
    stage.tick(T0 + 500 * MS);
    stage.finish();
    assert_eq!(of(&stage.spans, TapSide::ClientProcess).len(), 1, "{:#?}", stage.spans);
    assert_eq!((stage.stat("told_spans"), stage.stat("untold_spans")), (0, 0));
}

#[test]
fn a_library_met_in_the_middle_of_an_exchange_costs_no_span() {
    let mut stage = Stage::new();
    let (mut c, mut s) = (End::client(1), End::server(2));
    shake_hands(&mut stage, &mut c, &mut s);
    // The client's library is read from its first answer on.
    for (n, at) in (0..3).map(|n| (n, T0 + 10 * n * MS)) {
        let (request, answer) = (get("/told"), ok(300));
        let (asked, answered) = (record(23, request.len()), record(23, answer.len()));
        let seqs = [c.seq[1], s.seq[1]];
        stage.event(c.send(at, &asked));
        if n > 0 {
            stage.event(plain(&c, Direction::Egress, at, &request, seqs[0]));
        }
        stage.event(s.recv(at + MS, &asked));
        stage.event(plain(&s, Direction::Ingress, at + MS, &request, seqs[0]));
        stage.event(s.send(at + 2 * MS, &answered));
        stage.event(plain(&s, Direction::Egress, at + 2 * MS, &answer, seqs[1]));
        stage.event(c.recv(at + 3 * MS, &answered));
        stage.event(plain(&c, Direction::Ingress, at + 3 * MS, &answer, seqs[1]));
    }
    stage.finish();
    let clients = of(&stage.spans, TapSide::ClientProcess);
    let told = |s: &&Span| s.attrs.iter().any(|(key, _)| key == "wirespan.read_at");
    assert_eq!(clients.iter().map(told).collect::<Vec<_>>(), [true, false, false], "{clients:#?}");
    assert_eq!(of(&stage.spans, TapSide::ServerProcess).len(), 3);
}

#[test]
fn bytes_that_this_end_did_not_move_make_no_span() {
    let mut stage = Stage::new();
    let (mut c, mut s) = (End::client(1), End::server(2));
    shake_hands(&mut stage, &mut c, &mut s);
    // A connection of the same ends in another network namespace: its bytes have other numbers.
    s.seq = [Some(900_000), Some(700_000)];
    let (request, answer) = (get("/told"), ok(30));
    let at = s.seq;
    let (asked, answered) = (record(23, request.len()), record(23, answer.len()));
    stage.event(c.send(T0, &asked));
    stage.event(s.recv(T0 + MS, &asked));
    stage.event(plain(&s, Direction::Ingress, T0 + MS, &request, at[0]));
    stage.event(s.send(T0 + 2 * MS, &answered));
    stage.event(plain(&s, Direction::Egress, T0 + 2 * MS, &answer, at[1]));
    stage.event(c.recv(T0 + 3 * MS, &answered));
    stage.tick(T0 + 500 * MS);
    stage.finish();
    assert!(of(&stage.spans, TapSide::ClientProcess).is_empty(), "{:#?}", stage.spans);
    assert_eq!((stage.stat("told_spans"), stage.stat("untold_spans")), (0, 1));
}
