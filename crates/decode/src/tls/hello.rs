//! The two hellos.

use crate::framing::Cursor;
use crate::text::visible;
use std::borrow::Cow;
use wirespan_model::{AttrVal, Message};

/// The offer of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientHello<'a> {
    pub(crate) server_name: Option<&'a str>,
    /// Application protocols offered, with commas between.
    pub(crate) alpn: String,
    pub(crate) session: &'a [u8],
    pub(crate) random: &'a [u8],
}

impl<'a> ClientHello<'a> {
    /// Adds what the client asks for: the server's name and the protocols.
    pub(crate) fn tell(&'a self, m: &mut Message<'a>) {
        if let Some(name) = self.server_name {
            m.target = Cow::Borrowed(name);
            m.attrs.push(("server.address", AttrVal::from(name)));
        }
        if !self.alpn.is_empty() {
            m.attrs.push(("wirespan.tls.offered_protocols", AttrVal::from(self.alpn.as_str())));
        }
    }
}

/// The choice of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerHello<'a> {
    pub(crate) version: u16,
    pub(crate) cipher: u16,
    pub(crate) alpn: Option<&'a str>,
    pub(crate) group: Option<u16>,
    pub(crate) session: &'a [u8],
    /// A key that both have from before was chosen (1.3).
    pub(crate) psk: bool,
    /// Asks for another hello (1.3).
    pub(crate) retry: bool,
}

/// The random of a hello that asks for another one: SHA-256 of "HelloRetryRequest" (RFC 8446, section 4.1.3).
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11,
    0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// Length of a hello in the form of SSL 2.0 that offers a newer version (RFC 5246, appendix E.2); none if it is no
/// such hello.
///
/// Its head has no fixed bytes but a type and a version, so that all lengths must fit.
pub(crate) fn old_form(bytes: &[u8]) -> Option<usize> {
    let [high @ 0x80..=0xff, low, 1, 3, minor, c0, c1, s0, s1, r0, r1, ..] = *bytes else { return None };
    let total = usize::from(u16::from_be_bytes([high & 0x7f, low]));
    let [ciphers, session, random] = [[c0, c1], [s0, s1], [r0, r1]].map(|b| usize::from(u16::from_be_bytes(b)));
    let sum = ciphers.saturating_add(session).saturating_add(random).saturating_add(9);
    let fits = ciphers > 0 && ciphers.is_multiple_of(3) && session <= 32 && (16..=32).contains(&random);
    (sum == total && fits && minor <= 4).then(|| total.saturating_add(2))
}

/// Each extension's number and content; the last may be cut.
fn extensions(rest: &[u8]) -> impl Iterator<Item = (u16, Cursor<'_>)> {
    let mut at = Cursor::new(rest);
    std::iter::from_fn(move || {
        let kind = at.u16()?;
        let len = usize::from(at.u16()?);
        let content = at.take(len.min(at.rest().len()))?;
        Some((kind, Cursor::new(content)))
    })
}

/// Reads the body of a ClientHello, as far as it goes; none if it cannot be one.
pub(crate) fn client(body: &[u8]) -> Option<ClientHello<'_>> {
    let mut at = Cursor::new(body);
    let version = at.u16()?;
    let random = at.take(32)?;
    let session = at.bytes8()?;
    if version >> 8 != 3 || session.len() > 32 {
        return None;
    }
    let mut hello = ClientHello { session, random, ..ClientHello::default() };
    let ciphers = at.bytes16();
    if ciphers.is_some_and(|c| c.is_empty() || !c.len().is_multiple_of(2)) {
        return None;
    }
    // Behind here anything may be cut off.
    let _ = at.bytes8();
    let _ = at.u16();
    for (kind, mut content) in extensions(at.rest()) {
        match kind {
            0 => hello.server_name = server_name(&mut content),
            16 => {
                let mut names = Cursor::new(content.bytes16().unwrap_or_default());
                while let Some(name) = names.bytes8() {
                    let Some(name) = visible(name, 32).filter(|_| hello.alpn.len() < 64) else { continue };
                    if !hello.alpn.is_empty() {
                        hello.alpn.push(',');
                    }
                    hello.alpn.push_str(name);
                }
            }
            _ => {}
        }
    }
    Some(hello)
}

fn server_name<'a>(content: &mut Cursor<'a>) -> Option<&'a str> {
    let mut names = Cursor::new(content.bytes16()?);
    let kind = names.u8()?;
    visible(names.bytes16()?, 255).filter(|_| kind == 0)
}

/// Reads the body of a ServerHello, as far as it goes; none if it cannot be one.
pub(crate) fn server(body: &[u8]) -> Option<ServerHello<'_>> {
    let mut at = Cursor::new(body);
    let version = at.u16()?;
    let random = at.take(32)?;
    let session = at.bytes8()?;
    if version >> 8 != 3 || session.len() > 32 {
        return None;
    }
    let cipher = at.u16()?;
    at.u8()?;
    let mut hello = ServerHello { version, cipher, session, retry: random == RETRY, ..ServerHello::default() };
    let _ = at.u16();
    for (kind, mut content) in extensions(at.rest()) {
        match kind {
            16 => {
                let mut names = Cursor::new(content.bytes16().unwrap_or_default());
                hello.alpn = names.bytes8().and_then(|n| visible(n, 32));
            }
            41 => hello.psk = true,
            43 => hello.version = content.u16().unwrap_or(version),
            51 => hello.group = content.u16(),
            _ => {}
        }
    }
    Some(hello)
}
