#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use super::ZooKeeper;
use crate::testing::{c, claimed, cutting_changes_nothing, s, tcp};

fn frame(parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat()
}

fn i(n: i32) -> [u8; 4] {
    n.to_be_bytes()
}

fn text(t: &str) -> Vec<u8> {
    frame(&[t.as_bytes()])
}

fn connect() -> Vec<u8> {
    frame(&[&i(0), &[0; 8], &i(10_000), &[0; 8], &i(16), b"geheim0123456789", &[0]])
}

fn connected(timeout: i32) -> Vec<u8> {
    frame(&[&i(0), &i(timeout), &[7; 8], &i(16), b"geheim0123456789", &[0]])
}

fn request(xid: i32, op: i32, rest: &[u8]) -> Vec<u8> {
    frame(&[&i(xid), &i(op), rest])
}

fn reply(xid: i32, error: i32, rest: &[u8]) -> Vec<u8> {
    frame(&[&i(xid), &i(0), &i(77), &i(error), rest])
}

#[test]
fn requests_replies_and_events_are_read() {
    let set = [&text("/app/key")[..], &text("geheim"), &i(-1)].concat();
    let turns = [
        c(connect()),
        s(connected(10_000)),
        c([request(1, 3, &[&text("/app")[..], &[1]].concat()), request(2, 4, &[&text("/app")[..], &[1]].concat())]
            .concat()),
        s([reply(1, -101, b""), reply(2, -101, b"")].concat()),
        c([
            request(-2, 11, b""),
            request(3, 5, &set),
            request(-4, 100, &[&i(0)[..], &text("digest"), &text("u:geheim")].concat()),
        ]
        .concat()),
        s([reply(3, -103, b""), reply(-2, 0, b""), reply(-1, 0, &[&i(3)[..], &i(3), &text("/app")].concat())].concat()),
        s([reply(-4, -115, b""), reply(9, -1, &[0; 900])].concat()),
        c(request(4, -11, b"")),
    ];
    let said = cutting_changes_nothing(&ZooKeeper, &turns, "geheim");
    let said: Vec<_> = said.iter().map(|l| l.replace(" db.system.name=zookeeper", "")).collect();
    assert_eq!(
        said,
        [
            "C req @0+49 id=4294967296 connect db.operation.name=connect",
            "S resp @0+41 id=4294967296 Ok",
            "C req @49+21 id=1 exists /app db.operation.name=exists wirespan.zookeeper.path=/app",
            "C req @70+21 id=2 getData /app db.operation.name=getData wirespan.zookeeper.path=/app",
            "S resp @41+20 id=1 status=-101 Ok db.response.status_code=NoNode",
            "S resp @61+20 id=2 status=-101 ClientError error=\"NoNode\" db.response.status_code=NoNode \
            error.type=NoNode",
            "C req @91+12 id=4294967294 ping db.operation.name=ping",
            "C req @103+38 id=3 setData /app/key db.operation.name=setData wirespan.zookeeper.path=/app/key",
            "C req @141+38 id=4294967292 auth db.operation.name=auth",
            "S resp @81+20 id=3 status=-103 ClientError error=\"BadVersion\" db.response.status_code=BadVersion \
             error.type=BadVersion",
            "S resp @101+20 id=4294967294 Ok",
            "S oneway @121+36 NodeDataChanged /app db.operation.name=NodeDataChanged wirespan.zookeeper.path=/app",
            "S resp @157+20 id=4294967292 status=-115 ClientError error=\"AuthFailed\" \
            db.response.status_code=AuthFailed \
             error.type=AuthFailed",
            "S resp @177+512 body=408 id=9 status=-1 ServerError error=\"SystemError\" \
             db.response.status_code=SystemError error.type=SystemError",
            "C req @179+12 id=4 closeSession db.operation.name=closeSession",
        ]
    );
    let refused = tcp(&ZooKeeper, &[c(connect()), s(connected(0))]);
    assert!(refused[1].contains("ClientError error=\"SessionExpired\""), "{}", refused[1]);
}

#[test]
fn connections_are_recognised_and_others_are_not() {
    let get = request(5, 4, &[&text("/app")[..], &[1]].concat());
    assert_eq!(claimed(&connect(), b""), Some(("zookeeper", true)));
    assert_eq!(claimed(&connect(), &connected(9)), Some(("zookeeper", true)));
    assert_eq!(claimed(&get, b""), None);
    assert_eq!(claimed(&get, &reply(5, 0, b"data")), Some(("zookeeper", true)));
    assert_eq!(claimed(&get, &reply(6, 0, b"data")), None, "an answer to another request");
    assert_eq!(claimed(&reply(4, 0, b""), &get), Some(("zookeeper", false)));
    assert_eq!(claimed(&request(-2, 11, b""), &reply(-2, 0, b"")), Some(("zookeeper", true)));
    // Kafka's requests have lengths and small numbers too.
    let kafka = frame(&[&[0, 18, 0, 3, 0, 0, 0, 1, 0, 5], b"admin\0\0\0"]);
    assert_eq!(claimed(&kafka, b""), None);
}
