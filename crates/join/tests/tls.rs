//! Plaintext of TLS finds its records: spans with the sequence numbers, exchanges and causes of the ciphertext.
#![allow(clippy::unwrap_used)]

mod common;
use common::tls::{data, plain, record};
use common::{get, ok, End, Stage, MS, T0};
use wirespan_join::CopyRule;
use wirespan_model::{Direction, Event};

fn handshake(stage: &mut Stage, end: &mut End, client: bool) {
    let (first, second) =
        if client { (Direction::Egress, Direction::Ingress) } else { (Direction::Ingress, Direction::Egress) };
    let hello = |n: usize| record(22, n);
    for (direction, bytes) in
        [(first, hello(500)), (second, [hello(90), record(20, 1), record(23, 900)].concat()), (first, record(23, 36))]
    {
        let e = end.call(direction, T0 - MS, &bytes);
        stage.event(Event::Data(e));
    }
}

#[test]
fn plaintext_sent_inside_a_library_call_finds_its_record() {
    let mut stage = Stage::new();
    let (mut c, mut s) = (End::client(1), End::server(2));
    handshake(&mut stage, &mut c, true);
    handshake(&mut stage, &mut s, false);
    // Two tickets wait for the client, in front of the answer.
    let tickets = [record(23, 230), record(23, 230)].concat();
    stage.event(s.send(T0, &tickets));
    (c.cause, s.exchange) = (9 << 24 | 4, 2 << 24 | 3);
    let (request, answer) = (get("/secret"), ok(20_000));
    let at = [c.seq[1], s.seq[1]];
    stage.event(c.send(T0, &data(&request)));
    stage.event(plain(&c, Direction::Egress, T0, &request, at[0]));
    // The server reads header and body of each record by themselves.
    let wire = data(&request);
    let start = s.seq[0];
    stage.event(s.recv(T0 + MS, &wire[..5]));
    stage.event(s.recv(T0 + MS, &wire[5..]));
    stage.event(plain(&s, Direction::Ingress, T0 + MS, &request, start));
    stage.event(s.send(T0 + 2 * MS, &data(&answer)));
    stage.event(plain(&s, Direction::Egress, T0 + 2 * MS, &answer, at[1]));
    // The client reads all at once: tickets and both records. The kernel's guess is where the call began.
    let wrong = c.seq[0];
    c.cut = 4096;
    stage.event(c.recv(T0 + 3 * MS, &tickets));
    stage.event(c.recv(T0 + 3 * MS, &data(&answer)));
    stage.event(plain(&c, Direction::Ingress, T0 + 3 * MS, &answer[..16_384], wrong));
    stage.finish();
    let named: Vec<_> = stage.spans.iter().filter(|s| &*s.target == "/secret").collect();
    let [server, client] = &named[..] else { panic!("{:#?}", stage.spans) };
    assert_eq!((server.request_seq, server.response_seq), (at[0], at[1]));
    assert_eq!(client.wire_keys(), server.wire_keys());
    assert_eq!(server.exchange.unwrap().first, 2 << 24 | 3);
    assert_eq!(client.cause, Some(9 << 24 | 4));
    assert_eq!((client.status_code, server.status_code), (Some(200), Some(200)));
    let verdicts = stage.verdicts();
    assert!(verdicts.iter().any(|v| v.plaintext && v.copy == CopyRule::EveryCall(512)), "{verdicts:?}");
}

#[test]
fn plaintext_encrypted_into_memory_waits_for_its_ciphertext() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    handshake(&mut stage, &mut c, true);
    let request = get("/memory");
    stage.event(plain(&c, Direction::Egress, T0, &request, None));
    assert_eq!(stage.stat("plaintext_in"), 1);
    c.exchange = 1 << 24 | 2;
    c.cause = 77 << 24;
    let at = c.seq[1];
    stage.event(c.send(T0 + MS, &data(&request)));
    let back = c.seq[0];
    stage.event(c.recv(T0 + 2 * MS, &data(&ok(5))));
    stage.event(plain(&c, Direction::Ingress, T0 + 2 * MS, &ok(5), back));
    let [span] = &stage.spans[..] else { panic!("{:#?}", stage.spans) };
    assert_eq!((&*span.target, span.request_seq, span.response_seq), ("/memory", at, back));
    assert_eq!(span.cause, Some(77 << 24));
    assert_eq!(span.start_ns, T0 + MS - 1000);
}

#[test]
fn plaintext_that_fits_no_record_is_dropped_and_counted() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    handshake(&mut stage, &mut c, true);
    stage.event(plain(&c, Direction::Egress, T0, &get("/elsewhere"), None));
    // The calls on this socket have another length.
    stage.event(c.send(T0 + MS, &record(23, 500)));
    stage.tick(T0 + 500 * MS);
    stage.finish();
    assert!(stage.spans.iter().all(|s| s.target.is_empty()), "{:#?}", stage.spans);
    assert_eq!(stage.stat("plaintext_without_record"), 1);
}

#[test]
fn a_record_read_in_pieces_keeps_its_place() {
    let mut stage = Stage::new();
    let mut s = End::server(2);
    handshake(&mut stage, &mut s, false);
    // The first exchange shows how many bytes a record adds.
    for path in ["/first", "/second"] {
        let request = get(path);
        let at = s.seq[0];
        stage.event(s.recv(T0, &data(&request)));
        let cut = if path == "/first" { request.len() } else { 7 };
        stage.event(plain(&s, Direction::Ingress, T0, &request[..cut], None));
        if cut < request.len() {
            stage.event(plain(&s, Direction::Ingress, T0, &request[cut..], None));
        }
        let back = s.seq[1];
        stage.event(s.send(T0 + MS, &data(&ok(1))));
        stage.event(plain(&s, Direction::Egress, T0 + MS, &ok(1), back));
        let span = stage.spans.last().unwrap();
        assert_eq!((&*span.target, span.request_seq, span.response_seq), (path, at, back));
    }
}

/// The server's first read of plaintext stands behind the client's Finished. The same call may have received both, and
/// more bytes.
#[test]
fn what_a_server_reads_first_is_not_the_clients_finished() {
    for (together, spoken_before) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut stage = Stage::new();
        let mut s = End::server(2);
        s.cut = 65_536;
        let finished = record(23, 36);
        for (direction, bytes) in [
            (Direction::Ingress, record(22, 500)),
            (Direction::Egress, [record(22, 90), record(20, 1), record(23, 900)].concat()),
        ] {
            let e = s.call(direction, T0 - MS, &bytes);
            stage.event(Event::Data(e));
        }
        let requests: Vec<_> = (0..20).map(|n| get(&format!("/many/{n}"))).collect();
        let sent: Vec<u8> = requests.iter().flat_map(|r| data(r)).collect();
        let at = s.seq[0].unwrap() + u32::try_from(finished.len()).unwrap();
        let calls = if together { vec![[finished, sent].concat()] } else { vec![finished, sent] };
        // A call inside of the read is known, one of the handshake is not.
        let known = (!together).then_some(at);
        for call in calls {
            stage.event(s.recv(T0, &call));
        }
        if spoken_before {
            let back = s.seq[1];
            stage.event(s.send(T0, &record(23, 230)));
            stage.event(plain(&s, Direction::Egress, T0, &[0; 230], back));
        }
        for request in &requests {
            stage.event(plain(&s, Direction::Ingress, T0, &request[..9], known));
            stage.event(plain(&s, Direction::Ingress, T0, &request[9..], known));
        }
        stage.finish();
        let mut seq = at;
        for (n, request) in requests.iter().enumerate() {
            let name = format!("/many/{n}");
            let found: Vec<_> = stage.spans.iter().filter(|s| *s.target == *name).map(|s| s.request_seq).collect();
            assert_eq!(found, [Some(seq)], "{name}, together {together}, spoken before {spoken_before}");
            seq += u32::try_from(data(request).len()).unwrap();
        }
    }
}

/// The client has sent nothing that is known yet; it reads data behind the server's tickets.
#[test]
fn a_ticket_is_no_piece_of_an_answer() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    handshake(&mut stage, &mut c, true);
    c.cut = 4096;
    let request = get("/ticket");
    stage.event(c.send(T0, &data(&request)));
    let (first, answer) = (c.seq[0].unwrap(), ok(3));
    stage.event(c.recv(T0 + MS, &[record(23, 230), record(23, 230), data(&answer)].concat()));
    stage.event(plain(&c, Direction::Ingress, T0 + MS, &answer, Some(first)));
    stage.finish();
    let seq: Vec<_> = stage.spans.iter().filter_map(|s| s.response_seq).collect();
    let behind = u32::try_from(2 * record(23, 230).len()).unwrap();
    assert!(seq.contains(&(first + behind)), "{first}: {seq:?} {:#?}", stage.spans);
}

/// Go's HTTP/2 reads headers of frames by themselves, others read byte by byte: before anything was read or sent whole.
#[test]
fn the_first_record_may_be_read_in_pieces() {
    // A goroutine that has changed its thread does not know where its record begins.
    for (first, known) in [(1, true), (20, true), (30, true), (24, false)] {
        let mut stage = Stage::new();
        let mut s = End::server(2);
        handshake(&mut stage, &mut s, false);
        for path in ["/first", "/second/one"] {
            let mut request = get(path);
            // A record that is no multiple of a block.
            if (request.len() + 17).is_multiple_of(16) {
                request = get(&format!("{path}x"));
            }
            let at = s.seq[0];
            stage.event(s.recv(T0, &data(&request)));
            for piece in [&request[..first], &request[first..first + 1], &request[first + 1..]] {
                stage.event(plain(&s, Direction::Ingress, T0, piece, at.filter(|_| known)));
            }
            let back = s.seq[1];
            stage.event(s.send(T0 + MS, &data(&ok(1))));
            stage.event(plain(&s, Direction::Egress, T0 + MS, &ok(1), back));
            let span = stage.spans.last().unwrap();
            assert!(span.target.starts_with(path), "{first}: {span:?}");
            assert_eq!((span.request_seq, span.response_seq), (at, back), "{first} {path}");
        }
    }
}

#[test]
fn the_end_of_the_handshake_is_no_piece_of_a_request() {
    let mut stage = Stage::new();
    let mut s = End::server(2);
    stage.event(s.recv(T0 - MS, &record(22, 500)));
    stage.event(s.send(T0 - MS, &[record(22, 90), record(20, 1), record(23, 900)].concat()));
    let request = get("/a/path/that/is/long/enough/to/be/no/multiple");
    // Read by one call: Finished, and the request.
    let (start, finished) = (s.seq[0], record(23, 52));
    s.cut = 4096;
    stage.event(s.recv(T0, &[finished.clone(), data(&request)].concat()));
    for (piece, known) in [(&request[..24], start), (&request[24..33], None), (&request[33..], start)] {
        stage.event(plain(&s, Direction::Ingress, T0, piece, known));
    }
    let back = s.seq[1];
    stage.event(s.send(T0 + MS, &data(&ok(1))));
    stage.event(plain(&s, Direction::Egress, T0 + MS, &ok(1), back));
    let span = stage.spans.last().unwrap();
    assert_eq!(span.request_seq, start.map(|at| at + finished.len() as u32), "{span:?}");
}

#[test]
fn a_connection_joined_in_the_middle_finds_its_frame() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    // The rest of a record that began before the tracing.
    stage.event(c.recv(T0, &[0xa5; 100]));
    for path in ["/1", "/2"] {
        let (request, at, back) = (get(path), c.seq[1], c.seq[0]);
        stage.event(c.send(T0 + MS, &data(&request)));
        stage.event(plain(&c, Direction::Egress, T0 + MS, &request, at));
        stage.event(c.recv(T0 + 2 * MS, &data(&ok(3))));
        stage.event(plain(&c, Direction::Ingress, T0 + 2 * MS, &ok(3), back));
        let span = stage.spans.last().unwrap();
        assert_eq!((&*span.target, span.request_seq, span.response_seq), (path, at, back));
    }
}

#[test]
fn records_whose_headers_were_not_captured_are_counted_by_their_plaintext() {
    let mut stage = Stage::new();
    let mut s = End::server(2);
    handshake(&mut stage, &mut s, false);
    for turn in 0..3u64 {
        // The first calls of a connection are captured whole.
        s.cut = if turn == 0 { 4096 } else { 16 };
        // Three requests in one call, of which 16 bytes are captured: the header of the first record.
        let requests: Vec<_> = (0..3).map(|i| get(&format!("/{turn}/{}", "x".repeat(i * 9)))).collect();
        let start = s.seq[0].unwrap();
        let wire: Vec<u8> = requests.iter().flat_map(|r| data(r)).collect();
        stage.event(s.recv(T0 + turn * MS, &wire));
        let (mut places, mut at) = (Vec::new(), start);
        for request in &requests {
            stage.event(plain(&s, Direction::Ingress, T0 + turn * MS, request, Some(start)));
            places.push(Some(at));
            at += data(request).len() as u32;
        }
        let before = stage.spans.len();
        for _ in &requests {
            let back = s.seq[1];
            stage.event(s.send(T0 + turn * MS, &data(&ok(1))));
            stage.event(plain(&s, Direction::Egress, T0 + turn * MS, &ok(1), back));
        }
        assert_eq!(stage.spans[before..].iter().map(|s| s.request_seq).collect::<Vec<_>>(), places, "turn {turn}");
    }
}

#[test]
fn ciphertext_alone_stays_a_connection_without_messages() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    handshake(&mut stage, &mut c, true);
    for i in 0..20 {
        stage.event(c.send(T0 + i * MS, &record(23, 300)));
        stage.event(c.recv(T0 + i * MS, &record(23, 300)));
    }
    stage.finish();
    assert_eq!(stage.stat("plaintext_connections"), 0);
    assert!(stage.spans.iter().all(|s| s.target.is_empty()), "{:#?}", stage.spans);
}

/// Bytes received between the handshake and the first plaintext are not copied: no parser needs them yet.
#[test]
fn plaintext_is_in_no_record_that_ended_before_it() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    c.cut = 4096;
    stage.event(c.send(T0 - 2 * MS, &record(22, 340)));
    // Its first record of data could carry the answer's first bytes, with the padding of CBC.
    let answer = ok(3);
    let padded = (answer.len() + 18).next_multiple_of(16) - 17;
    let hello = [record(22, 105), record(20, 1), record(23, padded), record(23, 600)].concat();
    stage.event(c.recv(T0 - 2 * MS, &hello));
    c.cut = 0;
    stage.event(c.send(T0 - MS, &record(23, 36)));
    for turn in 0..4 {
        let request = get(&format!("/{turn}"));
        let (at, back) = (c.seq[1], c.seq[0]);
        stage.event(plain(&c, Direction::Egress, T0 + turn * MS, &request, None));
        stage.event(c.send(T0 + turn * MS + 1, &data(&request)));
        let tickets = if turn == 0 { [record(23, 230), record(23, 230)].concat() } else { Vec::new() };
        stage.event(c.recv(T0 + turn * MS + 2, &[tickets, data(&answer)].concat()));
        stage.event(plain(&c, Direction::Ingress, T0 + turn * MS + 2, &answer, back));
        // The place of the first record within the call is not known.
        let span = stage.spans.last().unwrap();
        assert_eq!((&*span.target, span.request_seq, span.response_seq), (&*format!("/{turn}"), at, back), "{span:?}");
        c.cut = 64;
    }
}

/// Plaintext whose own record is not known waits for the next record. Bytes that the library sends inside its call come
/// before that.
#[test]
fn waiting_plaintext_does_not_shift_plaintext_with_a_known_place() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    handshake(&mut stage, &mut c, true);
    (c.cut, c.exchange) = (64, 1 << 24 | 2);
    // It is longer than what follows.
    let wanted: Vec<_> = (0..5).map(|i| get(&format!("/{i}{}", "x".repeat(if i == 0 { 90 } else { 0 })))).collect();
    let mut places = Vec::new();
    for (turn, request) in (0u64..).zip(&wanted) {
        let at = c.seq[1];
        stage.event(c.send(T0 + turn * MS, &data(request)));
        // A thread that did not send the first record reported its plaintext, and too late for its own record.
        let told = if turn == 0 { T0 + MS / 2 } else { T0 + turn * MS };
        stage.event(plain(&c, Direction::Egress, told, request, at.filter(|_| turn > 0)));
        places.push(at);
    }
    for turn in 0..5 {
        let back = c.seq[0];
        stage.event(c.recv(T0 + (10 + turn) * MS, &data(&ok(1))));
        stage.event(plain(&c, Direction::Ingress, T0 + (10 + turn) * MS, &ok(1), back));
    }
    let seen: Vec<_> = stage.spans.iter().map(|s| (s.target.to_string(), s.request_seq)).collect();
    let last: Vec<_> = (1..5).map(|i| (format!("/{i}"), places[i])).collect();
    assert_eq!(seen.iter().skip(1).cloned().collect::<Vec<_>>(), last, "{seen:?}");
    assert_eq!(seen.len(), 5, "{seen:?}");
}
