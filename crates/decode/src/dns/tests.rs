#![allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::cast_possible_truncation
)]

use super::{name, Dns};
use crate::testing::{c, cut, line, probe, s, say, tcp, Turn};
use crate::{Detect, Probe, Protocol, MAX_BUFFERED};
use proptest::prelude::*;
use wirespan_model::{Chunk, Side, Transport};

fn wire_name(text: &str) -> Vec<u8> {
    let labels = text.split('.').filter(|l| !l.is_empty());
    let mut bytes: Vec<u8> = labels.flat_map(|l| std::iter::once(l.len() as u8).chain(l.bytes())).collect();
    bytes.push(0);
    bytes
}

fn header(id: u16, flags: u16, counts: [u16; 4]) -> Vec<u8> {
    [id, flags].into_iter().chain(counts).flat_map(u16::to_be_bytes).collect()
}

fn question(text: &str, qtype: u16) -> Vec<u8> {
    [wire_name(text), qtype.to_be_bytes().to_vec(), vec![0, 1]].concat()
}

fn record(owner: &[u8], rtype: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
    let len = (data.len() as u16).to_be_bytes();
    [owner, &rtype.to_be_bytes(), &[0, 1], &ttl.to_be_bytes(), &len, data].concat()
}

const OPT: &[u8] = &[0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0];
/// Pointer to the first question's name.
const QNAME: &[u8] = &[0xc0, 12];

fn query(id: u16, text: &str, qtype: u16) -> Vec<u8> {
    [header(id, 0x0100, [1, 0, 0, 1]), question(text, qtype), OPT.to_vec()].concat()
}

fn answer(id: u16, text: &str) -> Vec<u8> {
    let cname = record(QNAME, 5, 60, &[3, b'w', b'w', b'3', 0xc0, 12]);
    let a = record(&[0xc0, 12], 1, 60, &[10, 0, 0, 1]);
    let aaaa = record(&[0xc0, 12], 28, 60, &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
    let soa = record(&[0xc0, 12], 6, 60, &[0; 22]);
    [header(id, 0x8180, [1, 3, 1, 1]), question(text, 1), cname, a, aaaa, soa, OPT.to_vec()].concat()
}

fn udp(turns: &[Turn]) -> Vec<String> {
    say(&mut *Dns.parser(Transport::Udp), turns)
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes(), message].concat()
}

#[test]
fn a_query_and_its_answer_share_an_id() {
    let said = udp(&[c(query(7, "Www.Example.ORG", 1)), s(answer(7, "Www.Example.ORG"))]);
    assert_eq!(
        said,
        [
            "C req @0+44 id=7 A www.example.org dns.question.name=www.example.org wirespan.dns.question.type=1",
            "S resp @0+140 id=7 A www.example.org status=0 Ok dns.question.name=www.example.org \
             wirespan.dns.question.type=1 dns.answers=ww3.www.example.org,10.0.0.1,2001:db8::7 \
             wirespan.dns.answer_count=3",
        ]
    );
}

/// Text records hold tokens and keys: names and types are told, never what a record says.
#[test]
fn contents_of_records_are_not_kept() {
    let mut answered = header(7, 0x8180, [1, 1, 0, 0]);
    answered.extend(question("a.b", 16));
    answered.extend(record(QNAME, 16, 60, b"\x06canary"));
    let said = udp(&[c(query(7, "a.b", 16)), s(answered)]);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said.iter().all(|line| !line.contains("canary")), "{said:?}");
}

#[test]
fn response_codes_have_names() {
    let code = |flags: u16, extra: &[u8], additionals: u16| {
        let bytes = [&header(1, flags, [1, 0, 0, additionals]), &question("a", 28), extra].concat();
        udp(&[s(bytes)]).pop().unwrap().split(" AAAA a ").nth(1).unwrap().split(" dns.").next().unwrap().to_owned()
    };
    assert_eq!(code(0x8180, b"", 0), "status=0 Ok");
    assert_eq!(code(0x8182, b"", 0), "status=2 ServerError error=\"SERVFAIL\"");
    assert_eq!(code(0x8183, b"", 0), "status=3 ClientError error=\"NXDOMAIN\"");
    assert_eq!(code(0x8185, b"", 0), "status=5 ServerError error=\"REFUSED\"");
    let badvers = [0, 0, 41, 16, 0, 1, 0, 0, 0, 0, 0];
    assert_eq!(code(0x8180, &badvers, 1), "status=16 ClientError error=\"BADVERS\"");
}

#[test]
fn other_operations_and_odd_names_are_read() {
    let notify = [header(1, 0x2400, [1, 0, 0, 0]), question("zone.example", 6)].concat();
    assert!(udp(&[c(notify)])[0].contains(" NOTIFY zone.example "));
    let root = [header(1, 0x0100, [1, 0, 0, 0]), question("", 2)].concat();
    assert!(udp(&[c(root)])[0].contains(" NS . "));
    let odd = [header(1, 0x0100, [1, 0, 0, 0]), vec![4, b'a', b'.', 0, 200, 0, 0xff, 0xfe, 0, 1]].concat();
    assert!(udp(&[c(odd)])[0].contains(" TYPE a\\046\\000\\200 "));
}

#[test]
fn several_questions_and_announcements_are_read() {
    let both = [header(0, 0, [2, 0, 0, 0]), question("a.local", 1), question("b.local", 12)].concat();
    let said = udp(&[c(both)]);
    assert!(said[0].contains("A a.local") && said[0].ends_with("wirespan.dns.questions=2"), "{}", said[0]);
    let owner = wire_name("a.local");
    let news = [header(0, 0x8400, [0, 1, 0, 0]), record(&owner, 1, 60, &[1, 2, 3, 4])].concat();
    assert!(udp(&[s(news)])[0].starts_with("S oneway @0+35 id=0 status=0 Ok dns.answers=1.2.3.4"));
}

#[test]
fn pointer_loops_are_refused() {
    let mut text = String::new();
    // To itself, forwards, and two that point at each other.
    for bytes in [&[0xc0u8, 0][..], &[0xc0, 2, 1, b'a', 0], &[1, b'a', 0xc0, 4, 0xc0, 0]] {
        assert_eq!(name::read(bytes, 0, &mut text), Err(name::BadName::Bad));
    }
    assert_eq!(name::read(&[1, b'a', 0xc0, 0], 2, &mut text), Err(name::BadName::Bad));
    text.clear();
    assert_eq!(name::read(&[1, b'a', 0, 1, b'b', 0xc0, 0], 3, &mut text), Ok(7));
    assert_eq!(text, "b.a");
    let long = [[63u8; 64]; 5].concat();
    assert_eq!(name::read(&long, 0, &mut text), Err(name::BadName::Bad));
}

#[test]
fn bad_messages_are_counted() {
    assert_eq!(udp(&[c("short")]), ["Malformed Client dns_bad_message"]);
    assert_eq!(udp(&[c([0xffu8; 40])]), ["Malformed Client dns_bad_message"]);
    let mut answer = answer(1, "a.b");
    answer.truncate(60);
    let said = udp(&[s(answer)]);
    assert_eq!(said[0], "Malformed Server dns_bad_record");
    assert!(said[1].starts_with("S resp @0+60 id=1 A a.b"), "{}", said[1]);
}

#[test]
fn datagrams_that_were_cut_are_read_as_far_as_they_go() {
    let mut short = answer(1, "a.b");
    let whole = short.len() as u64;
    short.truncate(40);
    let said = udp(&[(Side::Server, short, whole - 40), s(answer(2, "a.b"))]);
    assert!(said[0].starts_with(&format!("S resp @0+{whole} id=1 A a.b")), "{}", said[0]);
    assert!(said[0].ends_with("wirespan.truncated=true"));
    assert!(said[1].starts_with(&format!("S resp @{whole}+")), "{}", said[1]);
    assert_eq!(udp(&[(Side::Client, vec![], 40)]), ["Malformed Client dns_gap"]);
    let inside = query(9, "a.long.name", 1)[..20].to_vec();
    assert!(udp(&[(Side::Client, inside, 20)])[0].starts_with("C req @0+40 id=9 wirespan.truncated"));
}

#[test]
fn streams_carry_lengths() {
    let (q, a) = (framed(&query(1, "a.b", 252)), framed(&answer(1, "a.b")));
    let said = tcp(&Dns, &[c([q.clone(), q.clone()].concat()), s(&a), s(&a)]);
    let places: Vec<_> = said.iter().map(|l| l.split(" id").next().unwrap().to_owned()).collect();
    let (n, m) = (q.len(), a.len());
    assert_eq!(
        places,
        [format!("C req @0+{n}"), format!("C req @{n}+{n}"), format!("S resp @0+{m}"), format!("S resp @{m}+{m}")]
    );
}

#[test]
fn long_messages_over_tcp_are_read_up_to_the_limit() {
    let txt = record(QNAME, 16, 1, &[b'x'; 30_000]);
    let long = framed(&[header(1, 0x8180, [1, 1, 0, 0]), question("a.b", 16), txt].concat());
    let said = tcp(&Dns, &[s([long.clone(), framed(&answer(2, "a.b"))].concat())]);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with(&format!("S resp @0+{MAX_BUFFERED} body={} id=1 TXT a.b", long.len() - MAX_BUFFERED)));
    assert!(said[0].ends_with("wirespan.truncated=true"));
    assert!(said[1].starts_with(&format!("S resp @{}+", long.len())));
}

#[test]
fn gaps_in_streams_are_skipped_or_counted() {
    let a = framed(&answer(1, "a.b"));
    let (head, missing) = (a[..50].to_vec(), a.len() as u64 - 50);
    let said = tcp(&Dns, &[(Side::Server, head.clone(), missing), s(&a)]);
    assert!(
        said[0].contains("wirespan.truncated") && said[1].starts_with(&format!("S resp @{}+", a.len())),
        "{said:?}"
    );
    let said = tcp(&Dns, &[(Side::Server, head, missing + 99), s("junk"), s(&a)]);
    assert_eq!(said[1], "Malformed Server dns_gap");
    assert!(said[2].starts_with(&format!("S resp @{}+", a.len() + 99 + 4)), "{said:?}");
}

#[test]
fn queries_are_recognised_and_other_bytes_are_not() {
    let yes = |first_is_client| Detect::Yes { first_is_client };
    let (q, a) = (query(1, "a.b", 1), answer(1, "a.b"));
    let ask = |first: &[u8], second: &[u8]| Dns.detect(&Probe { transport: Transport::Udp, ..probe(first, second) });
    assert_eq!(ask(&q, b""), yes(true));
    assert_eq!(ask(&a, b""), yes(false));
    assert_eq!(ask(b"hello", &a), yes(true));
    assert_eq!(ask(&a[..40], b""), Detect::Maybe);
    assert_eq!(ask(&q[..30], &a[..40]), yes(true));
    assert_eq!(ask(&query(2, "a.b", 1)[..30], &a[..40]), Detect::No);
    assert_eq!(ask(&[&q[..], b"x"].concat(), b""), Detect::No);
    let netbios = query(1, "CKAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", 33);
    assert_eq!(ask(&netbios, b""), Detect::No);
    let stream = |first: &[u8]| Dns.detect(&probe(first, b""));
    assert_eq!(stream(&framed(&q)), yes(true));
    assert_eq!(stream(&framed(&q)[..2]), Detect::Maybe);
    assert_eq!(stream(&q), Detect::No);
    assert_eq!(stream(b"GET / HTTP/1.1\r\n\r\n"), Detect::No);
}

/// Each oddity is met in real captures (RFC 1996, RFC 3425, RFC 6762, section 18.5); two together are no DNS.
#[test]
fn one_oddity_is_dns_and_two_are_not() {
    let ask = |bytes: &[u8]| Dns.detect(&Probe { transport: Transport::Udp, ..probe(bytes, b"") });
    let yes = Detect::Yes { first_is_client: true };
    let with = |flags: u16, qtype: u16| [header(7, flags, [1, 0, 0, 0]), question("zone.example", qtype)].concat();
    let odd_name = [header(7, 0x0100, [1, 0, 0, 0]), vec![3, 0xe5, 0xb0, 0x8f, 0, 0, 255, 0, 1]].concat();
    let inverse = [header(7, 0x0900, [0, 1, 0, 0]), record(&wire_name("192.0.2.1"), 1, 0, b"")].concat();
    let notify = with(0x2400, 6);
    let (status, reserved, code, cut) = (with(0x1000, 1), with(0x0140, 1), with(0x0105, 1), with(0x0200, 12));
    for message in
        [&notify, &status, &reserved, &code, &cut, &with(0x0100, 65534), &with(0x0100, 11), &odd_name, &inverse]
    {
        assert_eq!(ask(message), yes, "{message:02x?}");
    }
    for message in [with(0x0140, 65534), with(0x0145, 1), with(0x1140, 1), with(0x0141, 4321), with(0x1800, 1)] {
        assert_eq!(ask(&message), Detect::No, "{message:02x?}");
    }
    let odd_twice = [odd_name.as_slice(), &[0]].concat();
    assert_eq!(ask(&odd_twice), Detect::No);
}

/// RFC 1002, section 4.2: a query, a registration with its name's scope, and the answer to a query of a node's state.
#[test]
fn names_of_netbios_are_not_dns() {
    let ask = |bytes: &[u8]| Dns.detect(&Probe { transport: Transport::Udp, ..probe(bytes, b"") });
    let (name, scope) = ("FHEPFCELEHFCEPFFFACACACACACACABL", "FHEPFCELEHFCEPFFFACACACACACACABL.shop.test");
    let query = [header(7, 0x0110, [1, 0, 0, 0]), question(name, 32)].concat();
    let registers = record(QNAME, 32, 300_000, &[0, 0, 10, 0, 0, 1]);
    let registration = [header(7, 0x2910, [1, 0, 0, 1]), question(scope, 32), registers].concat();
    let state = [header(7, 0x8400, [0, 1, 0, 0]), record(&wire_name(name), 33, 0, &[0; 47])].concat();
    let waits = [header(7, 0xbc00, [0, 1, 0, 0]), record(&wire_name(name), 10, 5, &[0x29, 0x10])].concat();
    for message in [query, registration, state, waits] {
        assert_eq!(ask(&message), Detect::No, "{message:02x?}");
    }
    let service = [header(7, 0x0100, [1, 0, 0, 0]), question("_ldap._tcp.shop.test", 33)].concat();
    assert_eq!(ask(&service), Detect::Yes { first_is_client: true });
}

proptest! {
    #[test]
    fn chunking_does_not_matter_over_tcp(cuts in prop::collection::vec(1usize..80, 1..20)) {
        let text = record(QNAME, 16, 1, &[0; 20_000]);
        let big = framed(&[header(1, 0x8180, [1, 1, 0, 0]), question("a.b", 16), text].concat());
        let answers = [framed(&answer(1, "a.b")), big, framed(&answer(3, "c"))].concat();
        let whole = [c(framed(&query(1, "a.b", 1))), s(answers)];
        prop_assert_eq!(tcp(&Dns, &whole), tcp(&Dns, &cut(&whole, &cuts)));
    }

    #[test]
    fn nothing_panics(
        flips in prop::collection::vec((0usize..20_000, any::<u8>()), 0..8),
        keep in 0usize..200,
        missing in prop_oneof![Just(0u64), 1u64..100, Just(u64::MAX)],
        stream in any::<bool>(),
    ) {
        let mut bytes = answer(1, "www.example.org");
        for (at, value) in flips {
            let i = at % bytes.len();
            bytes[i] = value;
        }
        bytes.truncate(keep);
        let transport = if stream { Transport::Tcp } else { Transport::Udp };
        let mut parser = Dns.parser(transport);
        for _ in 0..3 {
            parser.feed(Chunk { side: Side::Server, bytes: &bytes, missing }, &mut |item| { line(&item); });
            prop_assert!(parser.buffered() <= 2 * MAX_BUFFERED);
        }
        Dns.detect(&Probe { transport, ..probe(&bytes, b"") });
    }
}
