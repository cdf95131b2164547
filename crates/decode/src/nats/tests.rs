#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use super::Nats;
use crate::testing::{c, cut, probe, s, tcp, tcp_to_the_end, Turn};
use crate::{Detect, Protocol};
use proptest::prelude::*;

const INFO: &str = "INFO {\"server_id\":\"N\",\"version\":\"2.10.7\",\"nonce\":\"CANARY\",\"tls_available\":true}\r\n";
const QUIET: &str = "CONNECT {\"verbose\":false,\"user\":\"CANARYUSER\",\"pass\":\"CANARYPASS\",\"name\":\"shop\"}\r\n";

/// Without the attributes.
fn brief(turns: &[Turn]) -> Vec<String> {
    tcp(&Nats, turns).into_iter().map(|l| l.split(" messaging.system.name").next().unwrap().to_owned()).collect()
}

/// A command without the sizes, for conversations in which they do not matter.
fn hpub(verb: &str, subject: &str, headers: &str, payload: &str) -> String {
    let block = format!("NATS/1.0{headers}\r\n\r\n");
    format!("{verb} {subject} {} {}\r\n{block}{payload}\r\n", block.len(), block.len() + payload.len())
}

fn msg(head: &str, payload: &str) -> String {
    format!("MSG {head} {}\r\n{payload}\r\n", payload.len())
}

#[test]
fn publications_and_deliveries_are_read() {
    let said = brief(&[
        s(INFO),
        c(QUIET),
        c("PING\r\n"),
        s("PONG\r\n"),
        c("SUB orders.* g 1\r\nPUB orders.new 6\r\nCANARY\r\nUNSUB 1\r\n"),
        s("MSG orders.new 1 6\r\nCANARY\r\nPING\r\n"),
        c("PONG\r\n"),
    ]);
    let n = (INFO.len(), QUIET.len());
    let expected = [
        format!("S oneway @0+{} INFO", n.0),
        format!("C oneway @0+{} CONNECT", n.1),
        format!("C req @{}+6 id=1 PING", n.1),
        format!("S resp @{}+6 id=1 PONG Ok", n.0),
        format!("C oneway @{}+18 SUB orders.*", n.1 + 6),
        format!("C oneway @{}+18 body=8 PUB orders.new", n.1 + 24),
        format!("C oneway @{}+9 UNSUB", n.1 + 50),
        format!("S oneway @{}+20 body=8 MSG orders.new", n.0 + 6),
        format!("S req @{}+6 id=2 PING", n.0 + 34),
        format!("C resp @{}+6 id=2 PONG Ok", n.1 + 59),
    ];
    assert_eq!(said, expected);
}

/// The span describes the message that was sent. The answer must not change its destination and size.
#[test]
fn an_answer_leaves_the_request_its_destination() {
    let ask = c("PUB Greeter.Hello _INBOX.a.1 2\r\nhi\r\n");
    let said = tcp(&Nats, &[s(INFO), c(QUIET), ask, s("MSG _INBOX.a.1 1 4\r\nyoyo\r\n")]);
    assert!(said[2].contains("messaging.destination.name=Greeter.Hello messaging.message.body.size=2"), "{}", said[2]);
    assert!(said[3].contains("S resp") && said[3].contains("messaging.system.name=nats"), "{}", said[3]);
    for key in ["messaging.destination", "messaging.operation", "messaging.message.body"] {
        assert!(said[2].contains(key) && !said[3].contains(key), "{key}: {}", said[3]);
    }
}

#[test]
fn requests_are_answered_by_their_inbox() {
    let said = brief(&[
        s(INFO),
        c(QUIET),
        c("PUB Greeter.Hello _INBOX.a.1 2\r\nhi\r\nPUB Greeter.Hello _INBOX.a.2 2\r\nhi\r\n"),
        s("MSG _INBOX.a.2 1 2\r\nyo\r\n"),
        s(hpub("HMSG", "_INBOX.a.1 1", " 503", "")),
        s("MSG Greeter.Hello 2 _INBOX.b.7 2\r\nhi\r\n"),
        c("PUB _INBOX.b.7 2\r\nyo\r\n"),
        // The same inbox again: more answers than one.
        s("MSG _INBOX.a.2 1 2\r\nyo\r\n"),
        c("PUB fixed reply.to.me 2\r\nhi\r\n"),
    ]);
    let words: Vec<_> = said[2..].iter().map(|l| l.split(" @").next().unwrap()).collect();
    assert_eq!(words, ["C req", "C req", "S resp", "S resp", "S req", "C resp", "S oneway", "C oneway"]);
    assert!(said[4].contains(" id=2 ") && said[5].contains(" id=1 "), "{said:#?}");
    assert!(said[5].ends_with("status=503 ServerError error=\"no responders\""), "{}", said[5]);
}

#[test]
fn headers_carry_context() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let headers = format!("\r\ntraceparent: {parent}\r\nNats-Msg-Id:m-1\r\nsecret: CANARY");
    let said = tcp(&Nats, &[s(INFO), c(QUIET), c(hpub("HPUB", "a.b", &headers, "CANARY"))]);
    assert!(said[2].contains("trace_id: Some") && said[2].contains("messaging.message.id=m-1"), "{}", said[2]);
    assert!(said[2].contains("messaging.message.body.size=6 "));
}

#[test]
fn messages_of_jetstream_are_acknowledged() {
    let said = tcp(
        &Nats,
        &[
            s(INFO),
            c(QUIET),
            c("PUB orders.new _INBOX.a.1 2\r\nhi\r\n"),
            s("MSG _INBOX.a.1 1 29\r\n{\"stream\":\"ORDERS\", \"seq\":42}\r\n"),
            c("PUB $JS.API.STREAM.INFO.NONE _INBOX.a.2 0\r\n\r\n"),
            s(msg(
                "_INBOX.a.2 \
            1",
                "{\"type\":\"io.nats.jetstream.api.v1.stream_info_response\",\"error\
            \":{\"code\":404,\"err_code\":10059,\"description\":\"CANARY\"}}",
            )),
            c("PUB $JS.API.CONSUMER.MSG.NEXT.ORDERS.worker _INBOX.a.3 1\r\n1\r\n"),
            s("MSG orders.new 2 $JS.ACK.ORDERS.worker.1.42.7.1700000000000000000.0 2\r\nhi\r\n"),
            c("PUB $JS.ACK.ORDERS.worker.1.42.7.1700000000000000000.0 4\r\n-NAK\r\n"),
            s(hpub("HMSG", "_INBOX.a.3 1", " 408 Request Timeout", "")),
        ],
    );
    assert!(said[2].starts_with("C req"), "{}", said[2]);
    assert!(said[3].contains("wirespan.nats.stream=ORDERS wirespan.nats.stream_sequence=42"), "{}", said[3]);
    assert!(said[5].contains("status=404 ClientError error=\"JetStream error 10059\""), "{}", said[5]);
    assert!(said[6].contains("messaging.operation.type=receive") && said[6].starts_with("C oneway"), "{}", said[6]);
    for m in [&said[7], &said[8]] {
        assert!(
            m.contains(
                "wirespan.nats.stream=ORDERS messaging.consumer.group.name=worker \
        wirespan.nats.stream_sequence=42 wirespan.nats.consumer_sequence=7"
            ),
            "{m}"
        );
    }
    assert!(said[7].starts_with("S oneway") && said[7].contains("operation.type=process"), "{}", said[7]);
    assert!(said[8].contains("operation.type=settle") && said[8].ends_with("name=nak"), "{}", said[8]);
    assert!(said[9].contains("status=408 Ok"), "{}", said[9]);
}

#[test]
fn an_answer_of_an_application_is_not_read() {
    let reply = |payload: &str| {
        let said = tcp(
            &Nats,
            &[
                s(INFO),
                c(QUIET),
                c("PUB a _INBOX.1 0\r\n\r\n"),
                s(format!("MSG _INBOX.1 1 {}\r\n{payload}\r\n", payload.len())),
            ],
        );
        said[3].clone()
    };
    for payload in [
        "{\"stream\":\"CANARY\",\"seq\":1,\"more\":2}",
        "{\"stream\":\"CANARY x.y\",\"seq\":1}",
        "{\"ok\":1,\"error\":{\"code\":500}}",
        "{\"stream\":\"CANARY",
    ] {
        let said = reply(payload);
        assert!(said.contains("S resp") && !said.contains("CANARY") && !said.contains("status="), "{said}");
    }
}

#[test]
fn verbose_mode_confirms_in_order() {
    let said = brief(&[
        s(INFO),
        c("CONNECT {\"verbose\":true}\r\n"),
        s("+OK\r\n"),
        c("SUB a 1\r\nPUB b 0\r\n\r\nPUB c _INBOX.1 0\r\n\r\n"),
        s("+OK\r\n-ERR 'Permissions Violation for Publish to \"b\"'\r\n+OK\r\n+OK\r\nMSG _INBOX.1 1 0\r\n\r\n"),
        s("-ERR 'Stale Connection'\r\n"),
    ]);
    let words: Vec<_> = said.iter().map(|l| l.split(" @").next().unwrap()).collect();
    assert_eq!(
        words,
        [
            "S oneway", "C req", "S resp", "C req", "C req", "C req", "S resp", "S oneway", "S resp", "S oneway",
            "S resp", "S oneway"
        ],
        "{said:#?}"
    );
    assert!(said[7].contains("ClientError error=\"Permissions Violation for Publish to \\\"b\\\"\""), "{}", said[7]);
}

#[test]
fn a_refused_login_answers_the_ping_behind_it() {
    let said = brief(&[s(INFO), c(QUIET), c("PING\r\n"), s("-ERR 'Authorization Violation'\r\n")]);
    assert!(said[3].contains("S resp") && said[3].ends_with("id=1 -ERR ClientError error=\"Authorization Violation\""));
}

#[test]
fn tls_takes_over() {
    let said = brief(&[s(INFO), c("\x16\x03\x01\x02\x00"), s("\x16\x03\x03")]);
    assert_eq!(said[1], "Upgrade tls");
    assert_eq!(said.len(), 2);
}

#[test]
fn missing_bytes_are_skipped_exactly() {
    let said = brief(&[
        s(INFO),
        c(QUIET),
        (c("").0, b"PUB a 5000\r\nxxxx".to_vec(), 4998),
        c("PUB b 1\r\nx\r\n"),
        (c("").0, b"PUB c 50".to_vec(), 60),
        c("nonsense\r\n"),
        c("PUB d 1\r\nx\r\n"),
    ]);
    let n = QUIET.len();
    assert_eq!(said[2], format!("C oneway @{n}+12 body=5002 PUB a"));
    assert_eq!(said[3], format!("C oneway @{}+9 body=3 PUB b", n + 5014));
    assert_eq!(said[4], "Malformed Client nats_gap");
    assert_eq!(said[5], format!("C oneway @{}+9 body=3 PUB d", n + 5014 + 12 + 68 + 10));
    let cut_info = brief(&[(s("").0, INFO.as_bytes()[..40].to_vec(), INFO.len() as u64 - 40), s("PING\r\n")]);
    assert_eq!(cut_info[0], "S oneway @0+40 INFO");
    assert_eq!(cut_info[2], format!("S req @{}+6 id=1 PING", INFO.len()));
}

#[test]
fn no_secret_gets_out() {
    let turns = conversation();
    for said in [tcp_to_the_end(&Nats, &turns), tcp(&Nats, &cut(&turns, &[1]))] {
        assert!(said.len() >= 7 && !said.concat().contains("CANARY"), "{said:#?}");
    }
}

#[test]
fn detects_from_the_start_and_from_the_middle() {
    let yes = |first_is_client| Detect::Yes { first_is_client };
    let detect = |a: &str, b: &str| Nats.detect(&probe(a.as_bytes(), b.as_bytes()));
    assert_eq!(detect(INFO, ""), yes(false));
    assert_eq!(detect(&INFO[..30], ""), yes(false));
    assert_eq!(detect(QUIET, "PONG\r\n"), yes(true));
    assert_eq!(detect("PUB a.b 3\r\nabc\r\n", ""), yes(true));
    assert_eq!(detect("PUB a.b 3\r\nabcd\r\n", ""), Detect::No);
    assert_eq!(detect("PUB a.b 3000\r\nabcd", ""), Detect::Maybe);
    assert_eq!(detect("MSG a.b 1 0\r\n\r\n", ""), yes(false));
    assert_eq!(detect("PING\r\n", "PONG\r\n"), Detect::Maybe);
    assert_eq!(detect("PING\r\n", "+PONG\r\n"), Detect::No);
    assert_eq!(detect("INFO\r\n", ""), Detect::No);
    let mut known = probe(b"PING\r\n", b"PONG\r\n");
    known.first_is_client = Some(false);
    assert_eq!(Nats.detect(&known), yes(false));
    // Both ends ask; the client subscribes. IRC's PING has an argument.
    assert_eq!(detect("PING\r\n", "PING\r\nSUB a.b 1\r\nPONG\r\n"), yes(false));
    assert_eq!(detect("SUB a.b 1\r\nPING\r\n", "PONG\r\n"), yes(true));
    assert_eq!(detect("SUB a.b 1\r\n", ""), Detect::Maybe);
    assert_eq!(detect("SUB a.b one\r\n", "PONG\r\n"), Detect::Maybe);
    assert_eq!(detect("PING :x\r\n", "PONG\r\n"), Detect::No);
}

fn conversation() -> Vec<Turn> {
    vec![
        s(INFO),
        c(QUIET),
        c(format!("PING\r\nSUB a.> 1\r\n{}", hpub("HPUB", "a.b _INBOX.1", "\r\nx: CANARY", "CANARY"))),
        s("PONG\r\nMSG a.b 1 _INBOX.1 6\r\nCANARY\r\nMSG _INBOX.1 9 26\r\n{\"stream\":\"S\",\"seq\":1}CANA\r\n"),
        c(format!("PUB big 3000\r\n{}\r\nPUB _INBOX.1 1\r\nx\r\n", "x".repeat(3000))),
        s("-ERR 'Slow Consumer'\r\n+OK\r\n"),
    ]
}

proptest! {
    #[test]
    fn chunking_does_not_matter(cuts in prop::collection::vec(1usize..80, 1..20)) {
        let whole = conversation();
        prop_assert_eq!(tcp(&Nats, &whole), tcp(&Nats, &cut(&whole, &cuts)));
    }

    #[test]
    fn flips_cuts_and_gaps_never_panic(
        flips in prop::collection::vec((0usize..20_000, any::<u8>()), 0..8),
        cuts in prop::collection::vec(1usize..300, 1..20),
        gaps in prop::collection::vec(prop_oneof![3 => Just(0u64), 1 => 1u64..100, 1 => Just(u64::MAX)], 1..20),
    ) {
        let mut turns = conversation();
        for (at, value) in flips {
            let n = turns.len();
            let bytes = &mut turns[at % n].1;
            let i = at % bytes.len();
            bytes[i] = value;
        }
        let mut pieces = cut(&turns, &cuts);
        for (piece, gap) in pieces.iter_mut().zip(gaps.iter().cycle()) {
            piece.2 = *gap;
        }
        tcp(&Nats, &pieces);
    }
}
