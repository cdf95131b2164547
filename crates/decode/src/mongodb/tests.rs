#![allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::cast_possible_truncation
)]

use super::MongoDb;
use crate::testing::{c, claimed, cutting_changes_nothing, s, tcp, Turn};
use crate::Protocol;
use wirespan_model::{Chunk, Side, Transport};

/// A document of elements that are written already.
fn document(elements: &[Vec<u8>]) -> Vec<u8> {
    let body = elements.concat();
    let mut bytes = (body.len() as i32 + 5).to_le_bytes().to_vec();
    bytes.extend(body);
    bytes.push(0);
    bytes
}

fn element(kind: u8, key: &str, value: &[u8]) -> Vec<u8> {
    [&[kind], key.as_bytes(), &[0], value].concat()
}

fn text(key: &str, value: &str) -> Vec<u8> {
    let len = (value.len() as i32 + 1).to_le_bytes();
    element(2, key, &[&len[..], value.as_bytes(), &[0]].concat())
}

fn int(key: &str, n: i32) -> Vec<u8> {
    element(0x10, key, &n.to_le_bytes())
}

fn double(key: &str, n: f64) -> Vec<u8> {
    element(1, key, &n.to_le_bytes())
}

fn message(id: i32, to: i32, op: i32, body: &[u8]) -> Vec<u8> {
    let len = body.len() as i32 + 16;
    [&len.to_le_bytes(), &id.to_le_bytes(), &to.to_le_bytes(), &op.to_le_bytes(), body].concat()
}

fn msg(id: i32, to: i32, flags: u32, document: &[u8]) -> Vec<u8> {
    message(id, to, 2013, &[&flags.to_le_bytes(), &[0][..], document].concat())
}

fn find(id: i32) -> Vec<u8> {
    let filter = document(&[text("name", "geheim")]);
    msg(id, 0, 0, &document(&[text("find", "cart"), element(3, "filter", &filter), text("$db", "shop")]))
}

fn conversation() -> Vec<Turn> {
    let cursor = document(&[
        element(4, "firstBatch", &document(&[element(3, "0", &document(&[text("name", &"geheim".repeat(600))]))])),
        text("ns", "shop.cart"),
    ]);
    let failed = document(&[
        double("ok", 0.0),
        text("errmsg", "no user 'geheim' here: { x: \"geheim\" }"),
        int("code", 11),
        text("codeName", "UserNotFound"),
    ]);
    let insert_body = document(&[text("insert", "orders"), int("ordered", 1), text("$db", "shop")]);
    let list = document(&[text("card", "geheim")]);
    let sequence = [&(list.len() as i32 + 14).to_le_bytes()[..], b"documents\0", &list].concat();
    let section = |first: u8| {
        let (a, b) = ([&[0], &insert_body[..]].concat(), [&[1], &sequence[..]].concat());
        let both = if first == 0 { [a, b] } else { [b, a] };
        message(9, 0, 2013, &[&[0, 0, 0, 0][..], &both.concat(), &[]].concat())
    };
    let duplicate = document(&[
        int("n", 0),
        element(
            4,
            "writeErrors",
            &document(&[element(3, "0", &document(&[int("index", 0), int("code", 11000), text("errmsg", "dup")]))]),
        ),
        double("ok", 1.0),
    ]);
    vec![
        c([find(7), find(8)].concat()),
        s(msg(102, 8, 0, &failed)),
        s(msg(101, 7, 0, &document(&[element(3, "cursor", &cursor), double("ok", 1.0)]))),
        c(section(0)),
        s(msg(103, 9, 0, &duplicate)),
        c(section(1)),
    ]
}

#[test]
fn commands_and_replies_share_an_id_and_hide_values() {
    let said = cutting_changes_nothing(&MongoDb, &conversation(), "geheim");
    let find = "find cart db.system.name=mongodb db.operation.name=find db.namespace=shop db.collection.name=cart";
    let insert =
        "insert orders db.system.name=mongodb db.operation.name=insert db.namespace=shop db.collection.name=orders";
    assert_eq!(said[0], format!("C req @0+85 id=7 {find}"));
    assert_eq!(said[1], format!("C req @85+85 id=8 {find}"));
    assert_eq!(
        said[2],
        "S resp @0+126 id=8 status=11 ClientError error=\"no user '?' here: {?}\" db.response.status_code=11 \
         error.type=UserNotFound"
    );
    assert!(said[3].starts_with("S resp @126+2048 body=") && said[3].ends_with("id=7 Ok"), "{}", said[3]);
    assert!(said[4].ends_with(&format!("id=9 {insert}")), "{}", said[4]);
    assert!(
        said[5].ends_with("id=9 status=11000 ClientError error=\"dup\" db.response.status_code=11000 error.type=11000")
    );
    assert!(said[6].ends_with(&format!("id=9 {insert}")), "{}", said[6]);
}

#[test]
fn a_reply_whose_end_was_not_captured_claims_nothing() {
    let big = msg(5, 7, 0, &document(&[text("x", &"v".repeat(3000)), double("ok", 0.0)]));
    let said = tcp(&MongoDb, &[(wirespan_model::Side::Server, big[..300].to_vec(), big.len() as u64 - 300), s(&big)]);
    assert_eq!(said[0], format!("S resp @0+300 body={} id=7", big.len() - 300));
    assert!(said[1].starts_with(&format!("S resp @{}+2048", big.len())), "{}", said[1]);
}

#[test]
fn unacknowledged_writes_are_one_way_and_replies_may_stream() {
    let ok = document(&[double("ok", 1.0)]);
    let said = tcp(
        &MongoDb,
        &[
            c(msg(1, 0, 2, &document(&[text("insert", "log"), text("$db", "d")]))),
            c(msg(2, 0, 1 << 16, &document(&[int("hello", 1), text("$db", "admin")]))),
            s(msg(50, 2, 2, &ok)),
            s(msg(51, 50, 2, &ok)),
            s(msg(52, 51, 0, &ok)),
            c(msg(3, 0, 0, &document(&[text("createUser", "bob"), text("$db", "admin")]))),
            s(msg(53, 3, 0, &ok)),
        ],
    );
    let starts: Vec<_> = said.iter().map(|l| l.split(" db.").next().unwrap()).collect();
    assert_eq!(starts[0], "C oneway @0+53 insert log");
    assert!(starts[1].ends_with("id=2 hello admin") && starts[2].ends_with("id=2 Ok"), "{starts:?}");
    assert!(starts[3].starts_with("S oneway") && starts[4].starts_with("S oneway"), "{starts:?}");
    assert!(starts[5].ends_with("id=3 createUser admin") && starts[6].ends_with("id=3 Ok"), "{starts:?}");
}

#[test]
fn older_and_compressed_operations_are_read() {
    let hello = document(&[int("isMaster", 1)]);
    let query = |name: &str, body: &[u8]| [&[0; 4], name.as_bytes(), &[0; 5], &[255; 4][..], body].concat();
    let reply = |flags: u8, body: &[u8]| [&[flags, 0, 0, 0][..], &[0; 12], &[1, 0, 0, 0], body].concat();
    let ok = document(&[double("ok", 1.0)]);
    let compressed = [&2013i32.to_le_bytes()[..], &[99, 0, 0, 0, 3], b"squeezed"].concat();
    let failed = document(&[text("$err", "bad"), int("code", 10_107)]);
    let said = tcp(
        &MongoDb,
        &[
            c(message(1, 0, 2004, &query("admin.$cmd", &hello))),
            s(message(2, 1, 1, &reply(8, &ok))),
            c(message(3, 0, 2004, &query("shop.cart", &document(&[text("k", "v")])))),
            s(message(4, 3, 1, &reply(2, &failed))),
            c(message(5, 0, 2006, &[&[0; 4], &b"shop.cart\0"[..], &[0; 4], &hello].concat())),
            c(message(6, 0, 2012, &compressed)),
            s(message(7, 6, 2012, &compressed)),
        ],
    );
    assert!(said[0].contains("id=1 isMaster admin db.system"), "{}", said[0]);
    assert!(said[1].ends_with("id=1 Ok"));
    assert!(said[2].contains("id=3 find cart"), "{}", said[2]);
    assert!(said[3].ends_with("status=10107 ServerError error=\"bad\" db.response.status_code=10107 error.type=10107"));
    assert!(said[4].contains("oneway") && said[4].contains("delete cart"), "{}", said[4]);
    assert!(said[5].ends_with("id=6 db.system.name=mongodb wirespan.mongodb.compressor=zstd"), "{}", said[5]);
    assert!(said[6].ends_with("id=6 wirespan.mongodb.compressor=zstd"), "{}", said[6]);
}

#[test]
fn compressed_messages_are_read_and_masked_like_plain_ones() {
    let zlib = |bytes: &[u8]| {
        let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut packer, bytes).unwrap();
        packer.finish().unwrap()
    };
    let snappy = |bytes: &[u8]| snap::raw::Encoder::new().compress_vec(bytes).unwrap();
    let pack = |plain: &[u8], number: u8| {
        let (header, body) = plain.split_at(16);
        let id = |at: usize| i32::from_le_bytes(header[at..at + 4].try_into().unwrap());
        let packed = match number {
            1 => snappy(body),
            2 => zlib(body),
            _ => zstd::bulk::compress(body, 3).unwrap(),
        };
        let len = (body.len() as i32).to_le_bytes();
        message(id(4), id(8), 2012, &[&2013i32.to_le_bytes()[..], &len, &[number], &packed].concat())
    };
    let failed = document(&[double("ok", 0.0), text("errmsg", "no 'geheim'"), int("code", 11)]);
    // Longer than the part that is read of other documents, and hard to compress.
    let noise: String = (0..1500u32).map(|i| (i.wrapping_mul(2_654_435_761) % 99_999).to_string()).collect();
    let long = msg(4, 0, 0, &document(&[text("insert", "cart"), text("$db", "shop"), text("geheim", &noise)]));
    let packed = pack(&long, 3);
    assert!(packed.len() > 3000, "{}", packed.len());
    let said = tcp(&MongoDb, &[c(&packed), c(pack(&find(5), 3))]);
    assert!(said[0].contains("id=4 insert cart") && said[1].contains("id=5 find cart"), "{said:?}");
    cutting_changes_nothing(&MongoDb, &[c(&packed)], "geheim");
    let said = tcp(&MongoDb, &[(Side::Client, packed[..2500].to_vec(), packed.len() as u64 - 2500), c(find(5))]);
    assert!(said[0].contains("id=4 db.system.name") && said[1].contains("id=5 find cart"), "never guessed: {said:?}");
    for (number, name) in [(1, "snappy"), (2, "zlib"), (3, "zstd")] {
        let turns = [
            c(pack(&find(1), number)),
            s(pack(&msg(2, 1, 0, &failed), number)),
            c(pack(&msg(3, 0, 2, &failed), number)),
        ];
        let said = tcp(&MongoDb, &turns);
        assert!(said[0].contains("id=1 find cart") && said[0].contains("db.namespace=shop"), "{}", said[0]);
        assert!(said[0].ends_with(&format!("wirespan.mongodb.compressor={name}")), "{}", said[0]);
        assert!(said[1].contains("status=11 ") && said[1].contains("error="), "{}", said[1]);
        assert!(said[2].starts_with("C oneway"), "{}", said[2]);
        assert!(!said.concat().contains("geheim"), "{said:?}");
        cutting_changes_nothing(&MongoDb, &turns, "geheim");
    }
}

#[test]
fn connections_that_offer_zstd_are_wanted_whole() {
    let hello = |name: &str, offered: &[&str]| {
        let names: Vec<_> = offered.iter().enumerate().map(|(i, n)| text(&i.to_string(), n)).collect();
        document(&[int(name, 1), element(4, "compression", &document(&names)), text("$db", "admin")])
    };
    let wants = |bytes: &[u8]| {
        let mut parser = MongoDb.parser(Transport::Tcp);
        parser.feed(Chunk { side: Side::Client, bytes, missing: 0 }, &mut |_| {});
        parser.needs_whole()
    };
    assert!(wants(&msg(1, 0, 0, &hello("hello", &["snappy", "zstd"]))));
    let query = [&[0; 4], &b"admin.$cmd\0"[..], &[0; 8], &hello("ismaster", &["zstd"])].concat();
    assert!(wants(&message(1, 0, 2004, &query)));
    assert!(
        !wants(&msg(1, 0, 0, &hello("hello", &["zlib", "snappy"]))) && !wants(&msg(1, 0, 0, &hello("find", &["zstd"])))
    );
}

#[test]
fn gaps_between_messages_are_survived() {
    let one = find(1);
    let said =
        tcp(&MongoDb, &[(Side::Client, one[..40].to_vec(), 5000), c(b"nonsense in the middle of something"), c(&one)]);
    assert!(said[0].starts_with("C req @0+40 body=45 id=1 find cart"), "{}", said[0]);
    assert_eq!(said[1], "Malformed Client mongodb_gap");
    assert!(said[2].starts_with(&format!("C req @{}+85 id=1 find cart", 40 + 5000 + 35)), "{}", said[2]);
}

#[test]
fn connections_are_recognised_from_any_message() {
    let ok = msg(9, 1, 0, &document(&[double("ok", 1.0)]));
    assert_eq!(claimed(&find(1), b""), Some(("mongodb", true)));
    assert_eq!(claimed(&find(1), &ok), Some(("mongodb", true)));
    assert_eq!(claimed(&ok, &find(1)), Some(("mongodb", false)));
    assert_eq!(claimed(&ok, &ok), None);
    assert_eq!(claimed(&find(1), &find(2)), None);
    for at in 1..60 {
        assert_eq!(claimed(&find(1)[at..], b""), None, "from {at}");
    }
    let mut bad = find(1);
    bad[17] = 7;
    assert_eq!(claimed(&bad, b""), None);
}
