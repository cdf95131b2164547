//! Values that are let through are shown, and no others.
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation, clippy::arithmetic_side_effects)]

use crate::mask::{Keep, Mask};
use crate::testing::{c, s, Turn};
use crate::{Protocol, Registry};
use wirespan_model::{Chunk, Transport};

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|n| n.to_string()).collect()
}

/// The settings of one protocol.
fn keep(protocol: &str, mask: Mask) -> Keep {
    Keep::default().with(protocol, &mask).expect("names")
}

fn keep_keys(protocol: &str) -> Keep {
    keep(protocol, Mask { keys: true, ..Mask::default() })
}

fn say(protocol: &dyn Protocol, keep: Keep, turns: &[Turn]) -> Vec<String> {
    let mut parser = Registry::default().keeping(keep).parser(protocol, Transport::Tcp);
    let mut said = Vec::new();
    for (side, bytes, missing) in turns {
        parser.feed(Chunk { side: *side, bytes, missing: *missing }, &mut |i| said.push(crate::testing::line(&i)));
    }
    parser.finish(&mut |i| said.push(crate::testing::line(&i)));
    said
}

const REQUEST: &str =
    "GET /orders?page=2&token=canary-token&sort=up#canary-part HTTP/1.1\r\nHost: shop\r\nX-Tenant:  acme \r\n\
                       Authorization: Bearer canary-auth\r\nCookie: canary-cookie\r\n\r\n";
const RESPONSE: &str =
    "HTTP/1.1 200 OK\r\nServer-Timing: db;dur=5\r\nSet-Cookie: canary-set\r\nContent-Length: 0\r\n\r\n";

#[test]
fn http_shows_only_allowed_values() {
    let turns = [c(REQUEST), s(RESPONSE)];
    let before = say(&crate::http1::Http1, Keep::default(), &turns).join("\n");
    assert!(!before.contains("acme") && !before.contains("page") && !before.contains("canary"), "{before}");
    let keep = keep(
        "http",
        Mask {
            request_headers: names(&["X-Tenant"]),
            response_headers: names(&["server-timing"]),
            query: names(&["page", "sort"]),
            ..Mask::default()
        },
    );
    let after = say(&crate::http1::Http1, keep, &turns);
    assert!(after[0].contains(" http.request.header.x-tenant=acme"), "{after:?}");
    assert!(after[0].contains(" url.query=page=2&sort=up"), "{after:?}");
    assert!(after[1].contains(" http.response.header.server-timing=db;dur=5"), "{after:?}");
    assert!(!after.join("\n").contains("canary"), "{after:?}");
    let wrong = Mask { request_headers: names(&["a b:"]), ..Mask::default() };
    assert!(Keep::default().with("http", &wrong).is_err());
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    [&[0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream], payload].concat()
}

/// A field that goes into the dynamic table, without Huffman's code.
fn field(name: &str, value: &str) -> Vec<u8> {
    [&[0x40, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
}

#[test]
fn http2_shows_only_allowed_values() {
    let literal = |index: u8, value: &str| [&[0x40 | index, value.len() as u8], value.as_bytes()].concat();
    // Then once more from the table: 62 is the newest.
    let asked = [
        vec![0x82, 0x86],
        literal(4, "/orders?page=2&token=canary-token"),
        literal(1, "shop"),
        field("x-tenant", "acme"),
        literal(23, "Bearer canary-auth"),
        literal(32, "canary-cookie"),
        literal(17, "de"),
        field("x-other", "canary-other"),
    ];
    let again = [0x82, 0x86, 0xc4, 0xc3, 0xc2, 0xc1, 0xc0, 0xbf, 0xbe];
    let answer = [vec![0x88], literal(54, "httpd"), field("server-timing", "db;dur=5"), literal(55, "canary-set")];
    let turns = [
        c(["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_bytes(), &frame(4, 0, 0, &[])].concat()),
        s(frame(4, 0, 0, &[])),
        c(frame(1, 5, 1, &asked.concat())),
        s(frame(1, 5, 1, &answer.concat())),
        c(frame(1, 5, 3, &again)),
        s(frame(1, 5, 3, &[0x88, 0xc0, 0xbf, 0xbe])),
    ];
    let before = say(&crate::http2::Http2, Keep::default(), &turns).join("\n");
    assert!(!before.contains("acme") && !before.contains("page") && !before.contains("canary"), "{before}");
    let keep = keep(
        "http",
        Mask {
            request_headers: names(&["X-Tenant", "accept-language"]),
            response_headers: names(&["server-timing", "Server"]),
            query: names(&["page"]),
            ..Mask::default()
        },
    );
    let after = say(&crate::http2::Http2, keep, &turns);
    let messages: Vec<_> = after.iter().filter(|l| l.contains("http.")).collect();
    assert_eq!(messages.len(), 4, "{after:?}");
    for request in [messages[0], messages[2]] {
        assert!(request.contains(" http.request.header.x-tenant=acme"), "{request}");
        assert!(request.contains(" http.request.header.accept-language=de"), "{request}");
        assert!(request.contains(" url.query=page=2"), "{request}");
    }
    for response in [messages[1], messages[3]] {
        assert!(response.contains(" http.response.header.server-timing=db;dur=5"), "{response}");
        assert!(response.contains(" http.response.header.server=httpd"), "{response}");
    }
    assert!(!after.join("\n").contains("canary"), "{after:?}");
}

#[test]
fn hidden_attributes_are_left_out() {
    let turns = [c(REQUEST), s(RESPONSE)];
    let hide =
        |protocol: &str, attributes: &[&str]| keep(protocol, Mask { hide: names(attributes), ..Mask::default() });
    let said = say(&crate::http1::Http1, hide("http", &["url.path", "target"]), &turns);
    assert!(!said.join("\n").contains("orders") && said[0].contains("GET"), "{said:?}");
    let other = say(&crate::http1::Http1, hide("redis", &["url.path"]), &turns);
    assert!(other[0].contains("/orders"), "{other:?}");
}

#[test]
fn redis_shows_the_first_key_and_no_value() {
    let set = "*3\r\n$3\r\nSET\r\n$6\r\ncart:7\r\n$12\r\ncanary-value\r\n";
    let mget = "*3\r\n$4\r\nMGET\r\n$6\r\ncart:7\r\n$10\r\ncanary-key\r\n";
    let auth = "*2\r\n$4\r\nAUTH\r\n$9\r\ncanary-pw\r\n";
    let secret = "*2\r\n$3\r\nGET\r\n$40\r\nghp_16C7e42F292c6912E7710c838347Ae178B4a\r\n";
    let eval = "*4\r\n$4\r\nEVAL\r\n$13\r\ncanary-script\r\n$1\r\n1\r\n$6\r\ncart:7\r\n";
    let turns = [c([set, mget, auth, secret, eval].concat())];
    let said = say(&crate::redis::Redis, keep_keys("redis"), &turns).join("\n");
    assert!(said.contains("db.query.text=SET cart:7 ? ") && said.contains("db.query.text=MGET cart:7 ? "), "{said}");
    assert!(said.contains("db.query.text=GET ? ") && said.contains("db.query.text=EVAL ? ? ?"), "{said}");
    assert!(!said.contains("canary") && !said.contains("ghp_"), "{said}");
    let before = say(&crate::redis::Redis, Keep::default(), &turns).join("\n");
    assert!(!before.contains("cart:7"), "{before}");
    // The same whatever the pieces.
    for n in [1, 5, 17] {
        let whole = &turns[0].1;
        let cut: Vec<Turn> = whole.chunks(n).map(c).collect();
        let lines = |said: &str| said.lines().filter(|l| l.contains("req")).map(str::to_owned).collect::<Vec<_>>();
        let pieces = say(&crate::redis::Redis, keep_keys("redis"), &cut).join("\n");
        assert_eq!(lines(&pieces).len(), lines(&said).len(), "{n}");
        assert!(pieces.contains("db.query.text=SET cart:7 ? "), "{n}: {pieces}");
    }
}

#[test]
fn memcached_shows_the_first_key_and_no_value() {
    let token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
    let text = format!(
        "get cart:7 canary-key\r\ngat 60 cart:7\r\nset cart:7 0 0 6\r\ncanary\r\nmg cart:7 v Ocanary\r\nget \
        {token}\r\nstats canary\r\n"
    );
    let turns = [c(text.as_str())];
    let shows = || keep_keys("memcached");
    let said = say(&crate::memcached::Memcached, shows(), &turns).join("\n");
    for text in ["get cart:7 ?", "gat ? cart:7", "set cart:7 ? ? ?", "mg cart:7 ? ?", "get ?", "stats ?"] {
        assert!(
            said.lines().any(|l| l.contains(&format!("db.query.text={text} "))
                || l.ends_with(&format!(
                    "db.query.t\
        ext={text}"
                ))),
            "{text}: {said}"
        );
    }
    assert!(!said.contains("canary") && !said.contains("ghp_"), "{said}");
    assert!(!say(&crate::memcached::Memcached, Keep::default(), &turns).join("\n").contains("cart:7"));

    let binary = |opcode: u8, extras: &[u8], key: &[u8], value: &[u8]| {
        let body = extras.len() + key.len() + value.len();
        let head = [
            0x80,
            opcode,
            0,
            key.len() as u8,
            extras.len() as u8,
            0,
            0,
            0,
            0,
            0,
            0,
            body as u8,
            0,
            0,
            0,
            7,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        ];
        [&head, extras, key, value].concat()
    };
    let set = binary(1, &[0; 8], b"cart:7", b"canary-value");
    let all = [set, binary(0, &[], b"cart:8", &[]), binary(0x21, &[], b"canary-PLAIN", b"canary")].concat();
    for n in [1, 7, all.len()] {
        let turns: Vec<Turn> = all.chunks(n).map(c).collect();
        let said = say(&crate::memcached::MemcachedBinary, shows(), &turns).join("\n");
        assert!(said.contains("db.query.text=set cart:7") && said.contains("db.query.text=get cart:8"), "{n}: {said}");
        assert!(said.contains("sasl_auth") && !said.contains("canary"), "{n}: {said}");
    }
}

#[test]
fn mongodb_shows_only_values_of_allowed_fields() {
    fn element(kind: u8, key: &str, value: &[u8]) -> Vec<u8> {
        [&[kind], key.as_bytes(), &[0], value].concat()
    }
    fn text(key: &str, value: &str) -> Vec<u8> {
        element(2, key, &[&(value.len() as u32 + 1).to_le_bytes()[..], value.as_bytes(), &[0]].concat())
    }
    fn document(elements: &[Vec<u8>]) -> Vec<u8> {
        let body = elements.concat();
        [&(body.len() as u32 + 5).to_le_bytes()[..], &body, &[0]].concat()
    }
    let number = |key: &str, n: i32| element(0x10, key, &n.to_le_bytes());
    let filter = || {
        let nested = document(&[text("tenant", "canary-nested")]);
        document(&[text("tenant", "acme"), number("page", 7), text("card", "canary-card"), element(3, "or", &nested)])
    };
    let list = |name: &str, inner: &str| {
        let first = document(&[element(3, inner, &filter())]);
        element(4, name, &document(&[element(3, "0", &first)]))
    };
    let commands = [
        vec![text("find", "orders"), element(3, "filter", &filter())],
        vec![text("count", "orders"), element(3, "query", &filter())],
        vec![text("update", "orders"), list("updates", "q")],
        vec![text("delete", "orders"), list("deletes", "q")],
        vec![text("aggregate", "orders"), list("pipeline", "$match")],
    ];
    let mut turns = Vec::new();
    for (id, mut command) in (1u32..).zip(commands) {
        command.push(text("$db", "shop"));
        let body = [&[0, 0, 0, 0, 0][..], &document(&command)].concat();
        let head = [body.len() as u32 + 16, id, 0, 2013].map(u32::to_le_bytes).concat();
        turns.push(c([head, body].concat()));
    }
    let keep = keep("mongodb", Mask { fields: names(&["tenant", "page"]), ..Mask::default() });
    let said = say(&crate::mongodb::MongoDb, keep, &turns);
    let shown = said.iter().filter(|l| l.contains("db.query.parameter.tenant=acme db.query.parameter.page=7")).count();
    assert_eq!(shown, 5, "{said:?}");
    assert!(!said.join("\n").contains("canary"), "{said:?}");
    let before = say(&crate::mongodb::MongoDb, Keep::default(), &turns).join("\n");
    assert!(before.contains("find") && !before.contains("acme"), "{before}");
    let wrong = Mask { fields: names(&[""]), ..Mask::default() };
    assert!(Keep::default().with("mongodb", &wrong).is_err());
}

#[test]
fn sql_shows_literals_but_no_credentials() {
    use crate::mask::{Dialect, Masker, Rules};
    let shown = |sql: &str| {
        let mut masker = Masker::keeping(true);
        masker.read(sql.as_bytes(), Rules::of(Dialect::Cql));
        masker.text().to_owned()
    };
    for same in [
        "SELECT a FROM t WHERE id = 5 AND b = 'it''s' LIMIT 10",
        "INSERT INTO t (a, b) VALUES (1, -2.5), ('x', ?)",
        "UPDATE t SET a = 'x' WHERE b IN (1, 2, 3)",
    ] {
        assert_eq!(shown(same), same);
    }
    for (sql, safe) in [
        ("ALTER USER bob PASSWORD 'canary'", "ALTER USER bob PASSWORD ?"),
        (
            "UPDATE accounts SET password_hash = 'canary' WHERE id = 7",
            "UPDATE accounts SET password_hash = ? WHERE id = ?",
        ),
        ("INSERT INTO t (\"secret\") VALUES ('canary')", "INSERT INTO t (\"secret\") VALUES (?)"),
        ("SELECT 'eyJhbGciOiJIUzI1NiJ9.canary' FROM t", "SELECT ? FROM t"),
    ] {
        assert_eq!(shown(sql), safe);
    }
    let mut masker = Masker::keeping(true);
    masker.read(br"SELECT 'a\' FROM t WHERE b = 'canary'", Rules::default());
    assert!(!masker.text().contains("canary"), "{}", masker.text());
    let long = format!("SELECT '{}'", "x ".repeat(400));
    assert_eq!(shown(&long), "SELECT ?");
    let mut masker = Masker::default();
    masker.read(b"SELECT a FROM t WHERE id = 5", Rules::default());
    assert_eq!(masker.text(), "SELECT a FROM t WHERE id = ?");
}
