//! Pulsar as it is written: Protocol Buffers in sized frames.

pub(crate) const TOPIC: &str = "persistent://public/default/orders-partition-2";

fn varint(mut n: u64, out: &mut Vec<u8>) {
    while n >= 128 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// A message of numbers and bytes by field.
#[derive(Clone, Default)]
pub(crate) struct Fields(pub(crate) Vec<u8>);

impl Fields {
    pub(crate) fn int(mut self, field: u64, n: u64) -> Fields {
        varint(field << 3, &mut self.0);
        varint(n, &mut self.0);
        self
    }

    pub(crate) fn bytes(mut self, field: u64, bytes: impl AsRef<[u8]>) -> Fields {
        varint(field << 3 | 2, &mut self.0);
        varint(bytes.as_ref().len() as u64, &mut self.0);
        self.0.extend(bytes.as_ref());
        self
    }
}

pub(crate) fn fields() -> Fields {
    Fields::default()
}

pub(crate) fn sized(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

/// A command, and what stands behind it.
pub(crate) fn with(kind: u64, inner: Fields, behind: &[u8]) -> Vec<u8> {
    sized(&[sized(&fields().int(1, kind).bytes(kind, inner.0).0), behind.to_vec()].concat())
}

pub(crate) fn command(kind: u64, inner: Fields) -> Vec<u8> {
    with(kind, inner, b"")
}

pub(crate) fn property(name: &str, value: &str) -> Vec<u8> {
    fields().bytes(1, name).bytes(2, value).0
}

/// Checksum, metadata and payload of a message.
pub(crate) fn payload(metadata: Fields, payload: &[u8]) -> Vec<u8> {
    [b"\x0e\x01\xaa\xbb\xcc\xdd".to_vec(), sized(&metadata.0), payload.to_vec()].concat()
}
