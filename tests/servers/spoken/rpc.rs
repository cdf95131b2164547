//! bRPC, SOFARPC, Tars, krpc, Thrift, SOME/IP.

use super::wires::sofarpc::{answer, frame as sofa_frame, REQUEST, RESPONSE};
use super::{c, s, talk, Secrets, Talk};

pub(super) fn talks(x: &mut Secrets) -> Vec<Talk> {
    vec![brpc(x), sofarpc(x, 1), sofarpc(x, 2), tars(x), krpc(x), thrift(x), thrift_compact(x), someip(x)]
}

fn short(tag: u8, value: &[u8]) -> Vec<u8> {
    [&[tag, value.len() as u8][..], value].concat()
}

fn brpc(x: &mut Secrets) -> Talk {
    let frame = |meta: &[u8], payload: &[u8]| {
        let lengths = [((meta.len() + payload.len()) as u32).to_be_bytes(), (meta.len() as u32).to_be_bytes()].concat();
        [b"PRPC", &lengths[..], meta, payload].concat()
    };
    let request = |id: u8, data: &str, payload: &str| {
        let call = [short(0x0a, b"shop.Cart"), short(0x12, b"Add"), vec![0x18, 42]].concat();
        // 7: authentication data
        frame(&[short(0x0a, &call), vec![0x18, 0, 0x20, id], short(0x3a, data.as_bytes())].concat(), payload.as_bytes())
    };
    let response = |id: u8, code: u16, text: &str, payload: &str| {
        let code = [0x08, 0x80 | (code & 0x7f) as u8, (code >> 7) as u8];
        let answer = [&code[..], &short(0x12, text.as_bytes())].concat();
        frame(&[short(0x12, &answer), vec![0x20, id]].concat(), payload.as_bytes())
    };
    talk(
        "brpc",
        &["Add shop.Cart"],
        vec![
            c(request(1, &x.of("brpc authentication"), &x.of("brpc payload"))),
            s(response(1, 0, "", &x.of("brpc answer"))),
            c(request(2, "", "")),
            s(response(2, 1002, &format!("Fail to find method={}", x.of("brpc error")), "")),
        ],
    )
}

fn sofarpc(x: &mut Secrets, version: u8) -> Talk {
    let frame = |kind, command, id, class, pairs: &[(&str, &str)], content: &[u8]| {
        sofa_frame(version, kind, command, id, class, pairs, content, 0)
    };
    let (token, note) = (x.of("sofarpc header"), x.of("sofarpc baggage"));
    let baggage = format!("tcid=0a0b&spid=0&sample=true&bag={note}&");
    let pairs = [
        ("sofa_head_target_service", "shop.Cart:1.0"),
        ("new_rpc_trace_context", baggage.as_str()),
        ("sofa_head_method_name", "add"),
        ("token", token.as_str()),
    ];
    talk(
        "sofarpc",
        &["add shop.Cart:1.0"],
        vec![
            c(frame(1, 1, 5, REQUEST, &pairs, x.of("sofarpc arguments").as_bytes())),
            s(frame(
                0,
                2,
                5,
                RESPONSE,
                &[("k", &x.of("sofarpc answer's header"))],
                &answer(None, &x.of("sofarpc answer")),
            )),
            c(frame(1, 1, 8, REQUEST, &pairs, b"")),
            s(frame(
                0,
                2,
                8,
                RESPONSE,
                &[],
                &answer(Some(&format!("no '{}'", x.of("sofarpc error"))), &x.of("sofarpc value")),
            )),
        ],
    )
}

fn tars(x: &mut Secrets) -> Talk {
    let framed = |body: Vec<u8>| [&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat();
    let text = |tag: u8, s: &str| short(tag << 4 | 6, s.as_bytes());
    let buffer =
        |tag: u8, b: &str| [&[tag << 4 | 13, 0, 1][..], &(b.len() as u16).to_be_bytes(), b.as_bytes()].concat();
    let map = |tag: u8, pairs: &[(&str, &str)]| {
        let head = vec![tag << 4 | 8, 0, pairs.len() as u8];
        pairs.iter().fold(head, |out, (k, v)| [out, text(0, k), text(1, v)].concat())
    };
    let mut request = |id: u8| {
        let mut body = vec![0x10, 1, 0x2c, 0x3c, 0x40, id];
        body.extend(text(5, "Shop.CartServer.CartObj"));
        body.extend(text(6, "add"));
        body.extend(buffer(7, &x.of("tars arguments")));
        body.extend([0x81, 0x0b, 0xb8]);
        body.extend(map(9, &[("token", &x.of("tars context"))]));
        body.extend(map(10, &[("k", &x.of("tars status"))]));
        framed(body)
    };
    let requests = [request(3), request(5)];
    let mut response = |id: u8, failed: bool, description: &str| {
        let mut body = vec![0x10, 1, 0x2c, 0x30, id, 0x4c];
        body.extend(if failed { vec![0x50, 0xfd] } else { vec![0x5c] });
        body.extend(buffer(6, &x.of("tars answer")));
        body.extend(map(7, &[("k", &x.of("tars answer's status"))]));
        if !description.is_empty() {
            body.extend(text(8, description));
        }
        framed(body)
    };
    let first = response(3, false, "");
    let second = {
        let body = response(5, true, "");
        let text = text(8, &format!("no func '{}'", x.of("tars error")));
        framed([&body[4..], &text].concat())
    };
    talk("tars", &["add Shop.CartServer.CartObj"], vec![c(&requests[0]), s(first), c(&requests[1]), s(second)])
}

fn krpc(x: &mut Secrets) -> Talk {
    let frame = |meta: &[u8], payload: String| {
        let lengths =
            [&(meta.len() as u16).to_be_bytes()[..], &((meta.len() + payload.len()) as u32).to_be_bytes()].concat();
        [b"KR", &lengths[..], meta, payload.as_bytes()].concat()
    };
    talk(
        "krpc",
        &["3 9"],
        vec![
            c(frame(&[8, 1, 16, 9, 24, 3, 32, 1, 58, 5, 18, 3, b't', b'-', b'1'], x.of("krpc payload"))),
            s(frame(&[8, 2, 16, 9, 24, 3, 32, 1], x.of("krpc answer"))),
        ],
    )
}

fn thrift(x: &mut Secrets) -> Talk {
    let framed = |kind: u8, name: &str, seq: u8, body: &[u8]| {
        let head =
            [&[0x80, 1, 0, kind][..], &(name.len() as u32).to_be_bytes(), name.as_bytes(), &[0, 0, 0, seq]].concat();
        [&((head.len() + body.len()) as u32).to_be_bytes()[..], &head, body].concat()
    };
    let field = |id: u8, value: &str| [&[11, 0, id, 0, 0, 0, value.len() as u8], value.as_bytes()].concat();
    let mut arguments = field(1, &x.of("thrift argument"));
    let (key, value) = (x.of("thrift key"), x.of("thrift value"));
    arguments.extend([13, 0, 2, 11, 11, 0, 0, 0, 1, 0, 0, 0, key.len() as u8]);
    arguments.extend([key.as_bytes(), &[0, 0, 0, value.len() as u8], value.as_bytes()].concat());
    arguments.extend([&[12, 0, 3], &field(1, &x.of("thrift structure"))[..], &[0, 0]].concat());
    let result = [field(0, &x.of("thrift result")), vec![0]].concat();
    let declared = [&[12, 0, 2], &field(1, &x.of("thrift declared exception"))[..], &[0, 0]].concat();
    let exception =
        [field(1, &format!("unknown '{}'", x.of("thrift exception"))), vec![8, 0, 2, 0, 0, 0, 1, 0]].concat();
    talk(
        "thrift",
        &["add Cart", "remove", "no_such"],
        vec![
            c(framed(1, "Cart:add", 1, &arguments)),
            s(framed(2, "Cart:add", 1, &result)),
            c(framed(1, "remove", 3, &[0])),
            s(framed(2, "remove", 3, &declared)),
            c(framed(1, "no_such", 4, &[0])),
            s(framed(3, "no_such", 4, &exception)),
        ],
    )
}

fn thrift_compact(x: &mut Secrets) -> Talk {
    let message = |kind: u8, name: &str, seq: u8, body: &[u8]| {
        let all = [&[0x82, kind << 5 | 1, seq, name.len() as u8], name.as_bytes(), body].concat();
        [&(all.len() as u32).to_be_bytes()[..], &all].concat()
    };
    let string = |head: u8, value: &str| [&[head, value.len() as u8], value.as_bytes()].concat();
    let arguments = [string(0x18, &x.of("thrift compact argument")), vec![0]].concat();
    let result = [string(0x08, &x.of("thrift compact result"))];
    let result = [&result[0][..1], &[0], &result[0][1..], &[0]].concat();
    let exception =
        [string(0x18, &format!("unknown '{}'", x.of("thrift compact exception"))), vec![0x15, 2, 0]].concat();
    talk(
        "thrift",
        &["add Cart", "no_such"],
        vec![
            c(message(1, "Cart:add", 1, &arguments)),
            s(message(2, "Cart:add", 1, &result)),
            c(message(1, "no_such", 2, &[0])),
            s(message(3, "no_such", 2, &exception)),
        ],
    )
}

fn someip(x: &mut Secrets) -> Talk {
    let message = |method: u16, session: u8, kind: u8, code: u8, payload: String| {
        let mut out = [[0, 0x29], method.to_be_bytes()].concat();
        out.extend((payload.len() as u32 + 8).to_be_bytes());
        out.extend([0, 1, 0, session, 1, 1, kind, code]);
        [&out, payload.as_bytes()].concat()
    };
    talk(
        "someip",
        &["0x5004 0x0029", "0x5006 0x0029"],
        vec![
            c(message(0x5004, 7, 0, 0, x.of("someip request"))),
            s(message(0x5004, 7, 0x80, 0, x.of("someip answer"))),
            c(message(0x5006, 0, 1, 0, x.of("someip one-way"))),
            s(message(0x8001, 0, 2, 0, x.of("someip event"))),
            c(message(0x5005, 8, 0, 0, String::new())),
            s(message(0x5005, 8, 0x81, 3, x.of("someip error"))),
        ],
    )
}
