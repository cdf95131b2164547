//! What is let through is shown, and nothing beside it.
#![allow(clippy::indexing_slicing)]

use crate::mask::Keep;
use crate::testing::{c, s, Turn};
use crate::{Protocol, Registry};
use wirespan_model::{Chunk, Transport};

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|n| n.to_string()).collect()
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
fn http_shows_what_was_allowed_and_nothing_else() {
    let turns = [c(REQUEST), s(RESPONSE)];
    let before = say(&crate::http1::Http1, Keep::default(), &turns).join("\n");
    assert!(!before.contains("acme") && !before.contains("page") && !before.contains("canary"), "{before}");
    let keep = Keep::default().http(&names(&["X-Tenant"]), &names(&["server-timing"]), &names(&["page", "sort"]));
    let keep = keep.expect("names");
    let after = say(&crate::http1::Http1, keep, &turns);
    assert!(after[0].contains(" http.request.header.x-tenant=acme"), "{after:?}");
    assert!(after[0].contains(" url.query=page=2&sort=up"), "{after:?}");
    assert!(after[1].contains(" http.response.header.server-timing=db;dur=5"), "{after:?}");
    assert!(!after.join("\n").contains("canary"), "{after:?}");
    assert!(Keep::default().http(&names(&["a b:"]), &[], &[]).is_err());
}

#[test]
fn attributes_are_left_out_where_that_is_wanted() {
    let turns = [c(REQUEST), s(RESPONSE)];
    let said = say(&crate::http1::Http1, Keep::default().hide("http", &names(&["url.path", "target"])), &turns);
    assert!(!said.join("\n").contains("orders") && said[0].contains("GET"), "{said:?}");
    let other = say(&crate::http1::Http1, Keep::default().hide("redis", &names(&["url.path"])), &turns);
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
    let said = say(&crate::redis::Redis, Keep::default().redis_keys(true), &turns).join("\n");
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
        let pieces = say(&crate::redis::Redis, Keep::default().redis_keys(true), &cut).join("\n");
        assert_eq!(lines(&pieces).len(), lines(&said).len(), "{n}");
        assert!(pieces.contains("db.query.text=SET cart:7 ? "), "{n}: {pieces}");
    }
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
