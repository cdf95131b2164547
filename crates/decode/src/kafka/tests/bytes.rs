//! Requests and responses of Kafka, written by hand.

use crate::kafka::Kafka;
use crate::testing::{tcp, Turn};

pub(super) const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
pub(super) const SECRET: &str = "geheim";

/// Bytes written one after the other.
#[derive(Clone, Default)]
pub(super) struct W(pub(super) Vec<u8>);

impl W {
    pub(super) fn i8(mut self, n: i8) -> W {
        self.0.push(n as u8);
        self
    }
    pub(super) fn i16(mut self, n: i16) -> W {
        self.0.extend(n.to_be_bytes());
        self
    }
    pub(super) fn i32(mut self, n: i32) -> W {
        self.0.extend(n.to_be_bytes());
        self
    }
    pub(super) fn i64(mut self, n: i64) -> W {
        self.0.extend(n.to_be_bytes());
        self
    }
    pub(super) fn raw(mut self, bytes: impl AsRef<[u8]>) -> W {
        self.0.extend(bytes.as_ref());
        self
    }
    pub(super) fn str(self, text: &str) -> W {
        self.i16(text.len() as i16).raw(text)
    }
    /// Unsigned varint.
    pub(super) fn uv(mut self, mut n: u32) -> W {
        while n >= 128 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.i8(n as i8)
    }
    /// Compact string.
    pub(super) fn cstr(self, text: &str) -> W {
        self.uv(text.len() as u32 + 1).raw(text)
    }
    /// Zigzag varint.
    pub(super) fn zz(self, n: i32) -> W {
        self.uv(((n << 1) ^ (n >> 31)) as u32)
    }
    /// With a length before it.
    pub(super) fn framed(self) -> Vec<u8> {
        W::default().i32(self.0.len() as i32).raw(self.0).0
    }
}

pub(super) fn w() -> W {
    W::default()
}

/// A request; `flexible` ones have tagged fields behind the client id.
pub(super) fn ask(key: i16, version: i16, id: i32, flexible: bool, body: W) -> Vec<u8> {
    let head = w().i16(key).i16(version).i32(id).str("shop");
    let head = if flexible { head.i8(0) } else { head };
    head.raw(body.0).framed()
}

pub(super) fn answer(id: i32, flexible: bool, body: W) -> Vec<u8> {
    let head = w().i32(id);
    let head = if flexible { head.i8(0) } else { head };
    head.raw(body.0).framed()
}

/// A record with a key, a value and headers.
pub(super) fn record(headers: &[(&str, &str)]) -> W {
    let mut body = w().i8(0).zz(0).zz(0).zz(3).raw("key").zz(SECRET.len() as i32).raw(SECRET).zz(headers.len() as i32);
    for (name, value) in headers {
        body = body.zz(name.len() as i32).raw(name).zz(value.len() as i32).raw(value);
    }
    w().zz(body.0.len() as i32).raw(body.0)
}

/// A batch of records; `attributes` has the codec.
pub(super) fn batch(base: i64, attributes: i16, records: &[W]) -> W {
    let n = records.len() as i32;
    let inner = w().i32(0).i8(2).i32(0x1234).i16(attributes).i32(n - 1).i64(1).i64(1).i64(-1).i16(-1).i32(-1).i32(n);
    let inner = records.iter().fold(inner, |w, r| w.raw(&r.0));
    w().i64(base).i32(inner.0.len() as i32).raw(inner.0)
}

pub(super) fn plain_batch(base: i64, n: usize) -> W {
    batch(base, 0, &vec![record(&[("secret-header", SECRET), ("traceparent", PARENT)]); n])
}

pub(super) fn produce9(id: i32, acks: i16, partitions: &[(i32, W)]) -> Vec<u8> {
    let body = w().uv(0).i16(acks).i32(30_000).uv(2).cstr("orders").uv(partitions.len() as u32 + 1);
    let body = partitions
        .iter()
        .fold(body, |b, (index, batch)| b.i32(*index).uv(batch.0.len() as u32 + 1).raw(&batch.0).i8(0));
    ask(0, 9, id, true, body.i8(0).i8(0))
}

pub(super) fn produced9(id: i32, partitions: &[(i32, i16, i64)]) -> Vec<u8> {
    let body = w().uv(2).cstr("orders").uv(partitions.len() as u32 + 1);
    let body = partitions.iter().fold(body, |b, (index, error, base)| {
        let b = b.i32(*index).i16(*error).i64(*base).i64(-1).i64(0).uv(1);
        b.cstr(SECRET).i8(0)
    });
    answer(id, true, body.i8(0).i32(0).i8(0))
}

/// Fetch version 13 or 17: topics by id.
pub(super) fn fetch13(id: i32, topic: [u8; 16], offset: i64) -> Vec<u8> {
    let body = w().i32(-1).i32(500).i32(1).i32(1 << 20).i8(0).i32(0).i32(0).uv(2).raw(topic).uv(2);
    let body = body.i32(1).i32(-1).i64(offset).i32(-1).i64(-1).i32(1 << 20).i8(0).i8(0).uv(1).cstr("").i8(0);
    ask(1, 13, id, true, body)
}

pub(super) fn fetched13(id: i32, topic: [u8; 16], error: i16, records: &W, extra: u32) -> Vec<u8> {
    let body = w().i32(0).i16(0).i32(7).uv(2).raw(topic).uv(2).i32(1).i16(error).i64(99).i64(99).i64(0).uv(0).i32(-1);
    let body = body.uv(records.0.len() as u32 + extra + 1).raw(&records.0);
    if extra > 0 {
        // The rest is not captured: its length counts.
        let bytes = w().i32(id).i8(0).raw(body.0).0;
        return w().i32((bytes.len() + extra as usize + 3) as i32).raw(bytes).0;
    }
    answer(id, true, body.i8(0).i8(0).i8(0))
}

pub(super) fn metadata12(id: i32, topic: [u8; 16], name: &str) -> Vec<u8> {
    let body = w().i32(0).uv(2).i32(1).cstr("broker").i32(9092).uv(0).i8(0).cstr("cluster").i32(1).uv(2);
    let body = body.i16(0).cstr(name).raw(topic).i8(0).uv(2).i16(0).i32(0).i32(1).i32(0);
    let body = body.uv(2).i32(1).uv(2).i32(1).uv(1).i8(0).i32(0).i8(0).i8(0);
    answer(id, true, body)
}

pub(super) fn api_versions(id: i32) -> Vec<u8> {
    ask(18, 3, id, true, w().cstr("my-client").cstr("1.0").i8(0))
}

/// What the parser says, without what every request has.
pub(super) fn say(turns: &[Turn]) -> Vec<String> {
    let plain = |l: String| {
        l.replace(" messaging.system.name=kafka", "")
            .replace(" messaging.client.id=shop", "")
            .split(' ')
            .filter(|w| !w.starts_with("messaging.operation.") && !w.starts_with("wirespan.kafka.api_version"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    tcp(&Kafka, turns).into_iter().map(plain).collect()
}
