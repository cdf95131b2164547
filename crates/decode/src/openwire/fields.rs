//! The parts of commands that are kept.

use super::commands::{self, is_message};
use super::marshal::{map, Cached, Values};
use crate::carried::Context;

/// A destination, as the wire has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Destination<'a> {
    /// 100 queue, 101 topic, 102 temporary queue, 103 temporary topic.
    pub(super) kind: u8,
    pub(super) name: &'a [u8],
}

/// Values that were given a number in this command, or are named by one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Named<'a> {
    Nothing,
    Here(Option<u16>, Destination<'a>),
    Number(u16),
}

/// An id of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Producer<'a> {
    pub(super) connection: &'a [u8],
    pub(super) session: u64,
    pub(super) value: u64,
}

/// The kept fields of a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept<'a> {
    pub(super) destination: Option<Named<'a>>,
    pub(super) client_id: &'a [u8],
    /// Producer and sequence of a message.
    pub(super) message_id: Option<(Producer<'a>, u64)>,
    pub(super) correlation_id: &'a [u8],
    pub(super) context: Context<'a>,
    pub(super) body_size: Option<u64>,
    /// Class of an exception.
    pub(super) exception: &'a [u8],
    pub(super) redeliveries: Option<u32>,
}

impl Default for Kept<'_> {
    fn default() -> Self {
        Kept {
            destination: None,
            client_id: b"",
            message_id: None,
            correlation_id: b"",
            context: Context::default(),
            body_size: None,
            exception: b"",
            redeliveries: None,
        }
    }
}

fn destination<'a>(v: &mut Values<'a>, kind: u8) -> Option<Destination<'a>> {
    (100..=103).contains(&kind).then_some(())?;
    Some(Destination { kind, name: v.text()? })
}

/// Any id, of which nothing is kept.
fn id(v: &mut Values<'_>, kind: u8) -> Option<()> {
    match kind {
        120 => drop(v.text()?),
        121 => {
            v.text()?;
            v.u64()?;
        }
        122 | 123 => {
            v.text()?;
            v.u64()?;
            v.u64()?;
        }
        111 => {
            v.u64()?;
            v.cached(id)?;
        }
        112 => {
            v.u32()?;
            v.bytes()?;
            v.bytes()?;
        }
        100..=103 => drop(v.text()?),
        _ => return None,
    }
    Some(())
}

fn producer<'a>(v: &mut Values<'a>, kind: u8) -> Option<Producer<'a>> {
    (kind == 123).then_some(())?;
    let (connection, value, session) = (v.text()?, v.u64()?, v.u64()?);
    Some(Producer { connection, session, value })
}

fn named<'a>(cached: Cached<Destination<'a>>) -> Named<'a> {
    match cached {
        Cached::Null => Named::Nothing,
        Cached::New(number, d) => Named::Here(number, d),
        Cached::Known(number) => Named::Number(number),
    }
}

/// Reads the kept fields of a command, as far as they are there. Fields before a cut stay.
pub(super) fn read<'a>(kind: u8, v: &mut Values<'a>, version: u32, kept: &mut Kept<'a>) -> Option<()> {
    match kind {
        commands::CONNECTION_INFO => {
            v.cached(id)?;
            kept.client_id = v.text()?;
        }
        commands::CONSUMER_INFO => {
            v.cached(id)?;
            v.bool()?;
            kept.destination = Some(named(v.cached(destination)?));
        }
        commands::PRODUCER_INFO | commands::DESTINATION_INFO | commands::MESSAGE_PULL => {
            v.cached(id)?;
            kept.destination = Some(named(v.cached(destination)?));
        }
        commands::MESSAGE_ACK => kept.destination = Some(named(v.cached(destination)?)),
        commands::MESSAGE_DISPATCH => {
            v.cached(id)?;
            kept.destination = Some(named(v.cached(destination)?));
            if let Some(inner) = v.nested()? {
                // Whether the message was written before it was sent: not kept by any client.
                if v.is_tight() && v.bool()? {
                    return None;
                }
                is_message(inner).then_some(())?;
                v.u32()?;
                v.bool()?;
                // The destination of the dispatch is the one that counts.
                let outer = kept.destination;
                message(v, version, kept)?;
                kept.destination = outer;
                kept.redeliveries = Some(v.u32()?);
            }
        }
        commands::EXCEPTION_RESPONSE | commands::CONNECTION_ERROR if v.bool()? => kept.exception = v.text()?,
        _ if is_message(kind) => message(v, version, kept)?,
        _ => {}
    }
    Some(())
}

fn message<'a>(v: &mut Values<'a>, version: u32, kept: &mut Kept<'a>) -> Option<()> {
    v.cached(producer)?;
    kept.destination = Some(named(v.cached(destination)?));
    v.cached(id)?;
    v.cached(destination)?;
    if let Some(kind) = v.nested()? {
        (kind == 110).then_some(())?;
        if version >= 10 {
            v.text()?;
        }
        let by = v.cached(producer)?;
        let sequence = v.u64()?;
        v.u64()?;
        if let Cached::New(_, by) = by {
            kept.message_id = Some((by, sequence));
        }
    }
    v.cached(id)?;
    v.text()?;
    v.u32()?;
    kept.correlation_id = v.text()?;
    v.bool()?;
    v.u64()?;
    v.u8()?;
    if let Some(kind) = v.nested()? {
        destination(v, kind)?;
    }
    v.u64()?;
    v.text()?;
    let (size, there) = v.skip()?;
    kept.body_size = Some(size);
    there.then_some(())?;
    let properties = v.bytes()?;
    let context = &mut kept.context;
    map(properties, |name, kind, value| {
        // Texts only. Characters that may stand in a name of JMS spell those that may not.
        if matches!(kind, 9 | 10) {
            context.field(name, value);
        }
    });
    if let Some(kind) = v.nested()? {
        // A data structure is what advisories carry; behind it little is kept.
        let _ = kind;
        return None;
    }
    v.cached(id)?;
    v.bool()?;
    v.u32().map(drop)
}
