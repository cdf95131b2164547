//! Greetings, frames and commands as they stand on the wire.

use crate::framing::Cursor;
use crate::text::len64;

/// Length of a greeting of version 3.
pub(super) const GREETING: usize = 64;
/// Length of a greeting of version 2: signature, revision, socket type.
pub(super) const GREETING_2: usize = 12;
/// Largest frame that is believed.
const MAX_FRAME: u64 = 1 << 40;

/// A greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Greeting<'a> {
    pub(super) major: u8,
    pub(super) minor: u8,
    /// Name of the mechanism; empty before version 3.
    pub(super) mechanism: &'a str,
    /// Socket type, version 2 only.
    pub(super) socket_type: &'static str,
    pub(super) as_server: bool,
}

/// How much of a greeting is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// Not one.
    No,
    /// As far as it goes.
    Perhaps,
    /// One of this length.
    Is(usize),
}

/// Looks at the start of a greeting.
pub(super) fn begun(bytes: &[u8]) -> Begun {
    let mut at = Cursor::new(bytes);
    let (first, length) = (at.u8(), at.rest().get(..8).unwrap_or(at.rest()));
    if first.is_some_and(|b| b != 0xff) {
        return Begun::No;
    }
    // The length of an identity and one, for the sake of version 1: 255 at most.
    let high = length.get(..7).unwrap_or(length);
    if high.iter().any(|b| *b != 0) || bytes.get(9).is_some_and(|b| *b != 0x7f) {
        return Begun::No;
    }
    match bytes.get(10) {
        None => Begun::Perhaps,
        Some(1 | 2) => Begun::Is(GREETING_2),
        Some(3..=9) => Begun::Is(GREETING),
        Some(_) => Begun::No,
    }
}

/// Names of socket types in version 2.
const TYPES_2: [&str; 11] = ["PAIR", "PUB", "SUB", "REQ", "REP", "DEALER", "ROUTER", "PULL", "PUSH", "XPUB", "XSUB"];

/// Reads a whole greeting.
pub(super) fn greeting(bytes: &[u8]) -> Option<Greeting<'_>> {
    let mut at = Cursor::new(bytes);
    at.take(10)?;
    let major = at.u8()?;
    let second = at.u8()?;
    if major < 3 {
        let socket_type = TYPES_2.get(usize::from(second))?;
        return Some(Greeting { major: 2, minor: 0, mechanism: "", socket_type, as_server: false });
    }
    let mechanism = at.take(20)?;
    let end = mechanism.iter().position(|b| *b == 0).unwrap_or(20);
    let (name, padding) = mechanism.split_at_checked(end)?;
    let ok = !name.is_empty()
        && name.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b"-_.+".contains(b))
        && padding.iter().all(|b| *b == 0);
    ok.then_some(())?;
    let as_server = at.u8()? == 1;
    Some(Greeting { major, minor: second, mechanism: std::str::from_utf8(name).ok()?, socket_type: "", as_server })
}

/// The head of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) more: bool,
    pub(super) command: bool,
    /// Length of the head: 2 or 9.
    pub(super) len: usize,
    pub(super) body: u64,
}

impl Head {
    pub(super) fn total(self) -> u64 {
        len64(self.len).saturating_add(self.body)
    }
}

/// Reads the head of a frame; `Err(true)` asks for more bytes.
pub(super) fn head(bytes: &[u8]) -> Result<Head, bool> {
    let mut at = Cursor::new(bytes);
    let flags = at.u8().ok_or(true)?;
    // A command is one frame.
    if flags > 7 || flags & 5 == 5 {
        return Err(false);
    }
    let long = flags & 2 != 0;
    let body = if long { at.u64() } else { at.u8().map(u64::from) }.ok_or(true)?;
    if body > MAX_FRAME {
        return Err(false);
    }
    Ok(Head { more: flags & 1 != 0, command: flags & 4 != 0, len: if long { 9 } else { 2 }, body })
}

/// Name and arguments of a command.
pub(super) fn command(body: &[u8]) -> Option<(&[u8], &[u8])> {
    // libzmq 4.0 to 4.3 writes this for the ERROR of PLAIN: the escape in its source takes the letter for a digit.
    if let Some(rest) = body.strip_prefix(b"\x5eRROR") {
        return Some((b"ERROR", rest));
    }
    let mut at = Cursor::new(body);
    let name = at.bytes8()?;
    (!name.is_empty() && name.iter().all(u8::is_ascii_alphabetic)).then(|| (name, at.rest()))
}

/// The socket type in the metadata of READY or INITIATE.
pub(super) fn socket_type(metadata: &[u8]) -> Option<&'static str> {
    const TYPES: [&str; 17] = [
        "REQ", "REP", "DEALER", "ROUTER", "PUB", "XPUB", "SUB", "XSUB", "PUSH", "PULL", "PAIR", "CLIENT", "SERVER",
        "RADIO", "DISH", "GATHER", "SCATTER",
    ];
    let mut at = Cursor::new(metadata);
    for _ in 0..32 {
        let (name, value) = (at.bytes8()?, at.bytes32()?);
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            return TYPES.into_iter().find(|t| t.as_bytes() == value);
        }
    }
    None
}
