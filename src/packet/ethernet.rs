//! What a frame of Ethernet has inside.

/// Kinds of frames that begin with a tag of four bytes.
const TAGS: [u16; 2] = [0x8100, 0x88a8];

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at.checked_add(2)?)?.try_into().ok().map(u16::from_be_bytes)
}

/// The kind of what is behind the tags of a frame, and the bytes of it.
pub(super) fn inside(frame: &[u8]) -> Option<(u16, &[u8])> {
    let mut at = 12;
    while TAGS.contains(&u16_at(frame, at)?) {
        at += 4;
    }
    Some((u16_at(frame, at)?, frame.get(at + 2..)?))
}
