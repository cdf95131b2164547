//! The header of 16 bytes.

use crate::framing::Cursor;
use crate::text::len64;

pub(super) const HEADER: usize = 16;
const MAGIC: [u8; 2] = [0xda, 0xbb];
/// Longest body that is believed, bytes; Dubbo's own limit is 8 MiB unless configured.
const MAX_BODY: u32 = 256 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) request: bool,
    pub(super) two_way: bool,
    pub(super) event: bool,
    pub(super) serialization: u8,
    pub(super) status: u8,
    pub(super) id: u64,
    pub(super) body: u32,
}

impl Header {
    pub(super) fn frame_len(&self) -> u64 {
        u64::from(self.body).saturating_add(len64(HEADER))
    }
}

/// Names of the serializations that Dubbo numbers.
pub(super) fn serialization(id: u8) -> Option<&'static str> {
    Some(match id {
        2 => "hessian2",
        3 => "java",
        4 => "compactedjava",
        6 => "fastjson",
        7 => "nativejava",
        8 => "kryo",
        9 => "fst",
        10 => "native-hessian",
        11 => "avro",
        12 => "protostuff",
        16 => "gson",
        21 => "protobuf-json",
        22 => "protobuf",
        23 => "fastjson2",
        25 => "kryo2",
        27 => "msgpack",
        _ => return None,
    })
}

/// Names of the statuses of responses.
pub(super) fn status(code: u8) -> Option<&'static str> {
    Some(match code {
        20 => "OK",
        25 => "SERIALIZATION_ERROR",
        30 => "CLIENT_TIMEOUT",
        31 => "SERVER_TIMEOUT",
        35 => "CHANNEL_INACTIVE",
        40 => "BAD_REQUEST",
        50 => "BAD_RESPONSE",
        60 => "SERVICE_NOT_FOUND",
        70 => "SERVICE_ERROR",
        80 => "SERVER_ERROR",
        90 => "CLIENT_ERROR",
        100 => "SERVER_THREADPOOL_EXHAUSTED_ERROR",
        _ => return None,
    })
}

/// Reads a header: `Err` if it is invalid, `Ok(None)` if it is not complete.
pub(super) fn read(bytes: &[u8]) -> Result<Option<Header>, ()> {
    if bytes.iter().zip(MAGIC).any(|(b, m)| *b != m) {
        return Err(());
    }
    let mut r = Cursor::new(bytes.get(2..).unwrap_or_default());
    let Some((flags, code)) = r.u8().zip(r.u8()) else { return Ok(None) };
    let request = flags & 0x80 != 0;
    let known = serialization(flags & 0x1f).is_some();
    let status_fits = if request { code == 0 } else { status(code).is_some() };
    if !known || !status_fits {
        return Err(());
    }
    let Some((id, body)) = r.u64().zip(r.u32()) else { return Ok(None) };
    if body > MAX_BODY {
        return Err(());
    }
    let two_way = flags & 0x40 != 0;
    let event = flags & 0x20 != 0;
    Ok(Some(Header { request, two_way, event, serialization: flags & 0x1f, status: code, id, body }))
}
