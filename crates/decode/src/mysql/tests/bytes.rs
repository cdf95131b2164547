//! Packets of MySQL, written by hand.

use crate::mysql::Mysql;
use crate::testing::{tcp, Turn};

pub(super) fn p(seq: u8, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut bytes = (body.len() as u32 | u32::from(seq) << 24).to_le_bytes().to_vec();
    bytes.extend(body);
    bytes
}

/// A packet with the header of compression around it.
pub(super) fn wrapped(seq: u8, body: &[u8], plain_len: u32) -> Vec<u8> {
    let mut bytes = (body.len() as u32 | u32::from(seq) << 24).to_le_bytes().to_vec();
    bytes.extend(&plain_len.to_le_bytes()[..3]);
    bytes.extend(body);
    bytes
}

pub(super) fn greeting(caps: u32) -> Vec<u8> {
    let mut body = b"\x0a8.0.36\0\x09\0\0\0abcdefgh\0".to_vec();
    body.extend(&caps.to_le_bytes()[..2]);
    body.extend([33, 2, 0]);
    body.extend(&caps.to_le_bytes()[2..]);
    body.extend(b"\x15\0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0mysql_native_password\0");
    p(0, body)
}

pub(super) fn login(caps: u32) -> Vec<u8> {
    let mut body = caps.to_le_bytes().to_vec();
    body.extend([0, 0, 0, 1, 33]);
    body.extend([0; 23]);
    body.extend(b"bob\0\x06CANARYshop\0mysql_native_password\0");
    p(1, body)
}

pub(super) const CAPS: u32 = 0x8 | 0x200 | 0x8000;
pub(super) const DEPRECATE_EOF: u32 = 0x100_0000;

pub(super) fn ok(seq: u8, affected: u8, status: u16) -> Vec<u8> {
    p(seq, [&[0, affected, 0][..], &status.to_le_bytes(), &[0, 0]].concat())
}

pub(super) fn end(seq: u8, status: u16) -> Vec<u8> {
    p(seq, [&[0xfe, 0, 0][..], &status.to_le_bytes()].concat())
}

/// An OK packet in the place of an EOF.
pub(super) fn ok_end(seq: u8, status: u16) -> Vec<u8> {
    p(seq, [&[0xfe, 0, 0][..], &status.to_le_bytes(), &[0, 0]].concat())
}

pub(super) fn definition(seq: u8) -> Vec<u8> {
    p(seq, b"\x03def\x01d\x01t\x01t\x01a\x01a\x0c\x3f\0\x0b\0\0\0\x03\0\0\0\0\0")
}

pub(super) fn row(seq: u8) -> Vec<u8> {
    p(seq, b"\x06CANARY")
}

pub(super) fn query(sql: &str) -> Vec<u8> {
    p(0, [b"\x03", sql.as_bytes()].concat())
}

pub(super) fn failed(seq: u8, code: u16, state: &str, text: &str) -> Vec<u8> {
    p(seq, [&[0xff][..], &code.to_le_bytes(), b"#", state.as_bytes(), text.as_bytes()].concat())
}

pub(super) fn result(mut seq: u8, status: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in [|n| p(n, [1]), definition, |n| end(n, 2), row, row] {
        bytes.extend(part(seq));
        seq += 1;
    }
    bytes.extend(end(seq, status));
    bytes
}

/// The messages of these turns, without attributes.
pub(super) fn short(turns: &[Turn]) -> Vec<String> {
    tcp(&Mysql, turns).iter().map(|l| l.split(" db.").next().unwrap().to_owned()).collect()
}
