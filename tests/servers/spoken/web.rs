//! HTTP and what is spoken over it: WebSocket, GraphQL, JSON-RPC, gRPC-Web, Elasticsearch.

use super::{c, s, talk, Secrets, Talk, SHOWN};

fn request(head: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("{head} HTTP/1.1\r\nHost: shop.example\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn answer(status: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn frame(of_client: bool, first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![first, payload.len() as u8 | if of_client { 0x80 } else { 0 }];
    if !of_client {
        out.extend(payload);
        return out;
    }
    // A mask of zeros shows the payload as it is.
    out.extend([0; 4]);
    out.extend(payload);
    out
}

pub(super) fn talks(x: &mut Secrets) -> Vec<Talk> {
    vec![http(x), websocket(x), graphql(x), json_rpc(x), grpc_web(x), elasticsearch(x)]
}

fn http(x: &mut Secrets) -> Talk {
    let fields = format!(
        "Authorization: Bearer {}\r\nProxy-Authorization: Basic {}\r\nCookie: sid={}\r\nX-Api-Key: {}\r\nReferer: \
         http://a/?t={}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\n",
        x.of("http authorization"),
        x.of("http proxy-authorization"),
        x.of("http cookie"),
        x.of("http field"),
        x.of("http referer"),
    );
    let head = format!("POST /{SHOWN}?access_token={}&q={}", x.of("http token in the query"), x.of("http query"));
    let reply = format!(
        "Set-Cookie: sid={}\r\nLocation: /next?code={}\r\nWWW-Authenticate: Digest nonce={}\r\n",
        x.of("http set-cookie"),
        x.of("http location"),
        x.of("http challenge"),
    );
    let body = format!("user=a&password={}", x.of("http form"));
    let token = format!("GET /download/eyJhbGciOiJIUzI1NiJ9.{}.c2lnbmF0dXJl", x.of("http token in the path"));
    talk(
        "http",
        &[&format!("POST /{SHOWN}"), "GET /done"],
        vec![
            c(request(&head, &fields, body.as_bytes())),
            s(answer("302 Found", &reply, x.of("http answer's body").as_bytes())),
            c(request(&token, "", b"")),
            s(answer("500 Oops", "", x.of("http error's body").as_bytes())),
            c(request("GET /done", "", b"")),
            s(answer("200 OK", "", b"")),
        ],
    )
}

fn websocket(x: &mut Secrets) -> Talk {
    let upgrade = format!(
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {}\r\n\
         Sec-WebSocket-Protocol: {}\r\n",
        x.of("websocket key"),
        x.of("websocket protocol, where browsers put tokens"),
    );
    let head = format!("GET /ws?token={} HTTP/1.1\r\nHost: h\r\n{upgrade}\r\n", x.of("websocket query"));
    let accept = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    talk(
        "websocket",
        &["text", "binary", "ping", "close"],
        vec![
            c(head),
            s(accept),
            c(frame(true, 0x81, format!("{{\"auth\":\"{}\"}}", x.of("websocket text")).as_bytes())),
            s(frame(false, 0x82, x.of("websocket binary").as_bytes())),
            c(frame(true, 0x89, x.of("websocket ping").as_bytes())),
            s(frame(false, 0x8a, x.of("websocket pong").as_bytes())),
            s(frame(false, 0x88, &[b"\x03\xf3", x.of("websocket reason").as_bytes()].concat())),
        ],
    )
}

fn graphql(x: &mut Secrets) -> Talk {
    let body = format!(
        concat!(
            r#"{{"query":"query Cart($id: ID!) {{ cart(id: $id, key: \"{}\") {{ total }} }}","operationName":"Cart","#,
            r#""variables":{{"id":"{}"}},"extensions":{{"k":"{}"}}}}"#
        ),
        x.of("graphql literal"),
        x.of("graphql variable"),
        x.of("graphql extension"),
    );
    let reply = format!(
        r#"{{"errors":[{{"message":"no cart '{}'","extensions":{{"code":"BAD","v":"{}"}}}}],"data":{{"cart":"{}"}}}}"#,
        x.of("graphql error"),
        x.of("graphql error's extension"),
        x.of("graphql data"),
    );
    let json = "Content-Type: application/json\r\n";
    talk(
        "http",
        &["POST /graphql"],
        vec![
            c(request("POST /graphql", json, body.as_bytes())),
            s(answer("200 OK", json, reply.as_bytes())),
            c(request(&format!("GET /graphql?query={{cart(id:\"{}\"){{total}}}}", x.of("graphql by GET")), "", b"")),
            s(answer("200 OK", json, b"{}")),
        ],
    )
}

fn json_rpc(x: &mut Secrets) -> Talk {
    let json = "Content-Type: application/json\r\n";
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":"{}","method":"eth_sign","params":["{}",{{"password":"{}"}}]}}"#,
        x.of("json-rpc id"),
        x.of("json-rpc parameter"),
        x.of("json-rpc named parameter"),
    );
    let error = format!(
        r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-32602,"message":"bad key '{}'","data":"{}"}}}}"#,
        x.of("json-rpc error"),
        x.of("json-rpc error's data"),
    );
    let result = format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{}"}}"#, x.of("json-rpc result"));
    talk(
        "http",
        &["POST /rpc"],
        vec![
            c(request("POST /rpc", json, call.as_bytes())),
            s(answer("200 OK", json, error.as_bytes())),
            c(request("POST /rpc", json, call.as_bytes())),
            s(answer("200 OK", json, result.as_bytes())),
        ],
    )
}

fn grpc_web(x: &mut Secrets) -> Talk {
    let message = |secret: String| [&[0, 0, 0, 0, secret.len() as u8], secret.as_bytes()].concat();
    let trailers = format!("grpc-status: 5\r\ngrpc-message: no%20cart%20'{}'\r\n", x.of("grpc-web error"));
    let trailers = [&[0x80, 0, 0, 0, trailers.len() as u8], trailers.as_bytes()].concat();
    let kind = "Content-Type: application/grpc-web+proto\r\n";
    let fields = format!("{kind}Authorization: Bearer {}\r\n", x.of("grpc-web authorization"));
    talk(
        "http",
        &["shop.Cart/Add"],
        vec![
            c(request("POST /shop.Cart/Add", &fields, &message(x.of("grpc-web request")))),
            s(answer("200 OK", kind, &[message(x.of("grpc-web answer")), trailers].concat())),
        ],
    )
}

fn elasticsearch(x: &mut Secrets) -> Talk {
    let head = format!("POST /orders/_search?q={}", x.of("elasticsearch query in the address"));
    let body = format!(r#"{{"query":{{"match":{{"card":"{}"}}}}}}"#, x.of("elasticsearch query"));
    let json = "Content-Type: application/json\r\nX-Elastic-Product: Elasticsearch\r\n";
    let reply = format!(r#"{{"hits":[{{"_source":"{}"}}]}}"#, x.of("elasticsearch hit"));
    let failed =
        format!(r#"{{"error":{{"type":"parsing","reason":"at '{}'"}},"status":400}}"#, x.of("elasticsearch error"));
    let bulk = format!(
        "{{\"index\":{{\"_id\":\"{}\"}}}}\n{{\"a\":\"{}\"}}\n",
        x.of("elasticsearch id"),
        x.of("elasticsearch bulk")
    );
    talk(
        "http",
        &["POST /orders/_search", "POST /_bulk"],
        vec![
            c(request(&head, "User-Agent: elasticsearch-py/8.1\r\n", body.as_bytes())),
            s(answer("200 OK", json, reply.as_bytes())),
            c(request("POST /_bulk", "User-Agent: elasticsearch-py/8.1\r\n", bulk.as_bytes())),
            s(answer("400 Bad Request", json, failed.as_bytes())),
        ],
    )
}
