//! The messages that one call of a plug-in described: checked at once, and turned into items when the call is done.

use crate::fault::Fault;
use crate::limits::{MAX_ATTRS, MAX_KEYS, MAX_SAID, MAX_SKIP, MAX_WRITTEN};
use std::borrow::Cow;
use wirespan_model::{AttrVal, Body, Carried, Item, Kind, Late, Message, Outcome, Side, L7};

/// Longest texts that are kept, bytes; more is cut off.
pub(crate) const MAX_OPERATION: usize = 128;
pub(crate) const MAX_TARGET: usize = 1024;
pub(crate) const MAX_ERROR: usize = 256;
pub(crate) const MAX_VALUE: usize = 256;
/// Longest attribute key, bytes; a longer one is a fault.
pub(crate) const MAX_KEY: usize = 64;

/// Trace id, span id, sampling flag.
type Context = ([u8; 16], [u8; 8], Option<bool>);

/// Value of an attribute.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    Text(String),
    Int(i64),
}

/// A message or the end of one.
#[derive(Debug)]
struct Described {
    /// `None` is an end.
    kind: Option<Kind>,
    offset: usize,
    head_len: usize,
    id: Option<u64>,
    body: Body,
    operation: String,
    target: String,
    error: String,
    status: Option<i32>,
    outcome: Outcome,
    context: Option<Context>,
    attrs: Vec<(&'static str, Given)>,
}

/// The messages that the running call has described so far.
#[derive(Debug, Default)]
pub(crate) struct Description {
    messages: Vec<Described>,
    /// Bytes that the call was shown.
    shown: usize,
    written: usize,
    skip: u64,
    /// Attribute keys of the plug-in, each leaked once.
    keys: Vec<&'static str>,
}

impl Description {
    /// A call begins; the plug-in gets this many bytes.
    pub(crate) fn begin(&mut self, shown: usize) {
        self.messages.clear();
        (self.shown, self.written, self.skip) = (shown, 0, 0);
    }

    fn push(&mut self, kind: Option<Kind>, offset: i32, head_len: i32) -> Result<(), Fault> {
        if self.messages.len() >= MAX_SAID {
            return Err(Fault::Flood);
        }
        let place = usize::try_from(offset).ok().zip(usize::try_from(head_len).ok());
        let (offset, head_len) = place.ok_or(Fault::Lie("it described a message at a negative place"))?;
        if offset.checked_add(head_len).is_none_or(|end| end > self.shown) {
            return Err(Fault::Lie("it described a message behind the bytes that it was shown"));
        }
        self.messages.push(Described {
            kind,
            offset,
            head_len,
            id: None,
            body: Body::None,
            operation: String::new(),
            target: String::new(),
            error: String::new(),
            status: None,
            outcome: Outcome::Unset,
            context: None,
            attrs: Vec::new(),
        });
        Ok(())
    }

    pub(crate) fn message(&mut self, kind: i32, offset: i32, head_len: i32) -> Result<(), Fault> {
        let kind = match kind {
            0 => Kind::Request,
            1 => Kind::Response,
            2 => Kind::OneWay,
            3 => Kind::Interim,
            _ => return Err(Fault::Lie("it described a message of a kind that there is not")),
        };
        self.push(Some(kind), offset, head_len)
    }

    pub(crate) fn end(&mut self, offset: i32) -> Result<(), Fault> {
        self.push(None, offset, 0)
    }

    fn last(&mut self) -> Result<&mut Described, Fault> {
        self.messages.last_mut().ok_or(Fault::Lie("it described a message before it said where that is"))
    }

    fn text(&mut self, text: String, to: impl FnOnce(&mut Described) -> &mut String) -> Result<(), Fault> {
        self.written = self.written.saturating_add(text.len());
        if self.written > MAX_WRITTEN {
            return Err(Fault::Flood);
        }
        *to(self.last()?) = text;
        Ok(())
    }

    pub(crate) fn operation(&mut self, text: String) -> Result<(), Fault> {
        self.text(text, |s| &mut s.operation)
    }

    pub(crate) fn target(&mut self, text: String) -> Result<(), Fault> {
        self.text(text, |s| &mut s.target)
    }

    pub(crate) fn error(&mut self, text: String) -> Result<(), Fault> {
        self.text(text, |s| &mut s.error)
    }

    pub(crate) fn body(&mut self, len: i64) -> Result<(), Fault> {
        self.last()?.body = match u64::try_from(len) {
            Ok(0) => Body::None,
            Ok(n) if len <= MAX_SKIP => Body::Length(n),
            Err(_) if len == -1 => Body::Open,
            _ => return Err(Fault::Lie("it described a body of an impossible length")),
        };
        Ok(())
    }

    pub(crate) fn id(&mut self, id: i64) -> Result<(), Fault> {
        self.last()?.id = Some(id as u64);
        Ok(())
    }

    pub(crate) fn status(&mut self, code: i32) -> Result<(), Fault> {
        self.last()?.status = Some(code);
        Ok(())
    }

    pub(crate) fn outcome(&mut self, outcome: i32) -> Result<(), Fault> {
        self.last()?.outcome = match outcome {
            0 => Outcome::Ok,
            1 => Outcome::ClientError,
            2 => Outcome::ServerError,
            _ => return Err(Fault::Lie("it gave an outcome that there is not")),
        };
        Ok(())
    }

    pub(crate) fn skip(&mut self, len: i64) -> Result<(), Fault> {
        match u64::try_from(len) {
            Ok(n) if len <= MAX_SKIP => self.skip = n,
            _ => return Err(Fault::Lie("it asked to skip an impossible number of bytes")),
        }
        Ok(())
    }

    /// An invalid context is ignored, as in every protocol.
    pub(crate) fn traceparent(&mut self, context: Option<Context>) -> Result<(), Fault> {
        self.last()?.context = context;
        Ok(())
    }

    pub(crate) fn attribute(&mut self, key: &[u8], value: Given) -> Result<(), Fault> {
        let key = self.key(key)?;
        if let Given::Text(text) = &value {
            self.written = self.written.saturating_add(text.len());
        }
        if self.written > MAX_WRITTEN || self.last()?.attrs.len() >= MAX_ATTRS {
            return Err(Fault::Flood);
        }
        self.last()?.attrs.push((key, value));
        Ok(())
    }

    fn key(&mut self, key: &[u8]) -> Result<&'static str, Fault> {
        if let Some(known) = self.keys.iter().find(|k| k.as_bytes() == key) {
            return Ok(known);
        }
        let fits = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_');
        let text = std::str::from_utf8(key).ok().filter(|k| !k.is_empty() && k.len() <= MAX_KEY);
        let Some(text) = text.filter(|k| k.bytes().all(|b| fits(&b))) else {
            return Err(Fault::Lie("an attribute key is 1 to 64 lower-case letters, digits, `.` and `_`"));
        };
        if self.keys.len() >= MAX_KEYS {
            return Err(Fault::Flood);
        }
        let key: &'static str = Box::leak(text.to_owned().into_boxed_str());
        self.keys.push(key);
        Ok(key)
    }

    /// Takes over the keys of the instance before.
    pub(crate) fn inherit(&mut self, before: &mut Description) {
        self.keys = std::mem::take(&mut before.keys);
    }

    /// Bytes to pass behind those that were consumed. The call consumed `consumed` of them; nothing may lie behind.
    pub(crate) fn done(&self, consumed: usize) -> Result<u64, Fault> {
        let nothing = self.messages.is_empty() && self.skip == 0;
        if consumed == 0 && !nothing {
            return Err(Fault::Lie("it described a message and consumed none of its bytes"));
        }
        if self.messages.iter().any(|s| s.offset.saturating_add(s.head_len) > consumed) {
            return Err(Fault::Lie("it described a message behind the bytes that it consumed"));
        }
        Ok(self.skip)
    }

    /// Hands out the described messages; places count from `base`.
    pub(crate) fn tell(&self, protocol: L7, side: Side, base: u64, out: &mut dyn FnMut(Item<'_, '_>)) {
        let place = |n: usize| base.saturating_add(u64::try_from(n).unwrap_or(u64::MAX));
        for described in &self.messages {
            let attrs = described.attrs.iter().map(|(key, value)| match value {
                Given::Text(text) => (*key, AttrVal::from(text.as_str())),
                Given::Int(n) => (*key, AttrVal::Int(*n)),
            });
            let Some(kind) = described.kind else {
                let late = Late {
                    status_code: described.status,
                    outcome: described.outcome,
                    error: Cow::Borrowed(&described.error),
                    attrs: attrs.collect(),
                };
                out(Item::End { side, id: described.id, offset: place(described.offset), late: &late });
                continue;
            };
            let (trace_id, span_id, sampled) = match described.context {
                Some((trace, span, sampled)) => (Some(trace), Some(span), sampled),
                None => (None, None, None),
            };
            out(Item::Message(&Message {
                head_len: u64::try_from(described.head_len).unwrap_or(u64::MAX),
                id: described.id,
                body: described.body,
                operation: &described.operation,
                target: Cow::Borrowed(&described.target),
                status_code: described.status,
                outcome: described.outcome,
                error: Cow::Borrowed(&described.error),
                carried: Carried { trace_id, span_id, sampled, ..Carried::default() },
                attrs: attrs.collect(),
                ..Message::new(protocol, side, kind, place(described.offset))
            }));
        }
    }
}
