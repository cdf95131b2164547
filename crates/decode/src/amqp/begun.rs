//! Methods whose content is still to come, and closes.

use super::methods::{self, Id};
use crate::framing::frames::Frame;
use crate::framing::Cursor;
use crate::text::{clean, len64};
use wirespan_model::Side;

/// Longest name that is kept, bytes.
pub(super) const MAX_NAME: usize = 256;

/// A method whose content header has not come, or the body by which its message is known.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) side: Side,
    pub(super) channel: u16,
    pub(super) method: Id,
    pub(super) offset: u64,
    /// Offset behind the method, or behind the content header.
    pub(super) end: u64,
    /// Payload of the content header.
    pub(super) header: Vec<u8>,
    pub(super) exchange: Box<str>,
    pub(super) routing_key: Box<str>,
    pub(super) delivery_tag: Option<u64>,
    pub(super) redelivered: bool,
    /// Reply code and text of a return.
    pub(super) returned: Option<(u16, Box<str>)>,
}

/// A method that a content follows.
pub(super) fn begun(frame: Frame<'_>, channel: u16, method: Id, arguments: &[u8]) -> Option<Begun> {
    let mut begun = Begun {
        side: frame.side,
        channel,
        method,
        offset: frame.offset,
        end: frame.offset.saturating_add(len64(frame.bytes.len())),
        header: Vec::new(),
        exchange: "".into(),
        routing_key: "".into(),
        delivery_tag: None,
        redelivered: false,
        returned: None,
    };
    let mut at = Cursor::new(arguments);
    match method {
        methods::PUBLISH => drop(at.u16()?),
        methods::RETURN => {
            let code = at.u16()?;
            begun.returned = Some((code, clean(at.bytes8()?, MAX_NAME).into()));
        }
        methods::DELIVER => {
            at.bytes8()?;
            begun.delivery_tag = Some(at.u64()?);
            begun.redelivered = at.u8()? & 1 == 1;
        }
        _ => {
            begun.delivery_tag = Some(at.u64()?);
            begun.redelivered = at.u8()? & 1 == 1;
        }
    }
    begun.exchange = clean(at.bytes8()?, MAX_NAME).into();
    begun.routing_key = clean(at.bytes8()?, MAX_NAME).into();
    Some(begun)
}

/// Reply code, text and cause of a close; nothing of an orderly one.
pub(super) fn closed(arguments: &[u8]) -> Option<(u16, Box<str>, Id)> {
    let mut at = Cursor::new(arguments);
    let code = at.u16()?;
    let text = clean(at.bytes8()?, MAX_NAME);
    let cause = (at.u16()?, at.u16()?);
    // RabbitMQ quotes the values of arguments there, behind their names.
    let text = text.split(": received ").next().unwrap_or_default();
    (code != 200 && code != 0).then(|| (code, text.into(), cause))
}
