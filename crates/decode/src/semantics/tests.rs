#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use super::{error_text, graphql, grpc, json_rpc};
use crate::http1::Http1;
use crate::testing::{c, cut, s, tcp, Turn};
use wirespan_model::Outcome;

fn json(path: &str, extra: &str, body: &str) -> Turn {
    c(format!(
        "POST {path} HTTP/1.1\r\nHost: h\r\n{extra}Content-Type: application/json; charset=utf-8\r\nContent-Length: \
        {}\r\n\r\n{body}",
        body.len()
    ))
}

fn answer(extra: &str, body: &str) -> Turn {
    s(format!("HTTP/1.1 200 OK\r\n{extra}Content-Length: {}\r\n\r\n{body}", body.len()))
}

/// The messages of these turns; they must be the same however the bytes are cut.
fn say(turns: &[Turn]) -> Vec<String> {
    let said = tcp(&Http1, turns);
    for cuts in [&[1][..], &[7, 60, 3]] {
        assert_eq!(tcp(&Http1, &cut(turns, cuts)), said);
    }
    assert!(!said.join(" ").contains("canary"), "{said:?}");
    said
}

#[test]
fn operations_of_graphql_are_named() {
    let of = |body: &str| {
        let said = say(&[json("/graphql", "", body), answer("", "{\"data\":{\"canary\":1}}")]);
        said[1].split_once(" None").unwrap().1.trim().to_owned()
    };
    let query = concat!(
        r#"{"query":"query Cart($id: ID!) {\n cart(id: $id, note: \"canary\") { total } }","#,
        r#""variables":{"id":"canary"}}"#,
    );
    assert_eq!(of(query), "graphql.operation.type=query graphql.operation.name=Cart");
    assert_eq!(
        of(r##"{"variables":{"a":[1,{"b":"}"}]},"query":"# canary\n{ me { name } }"}"##),
        "graphql.operation.type=query"
    );
    let two = concat!(
        r#"{"operationName":"Pay","query":"fragment F on Cart { id } query A { a } "#,
        r#"mutation Pay @x { pay(card: \"canary\") }"}"#,
    );
    assert_eq!(of(two), "graphql.operation.type=mutation graphql.operation.name=Pay");
    assert_eq!(
        of(r#"{"operationName":"Old","extensions":{"persistedQuery":{"sha256Hash":"canary"}}}"#),
        "graphql.operation.name=Old"
    );
    // The same key in other protocols.
    for other in [
        r#"{"query":{"match":{"canary":"canary"}}}"#,
        r#"{"query":"select canary from t"}"#,
        r#"{"query":"query the canary"}"#,
        r#"{"query":"{not graphql"#,
        r#"{"q":"{ a }"}"#,
        "canary",
    ] {
        let said = of(other);
        assert!(
            said.is_empty() || said == "graphql.operation.type=query" && other.starts_with("{\"query\":\"{"),
            "{other}: {said}"
        );
    }
}

#[test]
fn graphql_errors_are_told_apart() {
    let of = |body: &str, cut| graphql::response(body.as_bytes(), cut).outcome;
    assert_eq!(of(r#"{"data":{"a":1}}"#, false), Outcome::Unset);
    assert_eq!(of(r#"{"errors":[]}"#, false), Outcome::Unset);
    assert_eq!(of(r#"{"errors":[{"message":"x"}]}"#, false), Outcome::ClientError);
    assert_eq!(of(r#"{"errors":[{"message":"x"}],"data":{"a":null}}"#, false), Outcome::ServerError);
    assert_eq!(of(r#"{"errors":[{"message":"x"}"#, true), Outcome::Unset, "data may follow");
    let said = say(&[json("/g", "", r#"{"query":"{ a }"}"#), answer("", r#"{"errors":[{"message":"canary"}]}"#)]);
    assert_eq!(said[3], "End Server @72 None ClientError error=\"GraphQL errors\" error.type=graphql_errors");
}

#[test]
fn calls_and_errors_of_json_rpc_are_read() {
    let call = r#"{"jsonrpc":"2.0","method":"eth_getBalance","params":["canary"],"id":1}"#;
    let error = r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found: \"canary\""},"id":1}"#;
    let said = say(&[json("/", "", call), answer("", error)]);
    assert!(said[0].contains("body=open POST /"), "{said:?}");
    assert!(
        said[1].ends_with("None rpc.system.name=jsonrpc jsonrpc.protocol.version=2.0 rpc.method=eth_getBalance"),
        "{said:?}"
    );
    assert!(said[3].contains(" ClientError error=\"Method not found"), "{said:?}");
    assert!(said[3].ends_with("rpc.status_code=-32601 error.type=-32601"), "{said:?}");
    let batch = format!("[{call},{call}]");
    assert!(say(&[json("/", "", &batch)])[1].ends_with("wirespan.rpc.batch=true"));
    assert!(json_rpc::request(br#"{"method":"x"}"#).is_none());
    assert!(json_rpc::request(br#"{"jsonrpc":"2.0","params":{"method":"canary"}}"#).is_none());
    // A body that was not captured to its end tells what it can.
    let mut cut = json("/", "", call);
    let missing = 20;
    cut.1.truncate(cut.1.len() - missing);
    let said = tcp(&Http1, &[(cut.0, cut.1, missing as u64), answer("", error)]);
    assert!(said[1].contains("rpc.method=eth_getBalance"), "{said:?}");
}

#[test]
fn elasticsearch_is_recognised_only_with_proof() {
    let search =
        |extra: &str| json("/orders-2026.11,old*/_search?q=canary", extra, r#"{"query":{"match":{"a":"canary"}}}"#);
    let said = say(&[search(""), answer("X-elastic-product: Elasticsearch\r\n", "{}")]);
    let attrs = "db.system.name=elasticsearch db.operation.name=search db.collection.name=orders-2026.11,old* \
                 db.operation.parameter.index=orders-2026.11,old* url.template=/{index}/_search";
    assert!(!said[0].contains("db.system") && said[2].contains(attrs), "{said:?}");
    let said = say(&[search("User-Agent: opensearch-py/2.4\r\n"), answer("", "{}")]);
    assert!(said[0].contains("db.system.name=opensearch db.operation.name=search"), "{said:?}");
    let said = say(&[search(""), answer("", "{}")]);
    assert!(!said.join("").contains("db."), "{said:?}");
    let of = |line: &str| {
        let said = say(&[c(format!("{line} HTTP/1.1\r\nUser-Agent: elasticsearch-py/8.1\r\n\r\n")), answer("", "")]);
        said[0].split("db.operation.name=").nth(1).unwrap_or("-").split(' ').next().unwrap().to_owned()
    };
    let cases = [
        ("GET /", "info"),
        ("GET /_cluster/health", "cluster.health"),
        ("GET /_cat/indices?v", "cat.indices"),
        ("POST /_bulk", "bulk"),
        ("PUT /orders", "indices.create"),
        ("PUT /orders/_doc/canary1?x=canary", "index"),
        ("DELETE /orders/_doc/7", "delete"),
        ("GET /orders/_doc/7", "get"),
        ("GET /orders/_secret/7", "-"),
    ];
    for (line, operation) in cases {
        if !line.contains("_doc/canary") {
            assert_eq!(of(line), operation, "{line}");
        }
    }
}

#[test]
fn grpc_web_tells_its_status_in_the_body() {
    let ask = |kind: &str| {
        c(format!(
            "POST /shop.Cart/Add HTTP/1.1\r\nHost: h\r\nContent-Type: {kind}\r\nContent-Length: 5\r\n\r\n\0\0\0\0\0"
        ))
    };
    let trailers = b"grpc-status: 5\r\ngrpc-message: no%20cart\r\n";
    let mut body = b"\0\0\0\0\x03abc\x80\0\0\0".to_vec();
    body.push(u8::try_from(trailers.len()).unwrap());
    body.extend(trailers);
    let respond = |kind: &str, body: &[u8]| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n", body.len());
        s([head.as_bytes(), body].concat())
    };
    let said = say(&[ask("application/grpc-web+proto"), respond("application/grpc-web+proto", &body)]);
    assert!(said[0].contains("shop.Cart/Add") && said[0].contains("rpc.method=shop.Cart/Add"), "{said:?}");
    assert!(
        said[2].contains("status=5 ClientError error=\"no cart\" rpc.system.name=grpc rpc.status_code=NOT_FOUND"),
        "{said:?}"
    );
    // Base64, each part by itself.
    let text = "AAAAAANhYmM=gAAAACg=".to_owned();
    let said = say(&[ask("application/grpc-web-text"), respond("application/grpc-web-text", text.as_bytes())]);
    assert!(!said[2].contains("grpc.status"), "trailers that are not there: {said:?}");
    let text = "AAAAAANhYmM=gAAAAA9ncnBjLXN0YXR1czogMA0K";
    let said = say(&[ask("application/grpc-web-text"), respond("application/grpc-web-text", text.as_bytes())]);
    assert!(said[2].contains("status=0 Ok") || said[2].contains("rpc.status_code=OK"), "{said:?}");
}

#[test]
fn statuses_and_methods_of_grpc_are_named() {
    let faults: Vec<_> = (0..18).filter(|c| grpc::outcome(*c) == Outcome::ServerError).collect();
    assert_eq!(faults, [2, 4, 12, 13, 14, 15]);
    assert_eq!(grpc::outcome(0), Outcome::Ok);
    assert_eq!(grpc::outcome(1), Outcome::ClientError);
    assert_eq!(grpc::method(b"/a.b.C/D"), Some("a.b.C/D"));
    for none in [&b"/a"[..], b"a/b", b"/a/", b"/a b/c", b"/a/b?c=canary"] {
        assert_eq!(grpc::method(none), None);
    }
    let late = grpc::status(5, b"user%20%22canary%22 not found%2");
    assert!(!late.error.contains("canary") && late.error.contains("not found"), "{}", late.error);
}

#[test]
fn error_texts_hide_what_may_be_secret() {
    for text in [
        "bad token eyJhbGciOiJIUzI1NiJ9.canary.x",
        "no user bob@canary.example",
        "at https://canary/x",
        "value 'canary' is wrong",
        "key=ghp_canary16C7e42F292c6912E7710c838347",
    ] {
        let shown = error_text(text.as_bytes());
        assert!(!shown.contains("canary"), "{text}: {shown}");
        assert!(!shown.is_empty());
    }
}
