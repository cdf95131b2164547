//! The protobuf header (`RpcMeta` of baidu_rpc_meta.proto), read field by field.

use crate::carried::MAX_REQUEST_ID;
use crate::framing::{
    protobuf::{self, Field},
    Cursor,
};
use crate::rpc;
use crate::text::visible;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Request { service: &'a str, method: &'a str },
    Response { code: i32, text: &'a [u8] },
    Neither,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meta<'a> {
    pub(super) part: Part<'a>,
    pub(super) correlation: u64,
    pub(super) log_id: Option<i64>,
    pub(super) trace_id: Option<u64>,
    pub(super) request_id: Option<&'a str>,
}

impl<'a> Meta<'a> {
    /// Reads as far as the bytes go; `None` if they are no such header.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut meta = Meta { part: Part::Neither, correlation: 0, log_id: None, trace_id: None, request_id: None };
        let mut r = Cursor::new(bytes);
        let mut seen = false;
        while !r.is_empty() {
            let here = r;
            let Some((key, value)) = protobuf::field(&mut r) else {
                // Cut in the middle of a field: earlier fields count, and so does the beginning of a request.
                if let Some(inner) = cut_request(here) {
                    return meta.request(inner).map(|()| meta);
                }
                return seen.then_some(meta);
            };
            match (key, value) {
                (1, Field::Bytes(b)) => meta.request(b)?,
                (2, Field::Bytes(b)) => meta.response(b)?,
                (4, Field::Int(n)) => meta.correlation = n,
                (3 | 5, Field::Int(_)) | (6..=9, _) => {}
                (10.., _) => {}
                _ => return None,
            }
            seen = true;
        }
        seen.then_some(meta)
    }

    fn request(&mut self, bytes: &'a [u8]) -> Option<()> {
        let (mut service, mut method) = (None, "");
        let mut r = Cursor::new(bytes);
        while let Some((key, value)) = protobuf::field(&mut r) {
            match (key, value) {
                (1, Field::Bytes(b)) => service = Some(rpc::name(b)?),
                (2, Field::Bytes(b)) => method = rpc::name(b)?,
                (3, Field::Int(n)) => self.log_id = Some(i64::from_le_bytes(n.to_le_bytes())).filter(|n| *n != 0),
                (4, Field::Int(n)) => self.trace_id = Some(n).filter(|n| *n != 0),
                (7, Field::Bytes(b)) => self.request_id = visible(b, MAX_REQUEST_ID),
                (1 | 2, _) => return None,
                _ => {}
            }
        }
        self.part = Part::Request { service: service?, method };
        Some(())
    }

    fn response(&mut self, bytes: &'a [u8]) -> Option<()> {
        let (mut code, mut text) = (0, &[][..]);
        let mut r = Cursor::new(bytes);
        while let Some((key, value)) = protobuf::field(&mut r) {
            match (key, value) {
                (1, Field::Int(_)) => code = value.int32(),
                (2, Field::Bytes(b)) => text = b,
                (1 | 2, _) => return None,
                _ => {}
            }
        }
        self.part = Part::Response { code, text };
        Some(())
    }
}

/// The captured beginning of a request.
fn cut_request(mut r: Cursor<'_>) -> Option<&[u8]> {
    (r.u8()? == 0x0a).then_some(())?;
    r.varint()?;
    Some(r.rest())
}
