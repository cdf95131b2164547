//! Headers, in text and in binary.

use super::reason;
use crate::framing::units::{Reader, Step, Unit};
use crate::framing::Out;
use crate::text::{decimal, len64};
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wirespan_model::{Attr, AttrVal, Item, Kind, Message, Outcome, Side, Value};

/// Longest header of version 1, its line end included.
const MAX_LINE: usize = 107;
/// What starts a header of version 2.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Longest header of version 2 that is read; longer ones are legal and never seen.
const MAX_BINARY: usize = 4096;
/// Type of the extension that holds the name that the client asked for.
const AUTHORITY: u8 = 2;

/// Why there is no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    More,
    Bad,
}

/// A header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header<'a> {
    pub(super) version: u8,
    /// The proxy speaks for itself.
    pub(super) local: bool,
    pub(super) source: Option<(IpAddr, u16)>,
    pub(super) destination: Option<(IpAddr, u16)>,
    pub(super) authority: Option<&'a str>,
    pub(super) len: usize,
}

/// Reads a header from the first byte of a connection on.
pub(super) fn header(bytes: &[u8]) -> Result<Header<'_>, Stop> {
    let starts = |with: &[u8]| bytes.len() >= with.len() && bytes.starts_with(with);
    let may_start = |with: &[u8]| with.starts_with(bytes);
    if starts(b"PROXY ") {
        line(bytes)
    } else if starts(SIGNATURE) {
        binary(bytes)
    } else if may_start(b"PROXY ") || may_start(SIGNATURE) {
        Err(Stop::More)
    } else {
        Err(Stop::Bad)
    }
}

fn line(bytes: &[u8]) -> Result<Header<'_>, Stop> {
    let window = bytes.get(..MAX_LINE).unwrap_or(bytes);
    let Some(end) = memchr::memchr(b'\n', window) else {
        return Err(if window.len() < MAX_LINE { Stop::More } else { Stop::Bad });
    };
    let line = window.get(..end).and_then(|l| l.strip_suffix(b"\r")).ok_or(Stop::Bad)?;
    let text = std::str::from_utf8(line).map_err(|_| Stop::Bad)?;
    let mut words = text.split(' ').skip(1);
    let mut header = Header { version: 1, len: end.saturating_add(1), ..Header::default() };
    let family = words.next().ok_or(Stop::Bad)?;
    if family == "UNKNOWN" {
        return Ok(header);
    }
    let mut address = || words.next().and_then(|w| w.parse::<IpAddr>().ok()).ok_or(Stop::Bad);
    let (source, destination) = (address()?, address()?);
    let mut port =
        || words.next().and_then(|w| decimal(w.as_bytes())).and_then(|n| u16::try_from(n).ok()).ok_or(Stop::Bad);
    header.source = Some((source, port()?));
    header.destination = Some((destination, port()?));
    let fits = match family {
        "TCP4" => source.is_ipv4() && destination.is_ipv4(),
        "TCP6" => source.is_ipv6() && destination.is_ipv6(),
        _ => false,
    };
    (fits && words.next().is_none()).then_some(header).ok_or(Stop::Bad)
}

fn binary(bytes: &[u8]) -> Result<Header<'_>, Stop> {
    let [command, family, a, b] = *bytes.get(12..16).and_then(|b| b.first_chunk()).ok_or(Stop::More)?;
    let len = usize::from(u16::from_be_bytes([a, b]));
    let total = len.saturating_add(16);
    if !matches!(command, 0x20 | 0x21) || total > MAX_BINARY || family & 0x0f > 2 || family >> 4 > 3 {
        return Err(Stop::Bad);
    }
    let body = bytes.get(16..total).ok_or(Stop::More)?;
    let mut header = Header { version: 2, local: command == 0x20, len: total, ..Header::default() };
    let port = |at: usize| body.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b));
    let extensions = match family >> 4 {
        1 => {
            let ip = |at: usize| body.get(at..)?.first_chunk::<4>().map(|b| IpAddr::V4(Ipv4Addr::from(*b)));
            (header.source, header.destination) = (ip(0).zip(port(8)), ip(4).zip(port(10)));
            12
        }
        2 => {
            let ip = |at: usize| body.get(at..)?.first_chunk::<16>().map(|b| IpAddr::V6(Ipv6Addr::from(*b)));
            (header.source, header.destination) = (ip(0).zip(port(32)), ip(16).zip(port(34)));
            36
        }
        3 => 216,
        _ => 0,
    };
    if family >> 4 != 0 && !header.local && body.len() < extensions {
        return Err(Stop::Bad);
    }
    header.authority = authority(body.get(extensions..).unwrap_or_default());
    if header.local {
        (header.source, header.destination) = (None, None);
    }
    Ok(header)
}

fn authority(mut rest: &[u8]) -> Option<&str> {
    loop {
        let [kind, a, b, behind @ ..] = rest else { return None };
        let (value, next) = behind.split_at_checked(usize::from(u16::from_be_bytes([*a, *b])))?;
        if *kind == AUTHORITY {
            return crate::text::visible(value, 255);
        }
        rest = next;
    }
}

/// Reads the one header.
#[derive(Debug, Default)]
pub(super) struct Headers {
    over: bool,
    attrs: Vec<Attr>,
}

impl Reader for Headers {
    const MAX_HEAD: usize = MAX_BINARY;
    const GAP: &'static str = reason::GAP;
    const BAD: &'static str = reason::BAD_HEADER;

    fn read(&mut self, unit: Unit<'_>, out: Out<'_>) -> Step {
        if unit.side == Side::Server || unit.lost {
            return Step::Bad;
        }
        let header = match header(unit.bytes) {
            Ok(header) => header,
            Err(Stop::More) => return Step::More,
            Err(Stop::Bad) => return Step::Bad,
        };
        let mut m = Message::new("proxy", Side::Client, Kind::OneWay, unit.offset);
        m.head_len = len64(header.len);
        m.outcome = Outcome::Ok;
        m.operation = if header.local { "LOCAL" } else { "PROXY" };
        m.attrs.push(("network.protocol.version", AttrVal::from(if header.version == 1 { "1" } else { "2" })));
        if let Some((ip, port)) = header.source {
            self.attrs.push((Cow::Borrowed("client.address"), Value::from(ip.to_string())));
            self.attrs.push((Cow::Borrowed("client.port"), Value::Int(i64::from(port))));
            m.attrs.push(("client.address", AttrVal::Str(Cow::Owned(ip.to_string()))));
            m.attrs.push(("client.port", AttrVal::Int(i64::from(port))));
        }
        if let Some((ip, port)) = header.destination {
            m.target = Cow::Owned(std::net::SocketAddr::new(ip, port).to_string());
        }
        if let Some(name) = header.authority {
            m.attrs.push(("server.address", AttrVal::from(name)));
        }
        out(Item::Message(&m));
        out(Item::Upgrade(""));
        self.over = true;
        Step::Took { head: header.len, skip: 0 }
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn handover(&mut self) -> Vec<Attr> {
        std::mem::take(&mut self.attrs)
    }
}
