//! What the tests of all parsers share: feed bytes in pieces, and write down what came out.
#![allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::cast_possible_truncation
)]

use crate::{Parser, Probe, Protocol, MAX_BUFFERED};
use wirespan_model::{Body, Chunk, Item, Kind, Outcome, Side, Transport};

/// A piece of a conversation: bytes of a side, and bytes missing behind them.
pub(crate) type Turn = (Side, Vec<u8>, u64);

pub(crate) fn c(bytes: impl AsRef<[u8]>) -> Turn {
    (Side::Client, bytes.as_ref().to_vec(), 0)
}

pub(crate) fn s(bytes: impl AsRef<[u8]>) -> Turn {
    (Side::Server, bytes.as_ref().to_vec(), 0)
}

/// Owned copy of an item, on one line.
pub(crate) fn line(item: &Item<'_>) -> String {
    match item {
        Item::Message(m) => {
            let side = if m.side == Side::Client { 'C' } else { 'S' };
            let kind = match m.kind {
                Kind::Request => "req",
                Kind::Response => "resp",
                Kind::OneWay => "oneway",
                Kind::Interim => "interim",
            };
            let mut text = format!("{side} {kind} @{}+{}", m.offset, m.head_len);
            match m.body {
                Body::None => {}
                Body::Length(n) => text += &format!(" body={n}"),
                Body::Open => text += " body=open",
            }
            if let Some(id) = m.id {
                text += &format!(" id={id}");
            }
            for word in [m.operation, &*m.target] {
                if !word.is_empty() {
                    text += &format!(" {word}");
                }
            }
            if let Some(code) = m.status_code {
                text += &format!(" status={code}");
            }
            if m.outcome != Outcome::Unset {
                text += &format!(" {:?}", m.outcome);
            }
            if !m.error.is_empty() {
                text += &format!(" error={:?}", m.error);
            }
            for (k, v) in &m.attrs {
                text += &format!(" {k}={}", v.to_value());
            }
            if m.carried != Default::default() {
                text += &format!(" {:?}", m.carried);
            }
            text
        }
        Item::End { side, id, offset, late_status } => format!("End {side:?} @{offset} {id:?} {late_status:?}"),
        Item::Upgrade(name) => format!("Upgrade {name}"),
        Item::Malformed { side, reason } => format!("Malformed {side:?} {reason}"),
    }
}

/// Everything that a parser says of a conversation.
pub(crate) fn say(parser: &mut dyn Parser, turns: &[Turn]) -> Vec<String> {
    let mut said = Vec::new();
    for (side, bytes, missing) in turns {
        parser.feed(Chunk { side: *side, bytes, missing: *missing }, &mut |item| said.push(line(&item)));
        assert!(parser.buffered() <= 2 * MAX_BUFFERED, "buffers {}", parser.buffered());
    }
    said
}

/// What a fresh parser on TCP says of a conversation and its end.
pub(crate) fn tcp_to_the_end(protocol: &dyn Protocol, turns: &[Turn]) -> Vec<String> {
    let mut parser = protocol.parser(Transport::Tcp);
    let mut said = say(&mut *parser, turns);
    parser.finish(&mut |item| said.push(line(&item)));
    said
}

/// The same for a fresh parser on TCP.
pub(crate) fn tcp(protocol: &dyn Protocol, turns: &[Turn]) -> Vec<String> {
    say(&mut *protocol.parser(Transport::Tcp), turns)
}

/// Each turn cut at the places that `cuts` says, in a cycle: lengths of 1 and more.
pub(crate) fn cut(turns: &[Turn], cuts: &[usize]) -> Vec<Turn> {
    let mut lengths = cuts.iter().copied().cycle();
    let mut pieces = Vec::new();
    for (side, bytes, missing) in turns {
        let mut rest = bytes.as_slice();
        while rest.len() > 1 {
            let n = lengths.next().unwrap_or(1).clamp(1, rest.len());
            let (head, tail) = rest.split_at(n);
            if tail.is_empty() {
                break;
            }
            pieces.push((*side, head.to_vec(), 0));
            rest = tail;
        }
        pieces.push((*side, rest.to_vec(), *missing));
    }
    pieces
}

pub(crate) fn probe<'a>(first: &'a [u8], second: &'a [u8]) -> Probe<'a> {
    Probe { transport: Transport::Tcp, first, second, first_is_client: None, server_port: None }
}
