//! The example, as any protocol is tested; and plug-ins that do what they may not.
#![allow(clippy::unwrap_used, missing_docs)]

use std::io::Write as _;
use wirespan_decode::{Detect, Probe, Protocol, Registry, Verdict};
use wirespan_model::{Chunk, Item, Kind, Side, Transport};
use wirespan_plugin::{Limits, Plugin, Settings};

const SECRET: &str = "zq-payload-secret";

fn example() -> Plugin {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/parcel.wat").into();
    Plugin::load(&Settings { path, ..Settings::default() }).unwrap()
}

/// A frame of the example's protocol.
fn frame(kind: u8, id: u8, rest: &[&[u8]]) -> Vec<u8> {
    let rest = rest.concat();
    let n = rest.len() + 2;
    let mut frame = vec![0xb7, (n & 127) as u8 | 128, (n >> 7) as u8, kind, id];
    frame.extend_from_slice(&rest);
    frame
}

fn conversation() -> Vec<(Side, Vec<u8>)> {
    let payload = [SECRET.as_bytes(), &[0xb7; 700]].concat();
    let client = [
        b"PRCL\x01".to_vec(),
        frame(1, 1, &[b"\x80\x05store", b"\x03p-1", &payload]),
        frame(1, 2, &[b"\x81\x05fetch", b"\x03p-9"]),
        frame(3, 0, &[b"\x00", b"\x03p-2"]),
        frame(1, 3, &[b"\x01", b"\x03p-1"]),
    ];
    let server = [frame(2, 2, &[b"\x01"]), frame(2, 1, &[b"\x00"]), frame(2, 3, &[b"\x00", &payload])];
    vec![(Side::Client, client.concat()), (Side::Server, server.concat())]
}

fn say(protocol: &dyn Protocol, turns: &[(Side, Vec<u8>, u64)]) -> Vec<String> {
    say_over(protocol, Transport::Tcp, turns)
}

fn say_over(protocol: &dyn Protocol, transport: Transport, turns: &[(Side, Vec<u8>, u64)]) -> Vec<String> {
    let mut said = Vec::new();
    let mut parser = protocol.parser(transport);
    let mut write = |item: Item<'_, '_>| match item {
        Item::Message(m) => {
            let kind = match m.kind {
                Kind::Request => "req",
                Kind::Response => "resp",
                _ => "oneway",
            };
            let id = m.id.map(|id| format!(" id={id}")).unwrap_or_default();
            let attrs: Vec<_> = m.attrs.iter().map(|(k, v)| format!("{k}={}", v.to_value())).collect();
            said.push(format!(
                "{:?} {kind} @{}+{} {:?}{id} {} {} {:?} {:?} {} {}",
                m.side,
                m.offset,
                m.head_len,
                m.body,
                m.operation,
                m.target,
                m.status_code,
                m.outcome,
                m.error,
                attrs.join(",")
            ));
        }
        other => said.push(format!("{other:?}")),
    };
    for (side, bytes, missing) in turns {
        parser.feed(Chunk { side: *side, bytes, missing: *missing }, &mut write);
        assert!(parser.buffered() <= 40 * 1024);
    }
    parser.finish(&mut write);
    said
}

fn whole(turns: &[(Side, Vec<u8>)]) -> Vec<(Side, Vec<u8>, u64)> {
    turns.iter().map(|(side, bytes)| (*side, bytes.clone(), 0)).collect()
}

#[test]
fn the_example_reads_its_protocol() {
    let said = say(&example(), &whole(&conversation()));
    assert_eq!(
        said,
        [
            "Client req @5+16 Length(717) id=1 store p-1 None Unset  parcel.size=733",
            "Client req @738+16 None id=2 fetch p-9 None Unset  parcel.size=16",
            "Client oneway @754+10 None store p-2 None Unset  parcel.size=10",
            "Client req @764+10 None id=3 fetch p-1 None Unset  parcel.size=10",
            "Server resp @0+6 None id=2   Some(1) ClientError no-such-parcel ",
            "Server resp @6+6 None id=1   Some(0) Ok  ",
            "Server resp @12+6 Length(717) id=3   Some(0) Ok  ",
        ]
    );
    assert!(!said.iter().any(|l| l.contains(SECRET)));
}

#[test]
fn cutting_changes_nothing_and_gaps_are_told() {
    let plugin = example();
    let expected = say(&plugin, &whole(&conversation()));
    for size in [1, 2, 3, 7, 64, 300, 1000] {
        let mut cut = Vec::new();
        for (side, bytes) in conversation() {
            cut.extend(bytes.chunks(size).map(|piece| (side, piece.to_vec(), 0)));
        }
        assert_eq!(say(&plugin, &cut), expected, "cut at {size}");
    }
    // The end of a call that was not copied, anywhere: what a message seen says will follow is no gap, all else is one.
    let (side, bytes) = conversation().remove(0);
    for at in 0..bytes.len() {
        let missing = u64::try_from(bytes.len() - at).unwrap();
        let next = frame(1, 9, &[b"\x80\x05store", b"\x03p-3"]);
        let said = say(&plugin, &[(side, bytes[..at].to_vec(), missing), (side, next.clone(), 0)]);
        assert!(said.iter().any(|l| l.contains("id=9 store p-3")), "kept {at}: {said:#?}");
        let told = said.iter().any(|l| l.contains("parcel_gap") || l.contains("id=3"));
        assert!(told, "kept {at}: {said:#?}");
        assert!(!said.iter().any(|l| l.contains(SECRET)), "kept {at}: {said:#?}");
    }
    let mut head = bytes[..60].to_vec();
    let of_first = 5 + 733 - 60;
    let mut said = say(&plugin, &[(side, head.clone(), of_first), (side, bytes[738..].to_vec(), 0)]);
    assert!(said.iter().all(|l| !l.contains("gap")) && said.len() == 4, "{said:#?}");
    // A name that nobody saw is unknown, not guessed.
    head.truncate(30);
    said = say(&plugin, &[(side, head, 9_000), (side, frame(1, 4, &[b"\x01", b"\x01x"]), 0)]);
    assert!(said.last().unwrap().contains("id=4  x"), "{said:#?}");
}

#[test]
fn it_is_recognised_after_the_built_in_protocols_and_nothing_else_is() {
    let plugin: &'static Plugin = Box::leak(Box::new(example()));
    let registry = Registry::with(vec![plugin]);
    let probe = |first: &'static [u8]| Probe {
        transport: Transport::Tcp,
        first,
        second: b"",
        first_is_client: None,
        server_port: None,
    };
    let known = |first| match registry.infer(&probe(first), (1, 0)) {
        Verdict::Known { protocol, first_is_client } => Some((protocol.name(), first_is_client)),
        _ => None,
    };
    assert_eq!(known(b"PRCL\x01\xb7\x05"), Some(("parcel", true)));
    assert_eq!(known(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), Some(("http", true)));
    assert_eq!(known(b"PRCL\x02\xb7\x05"), None);
    assert_eq!(plugin.detect(&probe(b"PRC")), Detect::Maybe);
    assert_eq!(plugin.detect(&probe(b"PRCL\x01\x00\x00")), Detect::No);
    assert!(registry.counters().iter().any(|(name, n)| name == "parcel_calls" && *n > 0));
}

/// A module whose functions are these; `detect` claims everything unless it says otherwise.
struct Bad<'a> {
    read: &'a str,
    detect: &'a str,
    more: &'a str,
}

impl Default for Bad<'_> {
    fn default() -> Self {
        Bad { read: "(i64.const 1)", detect: "(i32.const 2)", more: "" }
    }
}

impl Bad<'_> {
    fn load_with(&self, limits: Limits) -> Result<Plugin, String> {
        let text = format!(
            r#"(module
              (import "wirespan" "message" (func $message (param i32 i32 i32)))
              (import "wirespan" "operation" (func $operation (param i32 i32)))
              (import "wirespan" "skip" (func $skip (param i64)))
              (import "wirespan" "attribute_int" (func $attribute_int (param i32 i32 i64)))
              (memory (export "memory") 1)
              (func (export "wirespan_abi") (result i32) (i32.const 1))
              (func (export "wirespan_alloc") (param i32) (result i32) (i32.const 1024))
              (func (export "wirespan_detect") (param i32 i32 i32 i32 i32 i32) (result i32) {})
              (func $read (export "wirespan_read") (param i32 i32 i32 i32 i32) (result i64) (local $i i32) {})
              {})"#,
            self.detect, self.read, self.more
        );
        load(&text, limits)
    }

    fn load(&self) -> Plugin {
        self.load_with(Limits::default()).unwrap()
    }
}

fn load(text: &str, limits: Limits) -> Result<Plugin, String> {
    let mut file = tempfile::Builder::new().suffix(".wat").tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let settings = Settings { path: file.path().into(), name: "bad".into(), limits, ..Settings::default() };
    Plugin::load(&settings).map_err(|e| e.to_string())
}

fn counter(plugin: &Plugin, name: &str) -> u64 {
    plugin.counters().into_iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("no {name}")).1
}

const PROBE: Probe<'_> =
    Probe { transport: Transport::Tcp, first: b"abc", second: b"", first_is_client: None, server_port: None };

/// Three connections: each is given up with its first call, then the plug-in is off and claims nothing any more.
fn goes_wrong(bad: &Bad<'_>, reason: &str) {
    let plugin = bad.load();
    for n in 1..=3 {
        assert!(matches!(plugin.detect(&PROBE), Detect::Yes { .. }), "{reason}");
        let said = say(&plugin, &[(Side::Client, vec![b'a'; 40], 0), (Side::Client, vec![b'b'; 40], 0)]);
        assert_eq!(said, ["Upgrade(\"bad\")"], "{reason}");
        assert_eq!(counter(&plugin, &format!("bad_faults_{reason}")), n, "{:?}", plugin.counters());
        assert_eq!(counter(&plugin, "bad_off_faults"), u64::from(n == 3));
    }
    assert_eq!(plugin.detect(&PROBE), Detect::No);
    assert_eq!(say(&plugin, &[(Side::Client, vec![b'a'; 40], 0)]), ["Upgrade(\"bad\")"]);
    assert_eq!(counter(&plugin, "bad_unread_dropped_bytes"), 4 * 40);
}

#[test]
fn what_goes_wrong_costs_the_plugin_only() {
    let read = |read, reason| goes_wrong(&Bad { read, ..Bad::default() }, reason);
    read("(loop $l (br $l)) (i64.const 0)", "loop");
    read("unreachable", "trap");
    read("(call $read (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4))", "trap");
    read("(i64.div_s (i64.const 1) (i64.const 0))", "trap");
    read("(drop (memory.grow (i32.const 4096))) (i64.const 1)", "memory");
    read("(loop $l (drop (memory.grow (i32.const 1))) (br $l)) (i64.const 1)", "memory");
    read("(i64.load (i32.const -1))", "range");
    read(
        "(call $message (i32.const 0) (i32.const 0) (i32.const 1)) (call $operation (i32.const -8) (i32.const 64)) \
        (i64.const 1)",
        "range",
    );
    read("(i64.const 41)", "lie");
    read("(i64.const -2)", "lie");
    read("(i64.const 0x7fffffffffffffff)", "lie");
    read("(call $message (i32.const 9) (i32.const 0) (i32.const 1)) (i64.const 1)", "lie");
    read("(call $message (i32.const 0) (i32.const 30) (i32.const 11)) (i64.const 40)", "lie");
    read("(call $message (i32.const 0) (i32.const 30) (i32.const 10)) (i64.const 30)", "lie");
    read("(call $message (i32.const 0) (i32.const -1) (i32.const 1)) (i64.const 1)", "lie");
    read("(call $message (i32.const 0) (i32.const 0) (i32.const 0)) (i64.const 0)", "lie");
    read("(call $operation (i32.const 0) (i32.const 1)) (i64.const 1)", "lie");
    read("(call $skip (i64.const -5)) (i64.const 1)", "lie");
    let attribute = "(call $message (i32.const 0) (i32.const 0) (i32.const 1)) (call $attribute_int (i32.const 0) \
        (i32.const 3) (i64.const 1)) (i64.const 1)";
    read(attribute, "lie");
    read("(loop $l (call $message (i32.const 0) (i32.const 0) (i32.const 1)) (br $l)) (i64.const 1)", "flood");
    let words = "(call $message (i32.const 0) (i32.const 0) (i32.const 1))
        (loop $l (call $operation (i32.const 0) (i32.const 1000)) (br $l)) (i64.const 1)";
    read(words, "flood");
}

#[test]
fn datagrams_are_their_own_beginning() {
    // A request in each datagram that begins with `r`; of others nothing is read.
    let read = "(if (i32.ne (i32.load8_u (local.get 2)) (i32.const 0x72)) (then (return (i64.const 0))))
        (call $message (i32.const 0) (i32.const 0) (local.get 3)) (i64.extend_i32_u (local.get 3))";
    let more = "(func (export \"wirespan_transport\") (result i32) (i32.const 2))";
    let plugin = Bad { read, more, ..Bad::default() }.load();
    assert_eq!(plugin.detect(&PROBE), Detect::No);
    assert!(matches!(plugin.detect(&Probe { transport: Transport::Udp, ..PROBE }), Detect::Yes { .. }));
    let turns = [b"r1".to_vec(), b"??".to_vec(), b"r22".to_vec()].map(|bytes| (Side::Client, bytes, 0));
    let said = say_over(&plugin, Transport::Udp, &turns);
    assert!(said[0].starts_with("Client req @0+2 ") && said[2].starts_with("Client req @4+3 "), "{said:#?}");
    assert!(said[1].contains("bad_bad_message") && said.len() == 3, "{said:#?}");
}

#[test]
fn wrong_verdicts_are_faults_too() {
    for (detect, reason) in [("(i32.const 7)", "lie"), ("(loop $l (br $l)) (i32.const 0)", "loop")] {
        let plugin = Bad { detect, ..Bad::default() }.load();
        for _ in 0..5 {
            assert_eq!(plugin.detect(&PROBE), Detect::No);
        }
        assert_eq!(counter(&plugin, &format!("bad_faults_{reason}")), 3);
    }
}

#[test]
fn work_without_measure_ends_even_if_each_call_is_short() {
    let read = "(loop $l (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $l (i32.lt_u (local.get $i) (i32.const 60000)))) (i64.const 1)";
    let plugin = Bad { read, ..Bad::default() }.load();
    let said = say(&plugin, &[(Side::Client, vec![b'a'; 4000], 0)]);
    assert_eq!(said, ["Upgrade(\"bad\")"]);
    assert_eq!(counter(&plugin, "bad_faults_slow"), 1, "{:?}", plugin.counters());
}

#[test]
fn a_fault_is_forgiven_as_often_as_the_user_says() {
    let read = "(if (i32.eq (i32.load8_u (local.get 2)) (i32.const 0x78)) (then unreachable)) (i64.extend_i32_u \
        (local.get 3))";
    let bad = Bad { read, ..Bad::default() };
    let plugin = bad.load_with(Limits { faults: 2, ..Limits::default() }).unwrap();
    assert_eq!(say(&plugin, &[(Side::Client, b"x".to_vec(), 0)]).len(), 1);
    // Another connection goes on with a fresh instance.
    assert!(say(&plugin, &[(Side::Client, b"a".to_vec(), 0)]).is_empty());
    assert_eq!(counter(&plugin, "bad_off_faults"), 0);
    assert_eq!(say(&plugin, &[(Side::Client, b"x".to_vec(), 0)]).len(), 1);
    assert_eq!(counter(&plugin, "bad_off_faults"), 1);
}

#[test]
fn a_file_that_is_no_plugin_is_refused_with_the_missing_part() {
    let error = |text: &str| load(text, Limits::default()).map(|_| ()).unwrap_err();
    assert!(error("nonsense").contains("no WebAssembly module"));
    assert!(error("(module)").contains("exports no `memory`"));
    assert!(error("(module (memory (export \"memory\") 1))").contains("wirespan_abi"));
    let abi = "(module (memory (export \"memory\") 1) (func (export \"wirespan_abi\") (result i32) (i32.const 2)))";
    assert!(error(abi).contains("version 2"), "{}", error(abi));
    assert!(error("(module (import \"env\" \"open\" (func)))").contains("open"));
    assert!(error("(module (memory (export \"memory\") 4096))").contains("memory"));
    let more = |more| Bad { more, ..Bad::default() }.load_with(Limits::default()).map(|_| ()).unwrap_err();
    assert!(more("(func $s (loop $l (br $l))) (start $s)").contains("fuel"));
    let state = more("(func (export \"wirespan_state\") (result i32) (i32.const 5000))");
    assert!(state.contains("wirespan_state") && state.contains("4096"), "{state}");
    let missing = Settings { path: "/no/such/parcel.wasm".into(), ..Settings::default() };
    assert!(Plugin::load(&missing).map(|_| ()).unwrap_err().to_string().contains("/no/such/parcel.wasm"));
    let named = Settings { path: "x.wat".into(), name: "http".into(), ..Settings::default() };
    assert!(Plugin::load(&named).map(|_| ()).unwrap_err().to_string().contains("built-in"));
}
