//! gRPC-Web: the trailers come as the last part of the body, behind a length like the messages, in base64 if the
//! content type says `-text`.

use super::grpc;
use wirespan_model::Late;

/// Longest trailers that are read, bytes.
const MAX_TRAILERS: usize = 1024;
/// Flag of the part that holds trailers.
const TRAILERS: u8 = 0x80;

/// Reads the body of a response.
#[derive(Debug)]
pub(super) struct Reader {
    base64: bool,
    /// Digits of base64 that make no octets yet.
    group: [u8; 4],
    digits: usize,
    prefix: [u8; 5],
    have: usize,
    left: u32,
    trailers: Vec<u8>,
    lost: bool,
}

impl Reader {
    pub(super) fn new(base64: bool) -> Self {
        Reader { base64, group: [0; 4], digits: 0, prefix: [0; 5], have: 0, left: 0, trailers: Vec::new(), lost: false }
    }

    /// Bytes were not captured: where the parts begin is not known any more.
    pub(super) fn lose(&mut self) {
        self.lost = true;
    }

    /// Takes the next bytes.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        if !self.base64 {
            self.octets(bytes);
            return;
        }
        for digit in bytes.iter().filter(|b| !b.is_ascii_whitespace()) {
            if let Some(place) = self.group.get_mut(self.digits) {
                *place = *digit;
            }
            self.digits = self.digits.saturating_add(1);
            if self.digits == 4 {
                self.digits = 0;
                let (octets, len) = group(self.group);
                self.octets(octets.get(..len).unwrap_or_default());
            }
        }
    }

    fn octets(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.lost {
            if self.left == 0 {
                let (first, rest) = bytes.split_at(1);
                if let (Some(place), Some(octet)) = (self.prefix.get_mut(self.have), first.first()) {
                    *place = *octet;
                }
                (self.have, bytes) = (self.have.saturating_add(1), rest);
                if self.have == self.prefix.len() {
                    let [_, length @ ..] = self.prefix;
                    (self.have, self.left) = (0, u32::from_be_bytes(length));
                }
                continue;
            }
            let n = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
            let (part, rest) = bytes.split_at(n);
            if self.prefix.first().is_some_and(|flags| flags & TRAILERS != 0) {
                let room = MAX_TRAILERS.saturating_sub(self.trailers.len());
                self.trailers.extend_from_slice(part.get(..room).unwrap_or(part));
            }
            self.left = self.left.saturating_sub(u32::try_from(n).unwrap_or(u32::MAX));
            bytes = rest;
        }
    }

    /// The status, if the trailers were seen.
    pub(super) fn status(&self) -> Option<Late<'static>> {
        let (mut code, mut message) = (None, &b""[..]);
        for line in self.trailers.split(|b| *b == b'\n') {
            let Some((name, value)) = memchr::memchr(b':', line).and_then(|at| line.split_at_checked(at)) else {
                continue;
            };
            let value = value.get(1..).unwrap_or_default().trim_ascii();
            if name.eq_ignore_ascii_case(b"grpc-status") {
                code = crate::text::decimal(value).and_then(|n| i32::try_from(n).ok());
            } else if name.eq_ignore_ascii_case(b"grpc-message") {
                message = value;
            }
        }
        Some(grpc::status(code?, message))
    }
}

/// Four digits → up to three octets. Padding may stand inside, where parts were encoded one by one.
fn group(digits: [u8; 4]) -> ([u8; 3], usize) {
    let six = |b: u8| match b {
        b'A'..=b'Z' => b.wrapping_sub(b'A'),
        b'a'..=b'z' => b.wrapping_sub(b'a').wrapping_add(26),
        b'0'..=b'9' => b.wrapping_sub(b'0').wrapping_add(52),
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => 0,
    };
    let padding = digits.iter().filter(|b| **b == b'=').count();
    let bits = digits.iter().fold(0u32, |bits, b| bits << 6 | u32::from(six(*b)));
    let [_, a, b, c] = bits.to_be_bytes();
    ([a, b, c], 3usize.saturating_sub(padding))
}
