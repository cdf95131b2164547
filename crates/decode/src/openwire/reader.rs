//! Commands → messages.

use super::commands::{self, command, is_message, is_response};
use super::fields::{self, Destination, Kept, Named};
use super::marshal::{map, Format, Values};
use crate::framing::frames::{Frame, Frames, Measure, Reader};
use crate::framing::{Cursor, Out};
use crate::text::{clean, len64, visible};
use std::borrow::Cow;
use std::collections::HashMap;
use wirespan_model::{AttrVal, Body, Item, Kind, Message, Outcome, Side};

/// Most bytes of a command that are looked at.
const WANT: u64 = 4096;
/// Longest command that is believed (the broker's default limit is 100 MB).
const MAX_COMMAND: u64 = 256 << 20;
/// Destinations remembered per side by their numbers.
const MAX_CACHED: usize = 256;
/// Longest name that is kept, bytes.
const MAX_NAME: usize = 256;
pub(super) const MAGIC: &[u8] = b"ActiveMQ";

/// Parser of one connection.
pub(super) type OpenWireParser = Frames<Session>;

/// What an end says that it can.
#[derive(Clone, Copy, Debug, Default)]
struct Wire {
    version: u32,
    tight: bool,
    cache: bool,
    no_size: bool,
}

#[derive(Debug, Default)]
pub(super) struct Session {
    client: Option<Wire>,
    server: Option<Wire>,
    /// Learnt from a response.
    learnt_tight: Option<bool>,
    cached: [HashMap<u16, (u8, Box<str>)>; 2],
    over: bool,
}

impl Reader for Session {
    const BAD: &'static str = "openwire_bad_command";
    const GAP: &'static str = "openwire_gap";

    fn measure(&mut self, side: Side, bytes: &[u8], lost: bool) -> Measure {
        let mut at = Cursor::new(bytes);
        let (Some(size), Some(kind)) = (at.u32(), at.u8()) else { return Measure::More };
        let known = command(kind).is_some_and(|(_, from)| from.is_none_or(|s| s == side));
        let size = u64::from(size);
        // Every command has an id and a flag; the wire format has its magic.
        if !known || !(6..=MAX_COMMAND).contains(&size) {
            return Measure::Bad;
        }
        let magic = at.rest().get(..MAGIC.len());
        if kind == commands::WIRE_FORMAT_INFO && magic.is_some_and(|m| m != MAGIC) {
            return Measure::Bad;
        }
        if lost && !plausible(bytes, size) {
            return Measure::Bad;
        }
        let len = size.saturating_add(4);
        Measure::Frame { len, want: len.min(WANT) }
    }

    fn frame(&mut self, frame: Frame<'_>, out: Out<'_>) {
        let mut at = Cursor::new(frame.bytes);
        let (Some(size), Some(kind)) = (at.u32(), at.u8()) else { return };
        let Some((name, _)) = command(kind) else { return };
        let body = at.rest();
        let mut m = Message::new("openwire", frame.side, Kind::OneWay, frame.offset);
        m.operation = name;
        m.head_len = len64(frame.bytes.len()).min(frame.len);
        let left = frame.len.saturating_sub(m.head_len);
        m.body = if left == 0 { Body::None } else { Body::Length(left) };
        m.attrs.push(("messaging.system.name", "activemq".into()));
        if kind == commands::WIRE_FORMAT_INFO {
            self.wire_format(body, &mut m);
            return out(Item::Message(&m));
        }
        // A response has nothing but an id and a correlation id, so that its length tells the encoding.
        if kind == commands::RESPONSE && self.client.is_none() {
            match size {
                10 => self.learnt_tight = Some(false),
                11 => self.learnt_tight = Some(true),
                _ => {}
            }
        }
        let version = self.version();
        let format = self.format();
        let mut kept = Kept::default();
        let mut values = format.and_then(|f| Values::new(body, f));
        let (mut id, mut asks, mut answers) = (None, false, None);
        if let Some(v) = &mut values {
            id = v.u32();
            asks = v.bool().unwrap_or(false);
            if is_response(kind) {
                answers = v.u32();
            }
            if let Some(version) = version {
                // A cut ends the reading.
                let _ = fields::read(kind, v, version, &mut kept);
            }
        }
        if let Some(id) = answers {
            (m.kind, m.id, m.outcome) = (Kind::Response, Some(u64::from(id)), Outcome::Ok);
        } else if let Some(id) = id.filter(|_| asks) {
            (m.kind, m.id) = (Kind::Request, Some(u64::from(id)));
        }
        self.describe(kind, &kept, &mut m);
        out(Item::Message(&m));
    }

    fn lost(&mut self, side: Side, _out: Out<'_>) {
        // Numbers may have been given anew unseen.
        let [client, server] = &mut self.cached;
        if side == Side::Client { client } else { server }.clear();
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

/// Whether a command can be told by its first bytes: its id, in one encoding or the other, is a small number.
pub(super) fn plausible(bytes: &[u8], size: u64) -> bool {
    let body = bytes.get(5..).unwrap_or_default();
    let small = |at: usize| match body.get(at..at.saturating_add(2)) {
        Some(high) => high == [0, 0],
        None => false,
    };
    // Loose: the id itself. Tight: the size of the bits, as many bytes, then the id.
    let tight = body.first().is_some_and(|n| *n > 0 && *n < 32 && small(usize::from(*n).saturating_add(1)));
    size < MAX_COMMAND && (small(0) || tight)
}

impl Session {
    fn version(&self) -> Option<u32> {
        Some(self.client?.version.min(self.server?.version))
    }

    fn format(&self) -> Option<Format> {
        match (self.client, self.server) {
            (Some(a), Some(b)) => Some(Format { tight: a.tight && b.tight, cache: Some(a.cache && b.cache) }),
            _ => self.learnt_tight.map(|tight| Format { tight, cache: None }),
        }
    }

    fn wire_format(&mut self, body: &[u8], m: &mut Message<'_>) {
        let mut at = Cursor::new(body);
        let mut wire = Wire::default();
        let properties = (|| {
            at.take(MAGIC.len())?;
            wire.version = at.u32()?;
            at.u8()?;
            at.bytes32()
        })();
        // Cut off or not at all there: nothing is known of this connection's encoding.
        let read = properties.and_then(|p| {
            map(p, |name, kind, value| {
                let yes = kind == 1 && value == [1];
                match name {
                    b"TightEncodingEnabled" => wire.tight = yes,
                    b"CacheEnabled" => wire.cache = yes,
                    b"SizePrefixDisabled" => wire.no_size = yes,
                    _ => {}
                }
            })
        });
        m.attrs.push(("wirespan.openwire.version", i64::from(wire.version).into()));
        if read.is_some() {
            *(if m.side == Side::Client { &mut self.client } else { &mut self.server }) = Some(wire);
        }
        self.over = self.client.is_some_and(|w| w.no_size) && self.server.is_some_and(|w| w.no_size);
    }

    /// The destination's type and name, if they are known.
    fn resolve<'a>(&mut self, side: Side, named: Named<'a>) -> Option<(u8, Cow<'a, str>)> {
        let [client, server] = &mut self.cached;
        let cached = if side == Side::Client { client } else { server };
        match named {
            Named::Nothing => None,
            Named::Here(number, Destination { kind, name }) => {
                let name = clean(name, MAX_NAME);
                if let Some(number) = number {
                    if cached.len() < MAX_CACHED || cached.contains_key(&number) {
                        cached.insert(number, (kind, name.as_ref().into()));
                    }
                }
                Some((kind, name))
            }
            Named::Number(number) => {
                let (kind, name) = cached.get(&number)?;
                Some((*kind, Cow::Owned(name.to_string())))
            }
        }
    }

    fn describe<'a>(&mut self, kind: u8, kept: &Kept<'a>, m: &mut Message<'a>) {
        let client = m.side == Side::Client;
        let operation = match kind {
            k if is_message(k) && client => Some(("send", "publish")),
            k if is_message(k) => Some(("process", "deliver")),
            commands::MESSAGE_DISPATCH => Some(("process", "deliver")),
            commands::MESSAGE_ACK => Some(("settle", "ack")),
            commands::MESSAGE_PULL => Some(("receive", "pull")),
            _ => None,
        };
        if let Some((operation, name)) = operation {
            m.attrs.push(("messaging.operation.type", operation.into()));
            m.attrs.push(("messaging.operation.name", name.into()));
        }
        if let Some((kind, name)) = kept.destination.and_then(|d| self.resolve(m.side, d)) {
            m.attrs.push(("messaging.destination.name", AttrVal::Str(name.clone())));
            let of = if matches!(kind, 100 | 102) { "queue" } else { "topic" };
            m.attrs.push(("wirespan.openwire.destination_type", of.into()));
            if kind > 101 {
                m.attrs.push(("messaging.destination.temporary", true.into()));
            }
            m.target = name;
        }
        if !kept.client_id.is_empty() {
            m.attrs.push(("messaging.client.id", AttrVal::Str(clean(kept.client_id, 128))));
        }
        if let Some((by, sequence)) = kept.message_id {
            let connection = clean(by.connection, 128);
            let id = format!("{connection}:{}:{}:{sequence}", by.session, by.value);
            m.attrs.push(("messaging.message.id", AttrVal::Str(Cow::Owned(id))));
        }
        if let Some(id) = visible(kept.correlation_id, 128) {
            m.attrs.push(("messaging.message.conversation_id", id.into()));
        }
        if let Some(size) = kept.body_size {
            m.attrs.push(("messaging.message.body.size", i64::try_from(size).unwrap_or(i64::MAX).into()));
        }
        if let Some(n) = kept.redeliveries.filter(|n| *n > 0) {
            m.attrs.push(("wirespan.openwire.redeliveries", i64::from(n).into()));
        }
        m.carried = kept.context.finish();
        if matches!(kind, commands::EXCEPTION_RESPONSE | commands::CONNECTION_ERROR) {
            let class = visible(kept.exception, MAX_NAME).unwrap_or("exception");
            let asker =
                ["SecurityException", "InvalidDestination", "InvalidClientID", "InvalidSelector", "JMSSecurity"];
            m.outcome =
                if asker.iter().any(|c| class.contains(c)) { Outcome::ClientError } else { Outcome::ServerError };
            m.error = Cow::Borrowed(class);
        }
    }
}
