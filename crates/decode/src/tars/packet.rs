//! `RequestPacket` and `ResponsePacket`, field by field in their order.

use super::jce::{field, pairs, Value};
use crate::carried::Context;
use crate::framing::Cursor;
use crate::rpc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Request { servant: &'a str, func: &'a str },
    Response { ret: i32 },
}

#[derive(Clone, Debug)]
pub(super) struct Packet<'a> {
    pub(super) version: u8,
    pub(super) one_way: bool,
    pub(super) id: u32,
    pub(super) part: Part<'a>,
    pub(super) description: &'a [u8],
    /// Return code of a TUP answer.
    pub(super) status_code: Option<i32>,
    pub(super) context: Context<'a>,
    /// The buffer's field was reached and its type is right.
    pub(super) buffered: bool,
    /// Every field was read, to the last byte.
    pub(super) complete: bool,
}

impl<'a> Packet<'a> {
    /// Reads as far as the bytes go; `None` if they are no packet, or end before they tell which.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut r = Cursor::new(bytes);
        let mut int = |tag| match field(&mut r)? {
            (t, Value::Int(n)) if t == tag => Some(n),
            _ => None,
        };
        let version = u8::try_from(int(1)?).ok().filter(|v| (1..=3).contains(v))?;
        let one_way = match int(2)? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let (third, fourth) = (int(3)?, int(4)?);
        let id = |n: i64| i32::try_from(n).ok().map(i32::cast_unsigned);
        let mut packet = Packet {
            version,
            one_way,
            id: 0,
            part: Part::Response { ret: 0 },
            description: b"",
            status_code: None,
            context: Context::default(),
            buffered: false,
            complete: false,
        };
        match field(&mut r)? {
            (5, Value::Text(servant)) => {
                packet.id = id(fourth)?;
                let servant = rpc::name(servant).filter(|s| s.contains('.'))?;
                let func = match field(&mut r) {
                    Some((6, Value::Text(func))) => rpc::name(func)?,
                    Some(_) => return None,
                    None => "",
                };
                packet.part = Part::Request { servant, func };
                packet.complete = packet.request_rest(&mut r).is_some() && r.is_empty();
            }
            (5, Value::Int(ret)) => {
                packet.id = id(third)?;
                packet.part = Part::Response { ret: i32::try_from(ret).ok()? };
                packet.complete = packet.response_rest(&mut r).is_some() && r.is_empty();
            }
            _ => return None,
        }
        Some(packet)
    }

    /// Tags 7 to 10 of a request: buffer, timeout, context, status.
    fn request_rest(&mut self, r: &mut Cursor<'a>) -> Option<()> {
        self.buffer(r, 7)?;
        if !matches!(field(r)?, (8, Value::Int(_))) {
            return None;
        }
        let (9, Value::Map(n)) = field(r)? else { return None };
        pairs(r, n, |key, value| self.context.field(key, value))?;
        let (10, Value::Map(n)) = field(r)? else { return None };
        pairs(r, n, |key, value| self.status(key, value))
    }

    /// Tags 6 to 9 of a response: buffer, status, description, context; the last two only if they are not empty.
    fn response_rest(&mut self, r: &mut Cursor<'a>) -> Option<()> {
        self.buffer(r, 6)?;
        while !r.is_empty() {
            match field(r)? {
                (7, Value::Map(n)) => pairs(r, n, |key, value| self.status(key, value))?,
                (8, Value::Text(text)) => self.description = text,
                (9, Value::Map(n)) => pairs(r, n, |key, value| self.context.field(key, value))?,
                _ => return None,
            }
        }
        Some(())
    }

    fn buffer(&mut self, r: &mut Cursor<'a>, tag: u8) -> Option<()> {
        // The type can be seen even if the buffer was not captured whole.
        self.buffered = r.peek() == Some(tag << 4 | 13);
        match field(r)? {
            (t, Value::Bytes(_)) if t == tag => Some(()),
            _ => None,
        }
    }

    fn status(&mut self, key: &'a [u8], value: &'a [u8]) {
        if key == b"STATUS_RESULT_CODE" {
            self.status_code = std::str::from_utf8(value).ok().and_then(|v| v.parse().ok());
        } else if key == b"STATUS_RESULT_DESC" {
            self.description = value;
        }
    }
}
