//! The handshake of one end: pieces that come in any order, and again.

/// Most bytes of a handshake that are kept; a hello with keys that withstand quantum computers has about 2 KiB.
const MAX_BYTES: usize = 8 * 1024;
/// Most pieces that are kept. Browsers cut their hello into a dozen, out of order, on purpose.
const MAX_PIECES: usize = 64;

/// Pieces of a stream by their offsets.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    list: Vec<(u64, Vec<u8>)>,
    bytes: usize,
}

impl Pieces {
    pub(super) fn add(&mut self, offset: u64, data: &[u8]) {
        let known = self.list.iter().any(|(at, piece)| *at == offset && piece.len() >= data.len());
        let room = self.list.len() < MAX_PIECES && self.bytes.saturating_add(data.len()) <= MAX_BYTES;
        if known || !room || data.is_empty() {
            return;
        }
        self.bytes = self.bytes.saturating_add(data.len());
        let at = self.list.partition_point(|(at, _)| *at <= offset);
        self.list.insert(at, (offset, data.to_vec()));
    }

    pub(super) fn clear(&mut self) {
        *self = Pieces::default();
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The bytes from the start on, without a hole.
    pub(super) fn joined(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for (at, piece) in &self.list {
            let have = crate::text::len64(all.len());
            let Some(known) = have.checked_sub(*at) else { break };
            let known = usize::try_from(known).unwrap_or(usize::MAX);
            all.extend_from_slice(piece.get(known..).unwrap_or_default());
        }
        all
    }
}

/// The messages of a handshake, the last only if it is whole: type and content.
pub(super) fn messages(bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let [kind, a, b, c, more @ ..] = rest else { return None };
        let len = usize::try_from(u32::from_be_bytes([0, *a, *b, *c])).ok()?;
        let (body, behind) = more.split_at_checked(len)?;
        rest = behind;
        Some((*kind, body))
    })
}
