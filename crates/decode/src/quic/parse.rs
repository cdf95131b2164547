//! Datagrams → one request and one response.

use super::keys::{self, Keys, Version};
use super::packet::{frames, long, Frame, Kind as Packet, Long};
use super::pieces::{messages, Pieces};
use super::reason;
use crate::framing::{Out, PerSide};
use crate::text::len64;
use crate::tls::{ciphers, hello};
use crate::Parser;
use std::borrow::Cow;
use wirespan_model::key::hash64;
use wirespan_model::{AttrVal, Chunk, Item, Kind, Message, Outcome, Side};

/// Most packets of one datagram that are read.
const MAX_PACKETS: usize = 8;
/// Types of handshake messages.
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;

/// Parser of the datagrams between two ends. They may carry several connections, mostly one after another.
#[derive(Debug, Default)]
pub struct QuicParser {
    /// Offset of the next datagram, by side.
    offsets: PerSide<u64>,
    pieces: PerSide<Pieces>,
    /// Keys of client and server, and the version that they are for.
    keys: Option<(u32, [Keys; 2])>,
    /// The connection id that the keys follow from.
    id: Vec<u8>,
    /// The one that the client chose first: that of a hello that comes late.
    first_id: Vec<u8>,
    /// Where the first datagram of the hello that is not complete, or not answered, begins.
    began: Option<u64>,
    /// A request waits for its answer.
    waits: bool,
    /// Names the handshake at both ends, whatever their addresses are: made of the client's random and version.
    name: u64,
    /// The server let the client prove its address first.
    retried: bool,
    /// The handshake was answered.
    over: bool,
}

/// Where a datagram lies.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: u64,
    len: u64,
}

/// What the packets of one datagram said.
#[derive(Debug, Default)]
struct Said {
    /// The beginning of the handshake was in it.
    start: bool,
    /// Its keys are new.
    fresh: bool,
    close: Option<u64>,
    /// A packet that only a handshake under way has.
    goes_on: bool,
    refused: bool,
}

impl Parser for QuicParser {
    fn feed(&mut self, chunk: Chunk<'_>, out: &mut dyn FnMut(Item<'_, '_>)) {
        let len = len64(chunk.bytes.len()).saturating_add(chunk.missing);
        let offset = self.offsets.of(chunk.side);
        let place = Place { offset: *offset, len };
        *offset = offset.saturating_add(len);
        if chunk.bytes.is_empty() {
            return;
        }
        if chunk.side == Side::Client && self.is_another(chunk.bytes) {
            self.restart();
        }
        if self.over {
            return;
        }
        let said = self.datagram(chunk.side, chunk.bytes, chunk.missing > 0);
        match chunk.side {
            Side::Client => self.asks(&said, place, out),
            Side::Server => self.answers(&said, place, out),
        }
        if chunk.missing > 0 && !self.waits && !self.over {
            out(Item::Malformed { side: chunk.side, reason: reason::CUT });
        }
    }

    fn finish(&mut self, out: &mut dyn FnMut(Item<'_, '_>)) {
        // A hello whose rest did not come.
        if let Some(began) = self.began.filter(|_| !self.waits && !self.over) {
            let bytes = self.pieces.client.joined();
            if let [CLIENT_HELLO, _, _, _, body @ ..] = bytes.as_slice() {
                let len = self.offsets.client.saturating_sub(began);
                self.request(body, Place { offset: began, len }, out);
            }
        }
        self.pieces = PerSide::default();
    }

    fn buffered(&self) -> usize {
        self.pieces.client.bytes().saturating_add(self.pieces.server.bytes())
    }
}

/// Whether a client begins a connection with this datagram.
pub(super) fn opens(datagram: &[u8]) -> bool {
    let Some(packet) = long(datagram).filter(|p| p.kind == Packet::Initial && p.to.len() >= 8) else { return false };
    let cut = packet.total() > datagram.len();
    let sound = |text: &[u8]| {
        let mut crypto = false;
        frames(text, cut, &mut |frame| crypto |= matches!(frame, Frame::Crypto { .. })) && crypto
    };
    let keys = Version::of(packet.version).iter().filter_map(|v| keys::initial(v, packet.to));
    let mut texts = keys.filter_map(|[client, _]| client.open(datagram, packet.number, packet.len));
    texts.any(|text| sound(&text))
}

impl QuicParser {
    /// Whether a client's datagram begins another connection than the one that is known.
    fn is_another(&self, datagram: &[u8]) -> bool {
        // Behind a Retry or a refused version, the client goes on under another id.
        let begun = self.over || (self.waits && !self.retried);
        let known = |to: &[u8]| to == self.first_id || to == self.id;
        begun && long(datagram).is_some_and(|p| p.kind == Packet::Initial && !known(p.to)) && opens(datagram)
    }

    fn restart(&mut self) {
        let offsets = std::mem::take(&mut self.offsets);
        *self = QuicParser { offsets, ..QuicParser::default() };
    }

    fn datagram(&mut self, side: Side, bytes: &[u8], cut: bool) -> Said {
        let mut said = Said::default();
        let mut rest = bytes;
        for _ in 0..MAX_PACKETS {
            let Some(packet) = long(rest) else {
                said.goes_on |= rest.first().is_some_and(|b| b & 0xc0 == 0x40);
                break;
            };
            match packet.kind {
                Packet::Initial => {
                    let cut = cut && packet.total() > rest.len();
                    self.initial(side, rest, &packet, cut, &mut said);
                }
                Packet::Handshake => said.goes_on = true,
                Packet::Retry => self.retried |= side == Side::Server,
                Packet::Negotiation => said.refused |= side == Side::Server,
                Packet::Early => {}
            }
            rest = rest.get(packet.total()..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
        }
        said
    }

    fn initial(&mut self, side: Side, bytes: &[u8], packet: &Long<'_>, cut: bool, said: &mut Said) {
        if let Some((version, keys)) = self.keys.take_if(|(version, _)| *version == packet.version) {
            let read = self.read(side, bytes, packet, &keys, cut, said);
            self.keys = Some((version, keys));
            if read {
                return;
            }
        }
        // The first packet of a client, or the first behind a Retry or a refused version: its keys follow from the id
        // that it is sent to. A server may answer in another version (RFC 9368) and keeps that id.
        let id = if side == Side::Client { packet.to } else { self.id.as_slice() };
        let id = id.to_vec();
        for keys in Version::of(packet.version).iter().filter_map(|v| keys::initial(v, &id)) {
            if self.read(side, bytes, packet, &keys, cut, said) {
                self.keys = Some((packet.version, keys));
                said.fresh |= side == Side::Client;
                if self.first_id.is_empty() {
                    self.first_id.clone_from(&id);
                }
                self.id = id;
                return;
            }
        }
    }

    fn read(
        &mut self,
        side: Side,
        bytes: &[u8],
        packet: &Long<'_>,
        keys: &[Keys; 2],
        cut: bool,
        said: &mut Said,
    ) -> bool {
        let [client, server] = keys;
        let keys = if side == Side::Client { client } else { server };
        let Some(text) = keys.open(bytes, packet.number, packet.len) else { return false };
        let (mut found, mut close) = (Vec::new(), None);
        let sound = frames(&text, cut, &mut |frame| match frame {
            Frame::Crypto { offset, data } => found.push((offset, data)),
            Frame::Close(code) => close = Some(code),
        });
        if !sound {
            return false;
        }
        said.close = said.close.or(close);
        for (offset, data) in found {
            said.start |= offset == 0;
            self.pieces.of(side).add(offset, data);
        }
        true
    }

    fn asks(&mut self, said: &Said, place: Place, out: Out<'_>) {
        if said.start && self.began.is_none() {
            self.began = Some(place.offset);
        }
        let sent_again = said.start && !said.fresh;
        if self.waits && !sent_again {
            return;
        }
        let bytes = self.pieces.client.joined();
        let Some((CLIENT_HELLO, body)) = messages(&bytes).next() else { return };
        // One that is sent again is shown again: the joiner counts it.
        let began = if self.waits { place.offset } else { self.began.unwrap_or(place.offset) };
        let len = place.offset.saturating_add(place.len).saturating_sub(began);
        self.request(body, Place { offset: began, len }, out);
    }

    fn request(&mut self, body: &[u8], place: Place, out: Out<'_>) {
        let Some(hello) = hello::client(body) else {
            return out(Item::Malformed { side: Side::Client, reason: reason::BAD_HELLO });
        };
        self.waits = true;
        let version = self.keys.as_ref().map_or(0, |(version, _)| *version);
        self.name = hash64(&[hello.random, &version.to_be_bytes()]);
        let mut m = Message::new("quic", Side::Client, Kind::Request, place.offset);
        m.head_len = place.len;
        m.id = Some(self.name);
        m.operation = "handshake";
        hello.tell(&mut m);
        if let Some((version, _)) = &self.keys {
            m.attrs.push(("wirespan.quic.version", AttrVal::Str(name(*version))));
        }
        out(Item::Message(&m));
    }

    fn answers(&mut self, said: &Said, place: Place, out: Out<'_>) {
        if !self.waits {
            return;
        }
        let mut m = Message::new("quic", Side::Server, Kind::Response, place.offset);
        m.head_len = place.len;
        m.id = Some(self.name);
        m.outcome = Outcome::Ok;
        let bytes = self.pieces.server.joined();
        let hellos = messages(&bytes).filter(|(kind, _)| *kind == SERVER_HELLO);
        let hello = hellos.filter_map(|(_, body)| hello::server(body)).find(|hello| !hello.retry);
        if let Some(hello) = &hello {
            if let Some((_, version)) = ciphers::version(hello.version) {
                m.attrs.push(("tls.protocol.version", AttrVal::from(version)));
            }
            if let Some(name) = ciphers::suite(hello.cipher) {
                m.attrs.push(("tls.cipher", AttrVal::from(name)));
            }
            if let Some(name) = hello.group.and_then(ciphers::group) {
                m.attrs.push(("tls.curve", AttrVal::from(name)));
            }
        }
        if said.refused {
            (m.outcome, m.error) = (Outcome::ClientError, Cow::Borrowed("version_negotiation"));
        } else if let Some(code) = said.close {
            (m.outcome, m.error) = closed(code);
        } else if hello.is_none() && !said.goes_on {
            return;
        }
        if !m.error.is_empty() {
            m.attrs.push(("error.type", AttrVal::Str(m.error.clone())));
        }
        if let Some((version, _)) = &self.keys {
            m.attrs.push(("wirespan.quic.version", AttrVal::Str(name(*version))));
        }
        if self.retried {
            m.attrs.push(("wirespan.quic.retry", AttrVal::Bool(true)));
        }
        out(Item::Message(&m));
        (self.waits, self.began) = (false, None);
        self.pieces.client.clear();
        self.pieces.server.clear();
        if said.refused {
            // The client may try another version.
            self.keys = None;
        } else {
            self.over = true;
        }
    }
}

/// Whose fault the end of a connection is, and its name (RFC 9000, section 20.1; from 0x100 on an alert of TLS).
fn closed(code: u64) -> (Outcome, Cow<'static, str>) {
    let name = match code {
        0 => return (Outcome::Ok, Cow::Borrowed("")),
        1 => "internal_error",
        2 => "connection_refused",
        8 => "transport_parameter_error",
        10 => "protocol_violation",
        11 => "invalid_token",
        0x100..=0x1ff => ciphers::alert(u8::try_from(code & 0xff).unwrap_or_default()),
        _ => "_OTHER",
    };
    let server = matches!(name, "internal_error" | "connection_refused");
    (if server { Outcome::ServerError } else { Outcome::ClientError }, Cow::Borrowed(name))
}

/// The name of a version.
fn name(version: u32) -> Cow<'static, str> {
    match version {
        1 => Cow::Borrowed("1"),
        0x6b33_43cf => Cow::Borrowed("2"),
        0xff00_0000..=0xff00_00ff => Cow::Owned(format!("draft-{}", version & 0xff)),
        _ => Cow::Owned(format!("0x{version:08x}")),
    }
}
