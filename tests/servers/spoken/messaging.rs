//! AMQP 1.0, Pulsar, RocketMQ, ZMTP.

use super::wires::pulsar::{command, fields, payload, property, sized, with, Fields, TOPIC};
use super::wires::zmtp as wire;
use super::{c, s, talk, Secrets, Talk};

pub(super) fn talks(x: &mut Secrets) -> Vec<Talk> {
    vec![amqp1(x), pulsar(x), rocketmq(x), rocketmq_binary(x), zmtp(x), zmtp_publishes(x)]
}

const NULL: &[u8] = b"\x40";

fn amqp1(x: &mut Secrets) -> Talk {
    let sized = |code: u8, b: &str| [&[code, b.len() as u8][..], b.as_bytes()].concat();
    let text = |b: &str| sized(0xa1, b);
    let symbol = |b: &str| sized(0xa3, b);
    let binary = |b: &str| sized(0xa0, b);
    let uint = |n: u8| vec![0x52, n];
    let compound = |code: u8, members: &[&[u8]]| {
        let all = members.concat();
        [&[code, all.len() as u8 + 1, members.len() as u8][..], &all].concat()
    };
    let described = |descriptor: u8, members: &[&[u8]]| [&[0, 0x53, descriptor][..], &compound(0xc0, members)].concat();
    let frame = |kind: u8, channel: u16, body: &[u8]| {
        [&(body.len() as u32 + 8).to_be_bytes()[..], &[2, kind], &channel.to_be_bytes(), body].concat()
    };
    let attach = |channel: u16, handle: u8, receiver: bool| {
        let role: &[u8] = if receiver { b"\x41" } else { b"\x42" };
        let (source, target) = (described(0x28, &[&text("orders")]), described(0x29, &[&text("orders")]));
        frame(0, channel, &described(0x12, &[&text("link-1"), &uint(handle), role, NULL, NULL, &source, &target]))
    };
    let mut transfer = |id: u8, settled: bool| {
        let settled: &[u8] = if settled { b"\x41" } else { b"\x42" };
        let tag = binary(&x.of("amqp1 delivery tag"));
        let head = described(0x14, &[&uint(0), &uint(id), &tag, b"\x43", settled, b"\x42"]);
        let properties = described(
            0x73,
            &[
                &text("m-1"),
                &binary(&x.of("amqp1 user id")),
                NULL,
                &text(&x.of("amqp1 subject")),
                &text(&x.of("amqp1 reply-to")),
            ],
        );
        let application = compound(0xc1, &[&text("token"), &text(&x.of("amqp1 application property"))]);
        let body = [&[0, 0x53, 0x75][..], &binary(&x.of("amqp1 body"))].concat();
        frame(0, 0, &[&head[..], &properties, &[0, 0x53, 0x74], &application, &body].concat())
    };
    let transfers = [transfer(0, false), transfer(1, true), transfer(2, false)].concat();
    let mut error =
        |place: &str| described(0x1d, &[&symbol("amqp:not-allowed"), &text(&format!("no '{}'", x.of(place)))]);
    let rejected = described(0x25, &[&error("amqp1 rejection")]);
    let closed = described(0x18, &[&error("amqp1 close")]);
    let sasl = b"AMQP\x03\x01\x00\x00";
    let amqp = b"AMQP\x00\x01\x00\x00";
    let login = format!("\0{}\0{}", x.of("amqp1 user"), x.of("amqp1 password"));
    let challenge = described(0x42, &[&binary(&x.of("amqp1 challenge"))]);
    let response = described(0x43, &[&binary(&x.of("amqp1 response"))]);
    talk(
        "amqp",
        &["sasl.init", "open broker", "attach orders", "transfer orders"],
        vec![
            c(sasl),
            s([&sasl[..], &frame(1, 0, &described(0x40, &[&symbol("PLAIN")]))].concat()),
            c(frame(1, 0, &described(0x41, &[&symbol("PLAIN"), &binary(&login)]))),
            s(frame(1, 0, &challenge)),
            c(frame(1, 0, &response)),
            s(frame(1, 0, &described(0x44, &[b"\x50\x00"]))),
            c([&amqp[..], &frame(0, 0, &described(0x10, &[&text("shop"), &text("broker")]))].concat()),
            s([&amqp[..], &frame(0, 0, &described(0x10, &[&text("b")]))].concat()),
            c(frame(0, 0, &described(0x11, &[NULL, &uint(0)]))),
            s(frame(0, 5, &described(0x11, &[b"\x60\x00\x00", &uint(0)]))),
            c(attach(0, 0, false)),
            s(attach(5, 3, true)),
            c(transfers),
            s([
                frame(0, 5, &described(0x15, &[b"\x41", &uint(0), &uint(0), b"\x41", b"\x00\x53\x24\x45"])),
                frame(0, 5, &described(0x15, &[b"\x41", &uint(2), &uint(2), b"\x41", &rejected])),
            ]
            .concat()),
            s(frame(0, 0, &closed)),
            c(frame(0, 0, b"\x00\x53\x18\x45")),
        ],
    )
}

fn pulsar(x: &mut Secrets) -> Talk {
    let mut send = |sequence: u64| {
        let metadata = fields().bytes(1, "maker").int(2, sequence).int(3, 1);
        let metadata = metadata.bytes(4, property("token", &x.of("pulsar property"))).bytes(6, x.of("pulsar key"));
        with(6, fields().int(1, 4).int(2, sequence).int(3, 1), &payload(metadata, x.of("pulsar payload").as_bytes()))
    };
    let sends = [send(0), send(1)].concat();
    let message = {
        let metadata =
            fields().bytes(1, "maker").int(2, 1).int(3, 1).bytes(4, property("token", &x.of("pulsar read property")));
        let id = fields().int(1, 9).int(2, 61).int(3, 2);
        with(9, fields().int(1, 6).bytes(2, id.0), &payload(metadata, x.of("pulsar read payload").as_bytes()))
    };
    let receipt = fields().int(1, 4).int(2, 0).bytes(3, fields().int(1, 9).int(2, 60).0);
    let mut refused = |kind: u64, inner: Fields, field: u64| {
        command(kind, inner.bytes(field, format!("no '{}'", x.of("pulsar error"))))
    };
    let error = refused(14, fields().int(1, 11).int(2, 11), 3);
    let send_error = refused(8, fields().int(1, 4).int(2, 1).int(3, 2), 4);
    let schema = fields().bytes(1, "s").bytes(3, x.of("pulsar schema")).int(4, 2);
    let connect = fields().bytes(1, "client").bytes(5, "token").bytes(3, x.of("pulsar token")).int(4, 19);
    let connect = connect.bytes(7, x.of("pulsar proxied principal")).bytes(8, x.of("pulsar proxied token"));
    let producer = fields().bytes(1, TOPIC).int(2, 4).int(3, 11).bytes(4, "maker");
    let producer = producer.bytes(6, property("k", &x.of("pulsar producer's property"))).bytes(7, schema.0);
    let subscribe = fields().bytes(1, TOPIC).bytes(2, "eaters").int(3, 0).int(4, 6).int(5, 12);
    let subscribe = subscribe.bytes(10, property("k", &x.of("pulsar consumer's property")));
    let challenge = fields().bytes(1, "2.9").bytes(2, fields().bytes(1, "token").bytes(2, x.of("pulsar challenge")).0);
    let response = fields().bytes(1, "2.9").bytes(2, fields().bytes(1, "token").bytes(2, x.of("pulsar response")).0);
    talk(
        "pulsar",
        &["CONNECT", &format!("PRODUCER {TOPIC}"), &format!("SEND {TOPIC}"), &format!("SUBSCRIBE {TOPIC}")],
        vec![
            c(command(2, connect)),
            s(command(36, challenge)),
            c(command(37, response)),
            s(command(3, fields().bytes(1, "Pulsar Server").int(2, 19))),
            c(command(5, producer.clone())),
            s(command(17, fields().int(1, 11).bytes(2, "maker"))),
            c(sends),
            s([command(7, receipt), send_error].concat()),
            c(command(4, subscribe)),
            s(command(13, fields().int(1, 12))),
            s(message),
            c(command(5, producer)),
            s(error),
        ],
    )
}

fn rocket(form: u8, head: &[u8], body: &[u8]) -> Vec<u8> {
    let word = u32::from(form) << 24 | head.len() as u32;
    [&((head.len() + body.len() + 4) as u32).to_be_bytes()[..], &word.to_be_bytes(), head, body].concat()
}

fn rocketmq(x: &mut Secrets) -> Talk {
    let json = |code: i32, flag: i32, opaque: i32, fields: &str, remark: &str, body: &[u8]| {
        let head = format!(
            "{{\"code\":{code},\"extFields\":{{{fields}}},\"flag\":{flag},\"language\":\"JAVA\",\"opaque\":{opaque},\
             \"remark\":\"{remark}\",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":401}}"
        );
        rocket(0, head.as_bytes(), body)
    };
    let send = format!(
        "\"a\":\"makers\",\"b\":\"orders\",\"e\":\"3\",\"AccessKey\":\"{}\",\"Signature\":\"{}\",\"SecurityToken\":\"{}\
         \",\
         \"i\":\"KEYS\\u0001{}\\u0002UNIQ_KEY\\u00017F00AB\\u0002TAGS\\u0001TagA\\u0002token\\u0001{}\\u0002\"",
        x.of("rocketmq access key"),
        x.of("rocketmq signature"),
        x.of("rocketmq security token"),
        x.of("rocketmq keys"),
        x.of("rocketmq property"),
    );
    let pull = "\"topic\":\"orders\",\"consumerGroup\":\"eaters\",\"queueId\":\"2\",\"queueOffset\":\"30\"";
    let pull = format!("{pull},\"subscription\":\"{}\"", x.of("rocketmq subscription"));
    let stored = {
        let (key, body) = (x.of("rocketmq stored property"), x.of("rocketmq stored body"));
        let properties = format!("UNIQ_KEY\u{1}7F00AB\u{2}KEYS\u{1}{key}");
        let mut m = 0xdaa3_20a7u32.to_be_bytes().to_vec();
        m.extend([0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 30]);
        m.extend([0; 56]);
        m.extend((body.len() as u32).to_be_bytes());
        m.extend(body.as_bytes());
        m.extend(b"\x06orders");
        m.extend((properties.len() as u16).to_be_bytes());
        m.extend(properties.as_bytes());
        [&((m.len() + 4) as u32).to_be_bytes()[..], &m].concat()
    };
    let remark = format!("no '{}'", x.of("rocketmq remark"));
    talk(
        "rocketmq",
        &["SEND_MESSAGE_V2 orders", "PULL_MESSAGE orders"],
        vec![
            c(json(310, 0, 7, &send, &x.of("rocketmq request's remark"), x.of("rocketmq body").as_bytes())),
            s(json(0, 1, 7, "\"queueId\":\"3\",\"msgId\":\"0A60FF\",\"queueOffset\":\"27\"", "", b"")),
            c(json(11, 0, 8, &pull, "", b"")),
            s(json(0, 1, 8, "\"nextBeginOffset\":\"32\"", "", &stored)),
            c(json(310, 0, 9, &send, "", b"x")),
            s(json(17, 1, 9, "", &remark, b"")),
        ],
    )
}

fn rocketmq_binary(x: &mut Secrets) -> Talk {
    let binary = |code: i16, flag: i32, remark: &str, fields: &[(&str, &str)], body: &str| {
        let mut ext = Vec::new();
        for (name, value) in fields {
            ext.extend([&(name.len() as u16).to_be_bytes()[..], name.as_bytes()].concat());
            ext.extend(sized(value.as_bytes()));
        }
        let head = [&code.to_be_bytes()[..], &[0, 1, 0x91, 0, 0, 0, 9], &flag.to_be_bytes()].concat();
        rocket(1, &[head, sized(remark.as_bytes()), sized(&ext)].concat(), body.as_bytes())
    };
    let properties = format!("UNIQ_KEY\u{1}7F00AB\u{2}KEYS\u{1}{}", x.of("rocketmq binary keys"));
    let signature = x.of("rocketmq binary signature");
    let fields = [("a", "makers"), ("b", "orders"), ("e", "3"), ("i", &*properties), ("Signature", &*signature)];
    talk(
        "rocketmq",
        &["SEND_MESSAGE_V2 orders"],
        vec![
            c(binary(310, 0, &x.of("rocketmq binary remark"), &fields, &x.of("rocketmq binary body"))),
            s(binary(17, 1, &format!("no '{}'", x.of("rocketmq binary error")), &[], "")),
        ],
    )
}

fn zmtp(x: &mut Secrets) -> Talk {
    let word = |text: String| [&[text.len() as u8], text.as_bytes()].concat();
    let hello = [word(x.of("zmtp user")), word(x.of("zmtp password"))].concat();
    talk(
        "zmtp",
        &["HELLO", "INITIATE", "MESSAGE"],
        vec![
            c(wire::greeting("PLAIN", false)),
            s(wire::greeting("PLAIN", true)),
            c(wire::command("HELLO", &hello)),
            s(wire::command("WELCOME", b"")),
            c(wire::ready("INITIATE", "REQ", &x.of("zmtp identity"))),
            s(wire::ready("READY", "REP", &x.of("zmtp server's identity"))),
            c([wire::frame(1, b""), wire::frame(0, x.of("zmtp request").as_bytes())].concat()),
            s([wire::frame(1, b""), wire::frame(0, x.of("zmtp answer").as_bytes())].concat()),
            s(wire::command("ERROR", &word(x.of("zmtp error")))),
        ],
    )
}

fn zmtp_publishes(x: &mut Secrets) -> Talk {
    let ping = [b"\x00\x0a", x.of("zmtp ping").as_bytes()].concat();
    talk(
        "zmtp",
        &["SUBSCRIBE sports.", "MESSAGE sports."],
        vec![
            c(wire::greeting("NULL", false)),
            s(wire::greeting("NULL", false)),
            c(wire::ready("READY", "SUB", "")),
            s(wire::ready("READY", "PUB", "")),
            c(wire::command("SUBSCRIBE", b"sports.")),
            s([
                wire::frame(1, format!("sports.{}", x.of("zmtp topic")).as_bytes()),
                wire::frame(0, x.of("zmtp news").as_bytes()),
            ]
            .concat()),
            s(wire::frame(0, x.of("zmtp unasked").as_bytes())),
            c(wire::command("PING", &ping)),
        ],
    )
}
