//! The layout of a message: header, questions, records (RFC 1035, section 4).

use super::name::{self, BadName};

/// Bytes of a header.
pub const HEADER: usize = 12;

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Id.
    pub id: u16,
    /// A response.
    pub response: bool,
    /// Operation code.
    pub opcode: u8,
    /// Authoritative answer.
    pub authoritative: bool,
    /// Cut to fit a datagram; the client will ask again over TCP.
    pub truncated: bool,
    /// The reserved bit, which should be zero.
    pub reserved: bool,
    /// Response code, low four bits.
    pub rcode: u8,
    /// Questions.
    pub questions: u16,
    /// Records in the answer section.
    pub answers: u16,
    /// Records in the authority section.
    pub authorities: u16,
    /// Records in the additional section.
    pub additionals: u16,
}

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Type.
    pub qtype: u16,
    /// Class; the top bit asks for a unicast answer in mDNS.
    pub class: u16,
    /// Position behind it.
    pub end: usize,
}

/// A resource record without its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Type.
    pub rtype: u16,
    /// Class; for `OPT` the size of a datagram.
    pub class: u16,
    /// Time to live; for `OPT` the extended response code and flags.
    pub ttl: u32,
    /// Position of the data.
    pub data: usize,
    /// Position behind the data.
    pub end: usize,
}

fn u16_at(message: &[u8], at: usize) -> Option<u16> {
    let bytes = message.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*bytes))
}

/// Reads a header.
pub fn header(message: &[u8]) -> Option<Header> {
    let [i0, i1, f0, f1, q0, q1, a0, a1, n0, n1, r0, r1] = *message.first_chunk::<HEADER>()?;
    Some(Header {
        id: u16::from_be_bytes([i0, i1]),
        response: f0 & 0x80 != 0,
        opcode: f0 >> 3 & 0x0f,
        authoritative: f0 & 0x04 != 0,
        truncated: f0 & 0x02 != 0,
        reserved: f1 & 0x40 != 0,
        rcode: f1 & 0x0f,
        questions: u16::from_be_bytes([q0, q1]),
        answers: u16::from_be_bytes([a0, a1]),
        authorities: u16::from_be_bytes([n0, n1]),
        additionals: u16::from_be_bytes([r0, r1]),
    })
}

/// Reads a question; its name is appended to `text`.
///
/// # Errors
/// It is cut or breaks the format.
pub fn question(message: &[u8], at: usize, text: &mut String) -> Result<Question, BadName> {
    let behind = name::read(message, at, text)?;
    let qtype = u16_at(message, behind).ok_or(BadName::More)?;
    let class = u16_at(message, behind.saturating_add(2)).ok_or(BadName::More)?;
    Ok(Question { qtype, class, end: behind.saturating_add(4) })
}

/// Reads a record.
///
/// # Errors
/// It is cut or breaks the format.
pub fn record(message: &[u8], at: usize) -> Result<Record, BadName> {
    let behind = name::skip(message, at)?;
    let field = |offset: usize| u16_at(message, behind.saturating_add(offset)).ok_or(BadName::More);
    let (rtype, class, high, low, len) = (field(0)?, field(2)?, field(4)?, field(6)?, field(8)?);
    let data = behind.saturating_add(10);
    let end = data.saturating_add(usize::from(len));
    if end > message.len() {
        return Err(BadName::More);
    }
    Ok(Record { rtype, class, ttl: u32::from(high) << 16 | u32::from(low), data, end })
}
