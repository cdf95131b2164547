//! The steps of a handshake.

use super::reason;
use crate::framing::units::{Reader, Step, Unit};
use crate::framing::Out;
use crate::text::{clean, len64};
use crate::Detect;
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wirespan_model::{Attr, AttrVal, Item, Kind, Message, Outcome, Side, Value};

/// Longest step: a password, or SOCKS 4a with a user id and a name.
const MAX_STEP: usize = 600;
/// No method is acceptable.
const NO_METHOD: u8 = 0xff;

/// The next step of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expect {
    #[default]
    Method,
    AuthStatus,
    Reply,
    Reply4,
}

/// Reads the steps.
#[derive(Debug, Default)]
pub(super) struct Steps {
    greeted: bool,
    expect: Expect,
    /// `host:port` of the request.
    target: String,
    /// Its operation.
    operation: &'static str,
    over: bool,
}

enum Stop {
    More,
    Bad,
}

fn byte(bytes: &[u8], at: usize) -> Result<u8, Stop> {
    bytes.get(at).copied().ok_or(Stop::More)
}

fn port(bytes: &[u8], at: usize) -> Result<u16, Stop> {
    let two = bytes.get(at..).and_then(|b| b.first_chunk::<2>()).ok_or(Stop::More)?;
    Ok(u16::from_be_bytes(*two))
}

/// An address of SOCKS 5 and the port behind it, and their end.
fn address5(bytes: &[u8], at: usize) -> Result<(Cow<'_, str>, u16, usize), Stop> {
    let rest = |n: usize| bytes.get(at.saturating_add(n)..).unwrap_or_default();
    let (host, end) = match byte(bytes, at)? {
        1 => {
            let ip = rest(1).first_chunk::<4>().ok_or(Stop::More)?;
            (Cow::Owned(IpAddr::V4(Ipv4Addr::from(*ip)).to_string()), at.saturating_add(5))
        }
        4 => {
            let ip = rest(1).first_chunk::<16>().ok_or(Stop::More)?;
            (Cow::Owned(format!("[{}]", Ipv6Addr::from(*ip))), at.saturating_add(17))
        }
        3 => {
            let len = usize::from(byte(bytes, at.saturating_add(1))?);
            let name = rest(2).get(..len).ok_or(Stop::More)?;
            (clean(name, 255), at.saturating_add(2).saturating_add(len))
        }
        _ => return Err(Stop::Bad),
    };
    Ok((host, port(bytes, end)?, end.saturating_add(2)))
}

/// A string up to its NUL; returns its end behind that.
fn string(bytes: &[u8], at: usize) -> Result<(&[u8], usize), Stop> {
    let rest = bytes.get(at..).unwrap_or_default();
    let window = rest.get(..256).unwrap_or(rest);
    match memchr::memchr(0, window) {
        Some(n) => Ok((window.get(..n).unwrap_or_default(), at.saturating_add(n).saturating_add(1))),
        None if window.len() < 256 => Err(Stop::More),
        None => Err(Stop::Bad),
    }
}

fn command(code: u8) -> Result<&'static str, Stop> {
    match code {
        1 => Ok("CONNECT"),
        2 => Ok("BIND"),
        3 => Ok("UDP ASSOCIATE"),
        _ => Err(Stop::Bad),
    }
}

/// Operation and length of a step of the client.
fn client_step(steps: &mut Steps, bytes: &[u8]) -> Result<(&'static str, usize), Stop> {
    match (byte(bytes, 0)?, steps.greeted) {
        (5, false) => {
            let len = usize::from(byte(bytes, 1)?).saturating_add(2);
            byte(bytes, len.saturating_sub(1))?;
            steps.greeted = true;
            Ok(("NEGOTIATE", len))
        }
        (1, true) => {
            let user = usize::from(byte(bytes, 1)?);
            let password = usize::from(byte(bytes, user.saturating_add(2))?);
            let len = user.saturating_add(password).saturating_add(3);
            byte(bytes, len.saturating_sub(1))?;
            Ok(("AUTH", len))
        }
        (5, true) => {
            let name = command(byte(bytes, 1)?)?;
            let (host, port, len) = address5(bytes, 3)?;
            steps.target = format!("{host}:{port}");
            steps.operation = name;
            Ok((name, len))
        }
        (4, false) => {
            let name = command(byte(bytes, 1)?)?;
            let port = port(bytes, 2)?;
            let ip = bytes.get(4..).and_then(|b| b.first_chunk::<4>()).ok_or(Stop::More)?;
            let (_, mut len) = string(bytes, 8)?;
            // 4a: an address that cannot be says that a name follows.
            steps.target = if matches!(ip, [0, 0, 0, n] if *n > 0) {
                let (host, end) = string(bytes, len)?;
                len = end;
                format!("{}:{port}", clean(host, 255))
            } else {
                format!("{}:{port}", Ipv4Addr::from(*ip))
            };
            (steps.expect, steps.operation, steps.greeted) = (Expect::Reply4, name, true);
            Ok((name, len))
        }
        _ => Err(Stop::Bad),
    }
}

/// A step of the server: code, its name, its outcome, length, and whether the tunnel begins. A refused client may close
/// before the address behind the code is read (`cut`); that address tells nothing more.
fn server_step(steps: &mut Steps, bytes: &[u8], cut: bool) -> Result<(u8, &'static str, Outcome, usize, bool), Stop> {
    let (first, code) = (byte(bytes, 0)?, byte(bytes, 1)?);
    let whose = |name: &str, client: bool| match (name.is_empty(), client) {
        (true, _) => Outcome::Ok,
        (_, true) => Outcome::ClientError,
        _ => Outcome::ServerError,
    };
    let seen = |end: Result<usize, Stop>| match end {
        Ok(len) => Ok((len, true)),
        Err(Stop::More) if cut => Ok((bytes.len(), false)),
        Err(stop) => Err(stop),
    };
    match (steps.expect, first) {
        (Expect::Method, 5) => {
            steps.expect = if code == 2 { Expect::AuthStatus } else { Expect::Reply };
            let name = if code == NO_METHOD { "no_acceptable_method" } else { "" };
            Ok((code, name, whose(name, true), 2, false))
        }
        (Expect::AuthStatus, 1) => {
            steps.expect = Expect::Reply;
            let name = if code == 0 { "" } else { "authentication_failed" };
            Ok((code, name, whose(name, true), 2, false))
        }
        (Expect::Reply, 5) => {
            let (len, whole) = seen(address5(bytes, 3).map(|(_, _, len)| len))?;
            let name = match code {
                0 => "",
                1 => "general_failure",
                2 => "not_allowed",
                3 => "network_unreachable",
                4 => "host_unreachable",
                5 => "connection_refused",
                6 => "ttl_expired",
                7 => "command_not_supported",
                8 => "address_type_not_supported",
                _ => "_OTHER",
            };
            Ok((code, name, whose(name, matches!(code, 2 | 7 | 8)), len, whole && code == 0))
        }
        (Expect::Reply4, 0) => {
            let (len, whole) = seen(byte(bytes, 7).map(|_| 8))?;
            let name = match code {
                90 => "",
                91 => "rejected",
                92 => "no_identd",
                93 => "identd_mismatch",
                _ => return Err(Stop::Bad),
            };
            Ok((code, name, whose(name, code > 91), len, whole && code == 90))
        }
        _ => Err(Stop::Bad),
    }
}

impl Reader for Steps {
    const MAX_HEAD: usize = MAX_STEP;
    const GAP: &'static str = reason::GAP;
    const BAD: &'static str = reason::BAD_MESSAGE;

    fn read(&mut self, unit: Unit<'_>, out: Out<'_>) -> Step {
        if unit.lost {
            return Step::Bad;
        }
        let stop = |stop| if matches!(stop, Stop::More) { Step::More } else { Step::Bad };
        if unit.side == Side::Client {
            let (operation, len) = match client_step(self, unit.bytes) {
                Ok(read) => read,
                Err(s) => return stop(s),
            };
            let mut m = Message::new("socks", Side::Client, Kind::Request, unit.offset);
            m.head_len = len64(len);
            m.operation = operation;
            let five = self.expect != Expect::Reply4;
            m.attrs.push(("network.protocol.version", AttrVal::from(if five { "5" } else { "4" })));
            if operation == self.operation {
                m.target = Cow::Borrowed(self.target.as_str());
                m.attrs.push(("wirespan.socks.target", AttrVal::from(self.target.as_str())));
            }
            out(Item::Message(&m));
            return Step::Took { head: len, skip: 0 };
        }
        // The second answer to BIND names the end that connected.
        let (code, name, outcome, len, granted) = match server_step(self, unit.bytes, unit.cut) {
            Ok(read) => read,
            Err(s) => return stop(s),
        };
        let mut m = Message::new("socks", Side::Server, Kind::Response, unit.offset);
        m.head_len = len64(len);
        m.status_code = Some(i32::from(code));
        m.outcome = outcome;
        if !name.is_empty() {
            m.error = Cow::Borrowed(name);
            m.attrs.push(("error.type", AttrVal::from(name)));
        }
        out(Item::Message(&m));
        if granted && self.operation == "CONNECT" {
            self.over = true;
            out(Item::Upgrade(""));
        }
        Step::Took { head: len, skip: 0 }
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn handover(&mut self) -> Vec<Attr> {
        vec![(Cow::Borrowed("wirespan.socks.target"), Value::from(std::mem::take(&mut self.target)))]
    }
}

/// See [`Protocol::detect`](crate::Protocol::detect).
pub(super) fn detect(first: &[u8], second: &[u8]) -> Detect {
    let mut steps = Steps::default();
    let (operation, len) = match client_step(&mut steps, first) {
        Ok(read) => read,
        Err(Stop::More) if first.len() < 24 && matches!(first, [4 | 5, 1..=9, ..] | [4 | 5]) && second.is_empty() => {
            return Detect::Maybe;
        }
        Err(_) => return Detect::No,
    };
    let behind = first.get(len..).unwrap_or_default();
    let maybe = if second.is_empty() { Detect::Maybe } else { Detect::No };
    if operation == "NEGOTIATE" {
        let methods = first.get(2..len).unwrap_or_default();
        let known = !methods.is_empty() && methods.iter().all(|m| *m <= 9 || (0x80..0xff).contains(m));
        let fits = |m: &u8| methods.contains(m) || *m == NO_METHOD;
        return match second {
            _ if !known || !matches!(behind, [] | [1 | 5, ..]) => Detect::No,
            [5, method, rest @ ..] if fits(method) && matches!(rest, [] | [1 | 5, ..]) => {
                Detect::Yes { first_is_client: true }
            }
            [5] => Detect::Maybe,
            _ => maybe,
        };
    }
    match second {
        [0, 90..=93, _, _, _, _, _, _, ..] if matches!(first, [4, 1 | 2, ..]) => Detect::Yes { first_is_client: true },
        _ => maybe,
    }
}
