#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

mod elements;
mod gaps;
mod lines;

use super::commands::{Name, NAMES};
use super::{head, Redis};
use crate::testing::{c, cut, probe, s, tcp, Turn};
use crate::{Detect, Parser, Protocol, MAX_BUFFERED};
use proptest::prelude::*;
use wirespan_model::{Chunk, Item, Side, Transport};

/// A command as clients write it.
fn cmd(words: &[&str]) -> String {
    words.iter().fold(format!("*{}\r\n", words.len()), |text, w| text + &format!("${}\r\n{w}\r\n", w.len()))
}

/// What the parser says, without the attributes that every message has.
fn say(turns: &[Turn]) -> Vec<String> {
    let cut = |l: String| l.split(" db.system.name").next().unwrap().to_owned();
    tcp(&Redis, turns).into_iter().map(cut).collect()
}

#[test]
fn a_command_keeps_no_argument() {
    let said = tcp(&Redis, &[c(cmd(&["set", "geheim", "sehr geheim"])), s("+OK\r\n")]);
    assert_eq!(
        said,
        [
            "C req @0+13 body=open SET db.system.name=redis db.operation.name=SET db.query.text=SET ? ? \
             wirespan.redis.keys=1",
            "End Client @43 None",
            "S resp @0+5 Ok",
        ]
    );
}

#[test]
fn query_texts_hide_arguments() {
    let text = |words: &[&str]| {
        let said = tcp(&Redis, &[c(cmd(words))]);
        said[0].split(" db.system.name=redis ").nth(1).unwrap().to_owned()
    };
    assert_eq!(text(&["PING"]), "db.operation.name=PING db.query.text=PING");
    assert_eq!(text(&["config", "get", "x"]), "db.operation.name=CONFIG GET db.query.text=CONFIG GET ?");
    assert_eq!(text(&["MGET", "a", "b", "c"]), "db.operation.name=MGET db.query.text=MGET ? ? ? wirespan.redis.keys=3");
    assert_eq!(
        text(&["MSET", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]),
        "db.operation.name=MSET db.query.text=MSET ? ? ? ? ? ? ? ? …+2 wirespan.redis.keys=5"
    );
    assert_eq!(text(&["FT.SEARCH", "idx", "q"]), "db.operation.name=FT.SEARCH db.query.text=FT.SEARCH ? ?");
    assert_eq!(text(&["AUTH", "user", "pw"]), "db.operation.name=AUTH");
    assert_eq!(text(&["HELLO", "3", "AUTH", "u", "p"]), "db.operation.name=HELLO");
    assert_eq!(text(&["not a name", "x"]), "db.operation.name=_OTHER db.query.text=_OTHER ?");
    assert_eq!(text(&[&"x".repeat(99), "x"]), "db.operation.name=_OTHER db.query.text=_OTHER ?");
}

#[test]
fn pipelined_commands_get_their_replies_in_order() {
    let said = say(&[
        c(cmd(&["GET", "a"]) + &cmd(&["PING"]) + "*0\r\n" + &cmd(&["LRANGE", "l", "0", "-1"])),
        s("$5\r\nhello\r\n$-1\r\n*-1\r\n*0\r\n:42\r\n+PONG\r\n*2\r\n*2\r\n:1\r\n$2\r\nhi\r\n+x\r\n"),
        s("%1\r\n+k\r\n#t\r\n_\r\n,1.5\r\n(123\r\n=8\r\ntxt:abcd\r\n~2\r\n:1\r\n$-1\r\n|1\r\n+a\r\n:1\r\n:7\r\n"),
    ]);
    assert_eq!(
        said,
        [
            "C req @0+13 body=open GET",
            "End Client @20 None",
            "C req @20+14 PING",
            "C req @38+16 body=open LRANGE",
            "End Client @76 None",
            "S resp @0+4 body=7 Ok",
            "S resp @11+5 Ok",
            "S resp @16+5 Ok",
            "S resp @21+4 Ok",
            "S resp @25+5 Ok",
            "S resp @30+7 Ok",
            "S resp @37+4 body=open Ok",
            "End Server @61 None",
            "S resp @61+4 body=open Ok",
            "End Server @73 None",
            "S resp @73+3 Ok",
            "S resp @76+6 Ok",
            "S resp @82+6 Ok",
            "S resp @88+4 body=10 Ok",
            "S resp @102+4 body=open Ok",
            "End Server @115 None",
            "S resp @127+4 Ok",
        ]
    );
}

#[test]
fn errors_are_coded_and_masked() {
    let reply = |text: &str| say(&[c(cmd(&["GET", "a"])), s(text)]).pop().unwrap();
    assert_eq!(
        reply("-ERR unknown command 'sekret', with args beginning with: 'x' \r\n"),
        "S resp @0+63 ClientError error=\"ERR unknown command '?', with args beginning with: '?' \" \
         db.response.status_code=ERR error.type=ERR"
    );
    assert_eq!(
        reply("-MOVED 3999 10.0.0.1:6381\r\n"),
        "S resp @0+27 Ok db.response.status_code=MOVED wirespan.redis.slot=3999 wirespan.redis.redirect=10.0.0.1:6381"
    );
    assert!(reply("-OOM command not allowed\r\n").contains("ServerError error=\"OOM command"));
    assert!(reply("!10\r\nSYNTAX bad\r\n").starts_with("S resp @0+15 body=2 ClientError error=\"SYNTAX bad\""));
    assert!(reply("-oops no code\r\n").contains("db.response.status_code=ERR"));
    let auth = say(&[c(cmd(&["AUTH", "pw"])), s("-WRONGPASS invalid pw given\r\n")]).pop().unwrap();
    assert!(auth.contains("error=\"WRONGPASS\"") && !auth.contains("invalid"), "{auth}");
    let script = say(&[c(cmd(&["EVAL", "return x", "0"])), s("-MINE card 4111\r\n")]).pop().unwrap();
    assert!(script.contains("error=\"MINE\"") && !script.contains("card"), "{script}");
}

#[test]
fn the_selected_database_is_tracked() {
    let said = tcp(
        &Redis,
        &[
            c(cmd(&["SELECT", "7"]) + &cmd(&["GET", "a"])),
            s("+OK\r\n$-1\r\n"),
            c(cmd(&["SELECT", "99"])),
            s("-ERR DB index is out of range\r\n"),
            c(cmd(&["PING"])),
        ],
    );
    let db = |i: usize| said[i].split("db.namespace=").nth(1).map(|t| t.split(' ').next().unwrap().to_owned());
    assert_eq!(db(0), None);
    assert_eq!(db(1), Some("7".into()));
    assert_eq!(db(5), Some("7".into()), "{said:?}");
    assert_eq!(db(said.len() - 1), Some("7".into()));
}

#[test]
fn a_channel_is_a_destination() {
    let channel = |turns: &[Turn]| {
        let said = tcp(&Redis, turns).into_iter().next().unwrap();
        said.split(" db.system.name=redis ").nth(1).unwrap().to_owned()
    };
    assert_eq!(
        channel(&[c(cmd(&["publish", "news", "geheim"]))]),
        "db.operation.name=PUBLISH messaging.system.name=redis messaging.operation.type=send \
        messaging.destination.name=news \
         db.query.text=PUBLISH ? ?"
    );
    let push = ">4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$6\r\ngeheim\r\n";
    let received = "messaging.system.name=redis messaging.operation.type=receive messaging.destination.name=news";
    assert_eq!(channel(&[s(push)]), received);
    let long = "x".repeat(65);
    assert_eq!(channel(&[c(cmd(&["PUBLISH", &long, "m"]))]), "db.operation.name=PUBLISH db.query.text=PUBLISH ? ?");
}

#[test]
fn publications_over_resp2_are_one_way() {
    let said = say(&[
        c(cmd(&["SUBSCRIBE", "a", "b"])),
        s("*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n"),
        s("*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$6\r\nsecret\r\n"),
        c(cmd(&["PING"])),
        s("*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n2\r\n*2\r\n$4\r\npong\r\n$0\r\n\r\n"),
    ]);
    let messages: Vec<_> = said.iter().filter(|l| !l.starts_with("End")).map(String::as_str).collect();
    assert_eq!(
        messages,
        [
            "C req @0+26 body=open SUBSCRIBE a",
            "S resp @0+19 body=open Ok",
            "S oneway @30+19 body=open SUBSCRIBE",
            "S oneway @60+24 body=open MESSAGE a",
            "C req @33+14 PING",
            "S oneway @96+24 body=open MESSAGE a",
            "S resp @127+14 body=open Ok",
        ]
    );
}

#[test]
fn pushes_over_resp3_are_one_way() {
    let said = say(&[
        c(cmd(&["SUBSCRIBE", "a"]) + &cmd(&["GET", "k"])),
        s(">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n>3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n$1\r\nv\r\n"),
        s(">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n>1\r\n+odd\r\n"),
        c(cmd(&["LRANGE", "l", "0", "1"])),
        s("*2\r\n$7\r\nmessage\r\n$1\r\nx\r\n"),
    ]);
    let server: Vec<_> = said.iter().filter(|l| l.starts_with('S')).map(String::as_str).collect();
    assert_eq!(
        server,
        [
            "S resp @0+19 body=open Ok",
            "S oneway @30+24 body=open MESSAGE a",
            "S resp @61+4 body=3 Ok",
            "S oneway @68+21 body=open INVALIDATE",
            "S oneway @100+4 body=open PUSH",
            "S resp @110+4 body=open Ok",
        ]
    );
}

#[test]
fn commands_without_reply_are_one_way() {
    let said = say(&[
        c(cmd(&["CLIENT", "REPLY", "SKIP"]) + &cmd(&["INCR", "x"]) + &cmd(&["GET", "x"])),
        c(cmd(&["CLIENT", "REPLY", "OFF"]) + &cmd(&["INCR", "x"]) + &cmd(&["CLIENT", "REPLY", "ON"])),
    ]);
    let kinds: Vec<_> = said
        .iter()
        .filter(|l| l.starts_with('C'))
        .map(|l| (l.contains("oneway"), l.rsplit(' ').next().unwrap()))
        .collect();
    assert_eq!(
        kinds,
        [(true, "REPLY"), (true, "INCR"), (false, "GET"), (true, "REPLY"), (true, "INCR"), (false, "REPLY")]
    );
}

#[test]
fn monitor_lines_are_one_way_and_keep_nothing() {
    let said = say(&[
        c(cmd(&["MONITOR"])),
        s("+OK\r\n+1339518083.107412 [0 127.0.0.1:60866] \"set\" \"k\" \"geheim\"\r\n"),
        c(cmd(&["QUIT"])),
        s("+OK\r\n"),
    ]);
    assert_eq!(
        said,
        ["C req @0+17 MONITOR", "S resp @0+5 Ok", "S oneway @5+59", "C req @17+14 QUIT", "S resp @64+5 Ok"]
    );
}

#[test]
fn replication_is_an_upgrade() {
    let said = say(&[
        c(cmd(&["PSYNC", "?", "-1"])),
        s("\n\n+FULLRESYNC 8371b4fb1155b71f4a04d3e1bc3e18c4a990aeeb 0\r\n$999\r\nREDIS0011"),
        s("*1\r\n$4\r\nPING\r\n"),
    ]);
    assert_eq!(said.len(), 4, "{said:?}");
    assert_eq!(said[3], "Upgrade redis-replication");
}

#[test]
fn inline_commands_are_read() {
    let said = say(&[c("\r\nPING\r\nset a b\nCONFIG GET x\r\n"), s("+PONG\r\n")]);
    assert_eq!(said, ["C req @2+6 PING", "C req @8+8 SET", "C req @16+14 CONFIG GET", "S resp @0+7 Ok"]);
    assert_eq!(say(&[c("GET / HTTP/1.1\r\nHost: x\r\n\r\n")])[1], "Malformed Client redis_bad_command");
}

#[test]
fn long_lines_pass_by() {
    let said = say(&[c(cmd(&["GET", "x"])), s(format!("-ERR {}\r\n+OK\r\n", "y".repeat(5000)))]);
    assert!(said[2].starts_with("S resp @0+512 body=open ClientError error=\"ERR yyy"), "{}", said[2]);
    assert!(said[2].len() < 400);
    assert_eq!(said[3], "End Server @5007 None");
    assert_eq!(said[4], "S resp @5007+5 Ok");
}

#[test]
fn nonsense_is_counted_and_the_next_chunk_tried() {
    let said = say(&[
        c("*2\r\n$3\r\nGET\r\n:12\r\nand more"),
        c("still nonsense"),
        c(cmd(&["PING"])),
        s("*1\r\n?\r\n"),
        s("+PONG\r\n"),
        c("*9999999999999\r\n"),
    ]);
    assert_eq!(
        said,
        [
            "C req @0+13 body=open GET",
            "Malformed Client redis_bad_element",
            "C req @40+14 PING",
            "S resp @0+4 body=open Ok",
            "Malformed Server redis_bad_element",
            "S resp @7+7 Ok",
            "Malformed Client redis_bad_command",
        ]
    );
}

#[test]
fn a_string_that_is_longer_than_it_says_is_noticed() {
    let said = say(&[s("$3\r\nabcdef\r\n"), s(":1\r\n")]);
    assert_eq!(said, ["S resp @0+4 body=5 Ok", "Malformed Server redis_bad_element", "S resp @12+4 Ok"]);
}

#[test]
fn connections_are_recognised_and_others_are_not() {
    let yes = |first_is_client| Detect::Yes { first_is_client };
    let ask = |first: &str, second: &str| Redis.detect(&probe(first.as_bytes(), second.as_bytes()));
    assert_eq!(ask(&cmd(&["GET", "a"]), ""), yes(true));
    assert_eq!(ask("*2\r\n$3\r\nGE", ""), Detect::Maybe);
    assert_eq!(ask("*1\r\n$4\r\nPING\r\n", "+PONG\r\n"), yes(true));
    assert_eq!(ask(&cmd(&["MY.COMMAND", "a"]), ""), Detect::Maybe);
    assert_eq!(ask(&cmd(&["MY.COMMAND", "a"]), ":1\r\n"), yes(true));
    assert_eq!(ask("$5\r\nhello\r\n", &cmd(&["GET", "a"])), yes(false));
    assert_eq!(ask("*1\r\n$3\r\nabc\r\n", &cmd(&["GET", "a"])), yes(false));
    assert_eq!(ask("PING\r\n", ""), Detect::Maybe);
    assert_eq!(ask("PING\r\n", "+PONG\r\n"), yes(true));
    assert_eq!(ask("PING\r\n", "PONG\r\n"), Detect::No, "NATS");
    assert_eq!(ask("+OK POP3 ready\r\n", "USER bob\r\n"), Detect::No, "POP3");
    assert_eq!(ask("get key\r\n", "VALUE key 0 1\r\nx\r\nEND\r\n"), Detect::No, "memcached");
    assert_eq!(ask("*hello\r\n", ""), Detect::No);
}

#[test]
fn names_are_sorted_and_short() {
    assert!(NAMES.windows(2).all(|w| w[0] < w[1]));
    assert!(NAMES.iter().all(|n| Name::new(n.as_bytes()).is_some_and(|name| name.as_str() == *n && name.is_known())));
    assert!(Name::new(b"set").unwrap().is_known());
}

/// A conversation with everything in it.
fn conversation() -> Vec<Turn> {
    let big = "v".repeat(3000);
    vec![
        c(cmd(&["HELLO", "3"]) + &cmd(&["SELECT", "3"])),
        s("%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n+OK\r\n"),
        c(cmd(&["SET", "k", &big]) + &cmd(&["CONFIG", "GET", "*"]) + &cmd(&["SUBSCRIBE", "a", "b"])),
        s(format!("+OK\r\n*2\r\n$3\r\nabc\r\n$3000\r\n{big}\r\n")),
        s(">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n>3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n"),
        c(cmd(&["MULTI"]) + &cmd(&["INCR", "x"]) + &cmd(&["EXEC"])),
        s("+OK\r\n+QUEUED\r\n*1\r\n:1\r\n>3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n"),
        c("PING\r\n"),
        s("-ERR 'quoted' text\r\n"),
        c(cmd(&["CLIENT", "REPLY", "OFF"])),
    ]
}

proptest! {
    #[test]
    fn chunking_does_not_matter(cuts in prop::collection::vec(1usize..80, 1..20)) {
        let whole = conversation();
        prop_assert_eq!(tcp(&Redis, &whole), tcp(&Redis, &cut(&whole, &cuts)));
    }

    #[test]
    fn flips_cuts_and_gaps_never_panic(
        flips in prop::collection::vec((0usize..20_000, any::<u8>()), 0..8),
        cuts in prop::collection::vec(1usize..300, 1..20),
        gaps in prop::collection::vec(prop_oneof![3 => Just(0u64), 1 => 1u64..100, 1 => Just(u64::MAX)], 1..20),
    ) {
        let mut turns = conversation();
        for (at, value) in flips {
            let n = turns.len();
            let bytes = &mut turns[at % n].1;
            let i = at % bytes.len();
            bytes[i] = value;
        }
        let mut pieces = cut(&turns, &cuts);
        for (piece, gap) in pieces.iter_mut().zip(gaps.iter().cycle()) {
            piece.2 = *gap;
        }
        tcp(&Redis, &pieces);
    }

    #[test]
    fn heads_are_kept_small(bytes in prop::collection::vec(any::<u8>(), 0..5000), side in any::<bool>()) {
        let mut parser = Redis.parser(Transport::Tcp);
        let side = if side { Side::Client } else { Side::Server };
        for piece in bytes.chunks(7) {
            parser.feed(Chunk { side, bytes: piece, missing: 0 }, &mut |_| {});
            prop_assert!(parser.buffered() <= 2 * head::MAX_HEAD && parser.buffered() <= MAX_BUFFERED);
        }
    }
}

#[test]
fn offsets_count_every_byte() {
    // Whatever happens before: the offset of the last command is where it stands.
    for (noise, missing) in
        [("*2\r\n$3\r\nGET\r\n$9\r\nab", 500u64), ("garbage\r\n", 0), ("*1\r\n$4\r\nPI", 3), ("", 9)]
    {
        let mut parser: Box<dyn Parser> = Redis.parser(Transport::Tcp);
        let mut at = None;
        parser.feed(Chunk { side: Side::Client, bytes: noise.as_bytes(), missing }, &mut |_| {});
        let ping = cmd(&["PING"]);
        let chunk = Chunk { side: Side::Client, bytes: ping.as_bytes(), missing: 0 };
        parser.feed(chunk, &mut |item| {
            if let Item::Message(m) = item {
                at = Some(m.offset);
            }
        });
        assert_eq!(at, Some(noise.len() as u64 + missing), "{noise:?}");
    }
}
