#![allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::cast_possible_truncation
)]

use super::{huffman, Decoder, Ended, Field, Head};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
}

fn read(decoder: &mut Decoder, block: &[u8]) -> (Ended, Head) {
    let mut head = Head::default();
    (decoder.decode(block, &mut head, &[]), head)
}

fn get(head: &Head, field: Field) -> String {
    head.get(field).map_or("-".into(), |v| String::from_utf8_lossy(v).into_owned())
}

#[test]
fn huffman_strings_are_decoded() {
    let mut out = Vec::new();
    // RFC 7541, C.4.1 and C.6.1.
    assert!(huffman::decode(&hex("f1e3c2e5f23a6ba0ab90f4ff"), &mut out));
    assert_eq!(out, b"www.example.com");
    out.clear();
    assert!(huffman::decode(&hex("9d29ad171863c78f0b97c8e9ae82ae43d3"), &mut out));
    assert_eq!(out, b"https://www.example.com");
    out.clear();
    assert!(huffman::decode(b"", &mut out) && out.is_empty());
    // Padding of zeros, padding of a whole octet, the end of string itself.
    for broken in ["f0", "f1e3c2e5f23a6ba0ab90f4ffff", "ffffffff", "3fffffff00"] {
        assert!(!huffman::decode(&hex(broken), &mut out), "{broken}");
    }
    // A code of thirty bits.
    out.clear();
    assert!(huffman::decode(&[0xff, 0xff, 0xff, 0xf3], &mut out));
    assert_eq!(out, [10]);
}

/// The requests of RFC 7541, C.4, and the responses of C.6, whose table of 256 bytes evicts.
#[test]
fn the_examples_of_the_specification_are_decoded() {
    let mut decoder = Decoder::from_start();
    let requests = [
        ("828684418cf1e3c2e5f23a6ba0ab90f4ff", "http", "/"),
        ("828684be5886a8eb10649cbf", "http", "/"),
        ("828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf", "https", "/index.html"),
    ];
    for (block, scheme, path) in requests {
        let (ended, head) = read(&mut decoder, &hex(block));
        assert_eq!(ended, Ended::Whole);
        assert_eq!((head.unknown, head.disorder), (0, false));
        let said = [Field::Method, Field::Scheme, Field::Path, Field::Authority].map(|f| get(&head, f));
        assert_eq!(said, ["GET", scheme, path, "www.example.com"]);
    }
    assert_eq!((decoder.known(), decoder.size), (3, 164));

    let mut decoder = Decoder::from_start();
    decoder.resize(256);
    let responses = [
        ("488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d\
        3", "302"),
        ("4883640effc1c0bf", "307"),
        ("88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af2708\
        7f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007", "200"),
    ];
    for (block, status) in responses {
        let (ended, head) = read(&mut decoder, &hex(block));
        assert_eq!((ended, get(&head, Field::Status).as_str(), head.unknown), (Ended::Whole, status, 0));
    }
    // Names of the static table count with their length: the size is that of the specification.
    assert_eq!((decoder.known(), decoder.size), (3, 215));
}

/// Inserts `name: value` with incremental indexing.
fn insert(name: &str, value: &str) -> Vec<u8> {
    let mut block = vec![0x40, name.len() as u8];
    block.extend(name.bytes());
    block.push(value.len() as u8);
    block.extend(value.bytes());
    block
}

#[test]
fn after_a_join_only_later_insertions_are_known() {
    let mut decoder = Decoder::default();
    // An old entry by its name: the name is unknown, and so is the new entry's.
    let (_, head) = read(&mut decoder, &[&[0x80 | 62], &[0x40 | 62, 1, b'v'][..]].concat());
    assert_eq!((head.fields, head.unknown), (2, 2));
    let (_, head) = read(&mut decoder, &insert(":path", "/a"));
    assert_eq!(get(&head, Field::Path), "/a");
    read(&mut decoder, &insert(":path", "/b"));
    let path = |decoder: &mut Decoder, index: u8| {
        let (ended, head) = read(decoder, &[0x80 | index]);
        assert_eq!(ended, Ended::Whole);
        (get(&head, Field::Path), head.unknown)
    };
    assert_eq!(path(&mut decoder, 62), ("/b".into(), 0));
    assert_eq!(path(&mut decoder, 63), ("/a".into(), 0));
    assert_eq!(path(&mut decoder, 64), ("-".into(), 1), "the entry with the unknown name");
    assert_eq!(path(&mut decoder, 65), ("-".into(), 1), "an entry of before");
    // A known name with a new value.
    let (_, head) = read(&mut decoder, &[0x40 | 62, 2, b'/', b'c']);
    assert_eq!((get(&head, Field::Path), head.unknown), ("/c".into(), 0));
    decoder.lose();
    assert_eq!(path(&mut decoder, 62), ("-".into(), 1));
}

#[test]
fn secrets_are_not_kept() {
    let mut decoder = Decoder::default();
    let block = [
        insert("authorization", "Bearer canary-1"),
        insert("cookie", "sid=canary-2"),
        vec![0x0f, 17, 3, b'c', b'a', b'n'],
    ];
    let (ended, head) = read(&mut decoder, &block.concat());
    assert_eq!((ended, head.fields, decoder.known()), (Ended::Whole, 3, 2));
    assert!(!format!("{decoder:?}{:?}", String::from_utf8_lossy(&head.text)).contains("canary"));
    assert!(decoder.entries.iter().all(|e| e.value.is_empty()));
    assert!(head.text.is_empty(), "{:?}", head.text);
}

#[test]
fn broken_blocks_are_refused() {
    let ended = |block: &[u8]| read(&mut Decoder::default(), block).0;
    assert_eq!(ended(&[0x80]), Ended::Bad, "index 0");
    assert_eq!(ended(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), Ended::Bad, "an integer without end");
    assert_eq!(ended(&[0x82, 0x3f, 0x00]), Ended::Bad, "a table size behind a field");
    assert_eq!(ended(&insert("Upper", "x")), Ended::Bad);
    assert_eq!(ended(&[0x41]), Ended::Cut);
    assert_eq!(ended(&[0x41, 5, b'a']), Ended::Cut);
    assert_eq!(ended(&[0x3f, 0xe1, 0x1f, 0x82]), Ended::Whole);
}

#[test]
fn tables_are_bounded() {
    let mut decoder = Decoder::default();
    for n in 0..10_000 {
        read(&mut decoder, &insert(":path", &format!("/{n:0100}")));
    }
    assert!(decoder.size <= super::MAX_SIZE && decoder.known() < 500);
}
