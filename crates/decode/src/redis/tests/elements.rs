//! Elements that are put into Redis and taken out of it.
#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use super::cmd;
use crate::ids::ids;
use crate::redis::Redis;
use crate::testing::{c, cut, cutting_changes_nothing, s, tcp, Turn};
use wirespan_model::broker::ElementHash;

const JOB: &str = "{\"id\": \"0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0\", \"task\": \"geheim\"}";

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

fn hash(text: &str) -> String {
    let mut hash = ElementHash::default();
    hash.add(&text.as_bytes()[..text.len().min(4096)]);
    let len = text.len() as u64;
    format!("{:016x}", if ids(text.as_bytes()).is_empty() { hash.of_guessable(len) } else { hash.of_length(len) })
}

/// The values of an attribute, in the order of the messages.
fn told(turns: &[Turn], key: &str) -> Vec<String> {
    let said = tcp(&Redis, turns);
    let key = format!("wirespan.redis.{key}=");
    let value = |l: &String| l.split_once(&key).map(|(_, rest)| rest.split(" wirespan.").next().unwrap().to_owned());
    said.iter().filter_map(value).collect()
}

#[test]
fn what_is_put_and_what_is_taken_has_one_name() {
    let job = hash(JOB);
    for put in [&["LPUSH", "queue", JOB][..], &["rpush", "queue", JOB], &["ZADD", "later", "NX", "1732527382.5", JOB]] {
        assert_eq!(told(&[c(cmd(put)), s(":1\r\n")], "put"), [job.as_str()], "{put:?}");
    }
    let key = bulk("queue");
    for (take, reply) in [
        (&["BRPOP", "queue", "1"][..], format!("*2\r\n{key}{}", bulk(JOB))),
        (&["rpop", "queue"], bulk(JOB)),
        (&["BLMOVE", "queue", "doing", "RIGHT", "LEFT", "0"], bulk(JOB)),
        (&["LMPOP", "1", "queue", "LEFT"], format!("*2\r\n{key}*1\r\n{}", bulk(JOB))),
        (&["BZPOPMIN", "later", "0"], format!("*3\r\n{key}{}{}", bulk(JOB), bulk("17"))),
        (&["ZRANGEBYSCORE", "later", "-inf", "17"], format!("*1\r\n{}", bulk(JOB))),
    ] {
        assert_eq!(told(&[c(cmd(take)), s(reply)], "taken"), [job.as_str()], "{take:?}");
    }
    let two = told(&[c(cmd(&["LPUSH", "queue", JOB, "another job"])), s(":2\r\n")], "put");
    assert_eq!(two, [format!("{job} {}", hash("another job"))]);
}

/// Its hash must not confirm a guess outside of this process.
#[test]
fn what_can_be_guessed_has_a_secret_name() {
    let named = told(&[c(cmd(&["LPUSH", "mails", "alice@example.com"])), s(":1\r\n")], "put");
    let mut known = ElementHash::default();
    known.add(b"alice@example.com");
    assert_eq!(named.len(), 1);
    assert_ne!(named, [format!("{:016x}", known.of_length(17))]);
    assert_eq!(told(&[c(cmd(&["RPOP", "mails"])), s(bulk("alice@example.com"))], "taken"), named);
}

#[test]
fn other_commands_tell_no_elements() {
    let none = |turns: &[Turn]| ["put", "taken", "struck", "ids"].iter().all(|key| told(turns, key).is_empty());
    assert!(none(&[c(cmd(&["SET", "queue", JOB])), s("+OK\r\n"), c(cmd(&["GET", "queue"])), s(bulk(JOB))]));
    assert!(none(&[c(cmd(&["BRPOP", "queue", "1"])), s("*-1\r\n"), c(cmd(&["LPOP", "queue"])), s("$-1\r\n")]));
    assert!(none(&[c(cmd(&["LRANGE", "queue", "0", "-1"])), s(format!("*1\r\n{}", bulk(JOB)))]));
    // An element that is too short to be known again is taken all the same.
    assert_eq!(told(&[c(cmd(&["LPOP", "queue"])), s(bulk("17"))], "taken"), [""]);
}

#[test]
fn an_entry_of_a_stream_has_the_id_that_the_reply_tells() {
    let id = "1732527382123-0";
    let put = [c(cmd(&["XADD", "orders", "*", "job", JOB])), s(bulk(id))];
    assert_eq!(told(&put, "entry"), [hash(id)]);
    assert_eq!(told(&put, "put"), [hash(JOB)]);
    let entry = format!("*2\r\n{}*2\r\n{}{}", bulk(id), bulk("job"), bulk(JOB));
    let reply = format!("*1\r\n*2\r\n{}*1\r\n{entry}", bulk("orders"));
    let taken = told(&[c(cmd(&["XREADGROUP", "GROUP", "g", "c", "STREAMS", "orders", ">"])), s(reply)], "taken");
    assert_eq!(taken, [format!("{} {}", hash(id), hash(JOB))]);
}

#[test]
fn the_reply_to_exec_holds_what_its_commands_take() {
    let transaction = cmd(&["MULTI"]) + &cmd(&["RPOP", "queue"]) + &cmd(&["INCR", "n"]) + &cmd(&["EXEC"]);
    let reply = format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n{}:1\r\n", bulk(JOB));
    assert_eq!(told(&[c(transaction), s(reply)], "taken"), [hash(JOB)]);
    let discarded = cmd(&["MULTI"]) + &cmd(&["RPOP", "queue"]) + &cmd(&["DISCARD"]) + &cmd(&["HGETALL", "h"]);
    let reply = format!("+OK\r\n+QUEUED\r\n+OK\r\n*2\r\n{0}{0}", bulk(JOB));
    assert!(told(&[c(discarded), s(reply)], "taken").is_empty());
}

#[test]
fn what_is_struck_off_is_named_by_the_ids_in_it() {
    let id = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
    let known = format!("{:016x}", ids(id.as_bytes())[0]);
    assert_eq!(
        told(&[c(cmd(&["BRPOP", "queue", "1"])), s(format!("*2\r\n{}{}", bulk("queue"), bulk(JOB)))], "ids"),
        [known.as_str()]
    );
    assert_eq!(told(&[c(cmd(&["HDEL", "unacked", id])), s(":1\r\n")], "ids"), [known.as_str()]);
    let (entry, xack) = ("1732527382123-0", cmd(&["XACK", "orders", "group", "1732527382123-0"]));
    assert_eq!(told(&[c(xack), s(":1\r\n")], "ids"), [format!("{:016x}", ids(entry.as_bytes())[0])]);
    assert_eq!(told(&[c(cmd(&["LREM", "doing", "1", JOB])), s(":1\r\n")], "struck"), [hash(JOB)]);
}

#[test]
fn a_script_puts_its_arguments_and_shows_what_it_returns() {
    let sha = "f".repeat(40);
    let call = ["EVALSHA", &sha, "2", "bull:shop:wait", "bull:shop:events", JOB, "17"];
    assert_eq!(told(&[c(cmd(&call)), s(bulk(JOB))], "put"), [hash(JOB)], "keys are no elements");
    assert_eq!(told(&[c(cmd(&call)), s(bulk(JOB))], "taken"), [hash(JOB)]);
    assert!(told(&[c(cmd(&call)), s(":1\r\n")], "taken").is_empty());
    let timed = ["EVALSHA", &sha, "0", JOB, "1732527382123"];
    let reply = format!("*2\r\n{}{}", bulk(JOB), bulk("1732527382123"));
    assert_eq!(told(&[c(cmd(&timed)), s(reply.clone())], "put"), [hash(JOB)], "a time is no name");
    assert_eq!(told(&[c(cmd(&timed)), s(reply)], "taken"), [hash(JOB)]);
    assert_eq!(told(&[c(cmd(&["LPUSH", "queue", "1732527382123"])), s(":1\r\n")], "put").len(), 1);
}

#[test]
fn pieces_and_lost_bytes() {
    let turns = [c(cmd(&["LPUSH", "queue", JOB])), s(":1\r\n"), c(cmd(&["RPOP", "queue"])), s(bulk(JOB))];
    cutting_changes_nothing(&Redis, &turns, "geheim");
    assert_eq!(told(&cut(&turns, &[3, 7]), "taken"), [hash(JOB)]);
    let long = "x".repeat(9000);
    let whole = cmd(&["LPUSH", "queue", &long]);
    let lost = |kept: usize| {
        let kept = &whole[..kept];
        told(&[(wirespan_model::Side::Client, kept.into(), (whole.len() - kept.len()) as u64), s(":1\r\n")], "put")
    };
    assert_eq!(lost(whole.len() - 4000), [hash(&long)], "the beginning and the length are enough");
    assert_eq!(lost(1000), [""], "without the beginning it has no name");
}
