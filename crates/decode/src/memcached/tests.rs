#![allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::cast_possible_truncation
)]

use super::Memcached;
use crate::testing::{c, claimed, cutting_changes_nothing, s, tcp, Turn};
use wirespan_model::Side;

fn short(said: Vec<String>) -> Vec<String> {
    said.into_iter().map(|l| l.replace(" db.system.name=memcached", "")).collect()
}

fn conversation() -> Vec<Turn> {
    vec![
        c("get geheim1 geheim2\r\nset geheim 0 0 9\r\ngeheim\r\n!\r\n"),
        s("VALUE geheim1 0 8\r\ngeheim\r\n\r\nVALUE geheim2 0 0\r\n\r\nEND\r\nSTORED\r\n"),
        c("delete geheim noreply\r\nget geheim\r\nincr geheim 5\r\nstats\r\nversion\r\n"),
        s("END\r\n42\r\nSTAT pid 1\r\nSTAT x y\r\nEND\r\nVERSION 1.6\r\n"),
        c("bogus geheim\r\n"),
        s("ERROR\r\n"),
        c("append k 0 0 x\r\n"),
        s("CLIENT_ERROR bad \"geheim\" chunk\r\n"),
        c("touch k 5\r\n"),
        s("SERVER_ERROR out of memory\r\n"),
    ]
}

#[test]
fn text_commands_are_read() {
    let said = short(cutting_changes_nothing(&Memcached, &conversation(), "geheim"));
    assert_eq!(
        said,
        [
            "C req @0+21 get db.operation.name=get wirespan.memcached.keys=2",
            "C req @21+18 body=11 set db.operation.name=set wirespan.memcached.keys=1",
            "S resp @0+19 body=open Ok",
            "End Server @55 None wirespan.memcached.hits=2",
            "S resp @55+8 Ok db.response.status_code=STORED",
            "C oneway @50+23 delete db.operation.name=delete wirespan.memcached.keys=1",
            "C req @73+12 get db.operation.name=get wirespan.memcached.keys=1",
            "C req @85+15 incr db.operation.name=incr wirespan.memcached.keys=1",
            "C req @100+7 stats db.operation.name=stats",
            "C req @107+9 version db.operation.name=version",
            "S resp @63+5 Ok wirespan.memcached.hits=0",
            "S resp @68+4 Ok",
            "S resp @72+12 body=open Ok",
            "End Server @99 None",
            "S resp @99+13 Ok db.response.status_code=VERSION",
            "C req @116+14 _OTHER db.operation.name=_OTHER",
            "S resp @112+7 ClientError error=\"ERROR\" db.response.status_code=ERROR error.type=ERROR",
            "C req @130+16 _OTHER db.operation.name=_OTHER",
            "S resp @119+33 ClientError error=\"bad \\\"?\\\" chunk\" db.response.status_code=CLIENT_ERROR \
             error.type=CLIENT_ERROR",
            "C req @146+11 touch db.operation.name=touch wirespan.memcached.keys=1",
            "S resp @152+28 ServerError error=\"out of memory\" db.response.status_code=SERVER_ERROR \
             error.type=SERVER_ERROR",
        ]
    );
}

#[test]
fn meta_commands_and_quiet_commands_are_read() {
    let said = short(cutting_changes_nothing(
        &Memcached,
        &[
            c("mg geheim v\r\nms geheim 2 T9\r\nhi\r\nmg a v q\r\nmg geheim v q\r\nmn\r\n"),
            s("VA 6 s\r\ngeheim\r\nHD\r\nVA 1\r\nx\r\nMN\r\n"),
            c("mg a v q O1\r\nmg b v O2\r\n"),
            s("VA 1 O1\r\nx\r\nEN O2\r\n"),
        ],
        "geheim",
    ));
    let kinds: Vec<_> = said.iter().map(|l| l.split('@').next().unwrap().trim()).collect();
    assert_eq!(
        kinds,
        [
            "C req", "C req", "C oneway", "C oneway", "C req", "S resp", "S resp", "S oneway", "S resp", "C oneway",
            "C req", "S oneway", "S resp"
        ]
    );
    assert_eq!(said[5], "S resp @0+8 body=8 Ok db.response.status_code=VA");
    assert_eq!(said[8], "S resp @29+4 Ok db.response.status_code=MN");
    assert_eq!(said[12], "S resp @45+7 Ok db.response.status_code=EN");
}

fn binary(magic: u8, opcode: u8, status: u16, opaque: u32, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let body = [extras, key, value].concat();
    let mut bytes = vec![magic, opcode];
    bytes.extend((key.len() as u16).to_be_bytes());
    bytes.extend([extras.len() as u8, 0]);
    bytes.extend(status.to_be_bytes());
    bytes.extend((body.len() as u32).to_be_bytes());
    bytes.extend(opaque.to_be_bytes());
    bytes.extend([0; 8]);
    bytes.extend(body);
    bytes
}

#[test]
fn binary_commands_are_read() {
    let said = short(cutting_changes_nothing(
        &super::MemcachedBinary,
        &[
            c([
                binary(0x80, 1, 0, 77, &[0; 8], b"key", b"geheim"),
                binary(0x80, 9, 0, 78, &[], b"geheim", b""),
                binary(0x80, 10, 0, 79, &[], b"", b""),
            ]
            .concat()),
            s([
                binary(0x81, 10, 0, 79, &[], b"", b""),
                binary(0x81, 1, 0x82, 77, &[], b"", b"Out of geheim"),
                binary(0x81, 9, 0, 78, &[0; 4], b"", b"geheim"),
                binary(0x81, 0, 1, 80, &[], b"", b"Not found"),
            ]
            .concat()),
        ],
        "geheim",
    ));
    assert_eq!(
        said,
        [
            "C req @0+24 body=17 id=77 set db.operation.name=set",
            "C oneway @41+24 body=6 get db.operation.name=get",
            "C req @71+24 id=79 noop db.operation.name=noop",
            "S resp @0+24 id=79 status=0 Ok db.response.status_code=SUCCESS",
            "S resp @24+24 body=13 id=77 status=130 ServerError error=\"ENOMEM\" db.response.status_code=ENOMEM \
             error.type=ENOMEM",
            "S oneway @61+24 body=10 get status=0 Ok db.operation.name=get db.response.status_code=SUCCESS",
            "S resp @95+24 body=9 id=80 status=1 Ok db.response.status_code=KEY_ENOENT",
        ]
    );
}

#[test]
fn missing_values_and_long_lines_are_skipped() {
    let keys = "get ".to_owned() + &"k ".repeat(3000) + "\r\n";
    let said = short(tcp(
        &Memcached,
        &[
            (Side::Server, b"VALUE k 0 1000\r\nabc".to_vec(), 999),
            s("END\r\n"),
            (Side::Server, b"VALUE k 0 1000\r\nabc".to_vec(), 1100),
            s("xx\r\nEND\r\n"),
            s("STORED\r\n"),
            c(&keys),
            c("get k\r\n"),
        ],
    ));
    assert_eq!(
        said,
        [
            "S resp @0+16 body=open Ok",
            "End Server @1023 None wirespan.memcached.hits=1",
            "S resp @1023+16 body=open Ok",
            "Malformed Server memcached_gap",
            "S resp @2151+8 Ok db.response.status_code=STORED",
            "C req @0+2048 get db.operation.name=get",
            "C req @6006+7 get db.operation.name=get wirespan.memcached.keys=1",
        ]
    );
}

#[test]
fn connections_are_recognised_and_others_are_not() {
    let yes = Some(("memcached", true));
    assert_eq!(claimed(b"get a\r\n", b""), None);
    assert_eq!(claimed(b"get a b\r\n", b"VALUE a 0 1\r\nx\r\nEND\r\n"), yes);
    assert_eq!(claimed(b"get a\r\n", b"END\r\n"), yes);
    assert_eq!(claimed(b"set a 0 0 1\r\nx\r\n", b"STORED\r\n"), yes);
    assert_eq!(claimed(b"incr a 1\r\n", b"2\r\n"), yes);
    assert_eq!(claimed(b"mg a v\r\n", b"VA 1\r\nx\r\n"), yes);
    assert_eq!(claimed(b"VALUE a 0 1\r\nx\r\nEND\r\n", b"get a\r\n"), Some(("memcached", false)));
    // beanstalkd, Redis, and answers of nobody.
    assert_eq!(claimed(b"delete 5\r\n", b"DELETED\r\n"), None);
    assert_eq!(claimed(b"get a\r\n", b"$1\r\nx\r\n"), Some(("redis", true)));
    assert_eq!(claimed(b"get a\r\n", b"STORED\r\n"), None);
    let get = binary(0x80, 0, 0, 1, &[], b"key", b"");
    let found = binary(0x81, 0, 0, 1, &[0; 4], b"", b"v");
    assert_eq!(claimed(&get, b""), yes);
    assert_eq!(claimed(&get, &found), yes);
    assert_eq!(claimed(&found, &get), Some(("memcached", false)));
    assert_eq!(claimed(&found, b""), None);
}
