//! Helpers for the tests of all parsers: feed bytes in pieces, and write the items down.
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
pub(crate) fn line(item: &Item<'_, '_>) -> String {
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
        Item::End { side, id, offset, late } => {
            let mut text = format!("End {side:?} @{offset} {id:?}");
            if let Some(code) = late.status_code {
                text += &format!(" status={code}");
            }
            if late.outcome != Outcome::Unset {
                text += &format!(" {:?}", late.outcome);
            }
            if !late.error.is_empty() {
                text += &format!(" error={:?}", late.error);
            }
            for (k, v) in &late.attrs {
                text += &format!(" {k}={}", v.to_value());
            }
            text
        }
        Item::Upgrade(name) => format!("Upgrade {name}"),
        Item::Malformed { side, reason } => format!("Malformed {side:?} {reason}"),
    }
}

/// All items of a conversation.
pub(crate) fn say(parser: &mut dyn Parser, turns: &[Turn]) -> Vec<String> {
    let mut said = Vec::new();
    for (side, bytes, missing) in turns {
        parser.feed(Chunk { side: *side, bytes, missing: *missing }, &mut |item| said.push(line(&item)));
        assert!(parser.buffered() <= 2 * MAX_BUFFERED, "buffers {}", parser.buffered());
    }
    said
}

/// All items of a conversation on TCP and of its end, from a fresh parser.
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

/// Fails if cutting the turns otherwise changes the items of a fresh parser, or if an item contains `secret`.
pub(crate) fn cutting_changes_nothing(protocol: &dyn Protocol, turns: &[Turn], secret: &str) -> Vec<String> {
    let whole = tcp_to_the_end(protocol, turns);
    for cuts in [&[1][..], &[2, 1, 3], &[5], &[16, 7], &[64], &[500, 3]] {
        assert_eq!(tcp_to_the_end(protocol, &cut(turns, cuts)), whole, "cut at {cuts:?}");
    }
    // Gaps anywhere: nothing is promised but that nothing panics and nothing is kept.
    for at in 0..turns.iter().map(|t| t.1.len()).max().unwrap_or(0) {
        let broken: Vec<Turn> = turns
            .iter()
            .map(|(side, bytes, missing)| {
                let kept = bytes.get(..at).unwrap_or(bytes);
                (*side, kept.to_vec(), missing + (bytes.len() - kept.len()) as u64)
            })
            .collect();
        for said in [tcp_to_the_end(protocol, &broken), tcp_to_the_end(protocol, &cut(&broken, &[3]))] {
            assert!(!said.iter().any(|l| l.contains(secret)), "{secret} is in {said:?}");
        }
        // Other cuts of the captured bytes change nothing there either.
        assert_eq!(tcp_to_the_end(protocol, &cut(&broken, &[3])), tcp_to_the_end(protocol, &broken), "kept {at}");
    }
    assert!(!whole.iter().any(|l| l.contains(secret)), "{secret} is in {whole:?}");
    whole
}

/// The protocol that the registry recognises, and whether the first speaker is the client.
pub(crate) fn claimed(first: &[u8], second: &[u8]) -> Option<(&'static str, bool)> {
    match crate::infer(&probe(first, second), (1, u32::from(!second.is_empty()))) {
        crate::Verdict::Known { protocol, first_is_client } => Some((protocol.name(), first_is_client)),
        _ => None,
    }
}
