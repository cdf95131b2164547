//! A block of the ring → frames (`struct tpacket_block_desc` and `struct tpacket3_hdr` of linux/if_packet.h).

/// Where a block says whether it is the kernel's (0) or ours.
pub(super) const STATUS_AT: usize = 8;
const FRAMES_AT: usize = 12;
const FIRST_AT: usize = 16;

/// A frame of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// When the kernel saw it, Unix ns.
    pub time_ns: u64,
    /// Its length on the wire, bytes.
    pub wire_len: usize,
    /// Its bytes.
    pub data: &'a [u8],
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_ne_bytes)
}

/// Shows the frames of a block. What lies outside the block is not a frame, and ends it.
pub(super) fn frames(block: &[u8], show: &mut dyn FnMut(Frame<'_>)) {
    let mut at = u32_at(block, FIRST_AT).unwrap_or(0) as usize;
    for _ in 0..u32_at(block, FRAMES_AT).unwrap_or(0) {
        let Some(header) = block.get(at..) else { return };
        let word = |at| u32_at(header, at);
        let (Some(next), Some(seconds), Some(ns), Some(kept), Some(wire)) =
            (word(0), word(4), word(8), word(12), word(16))
        else {
            return;
        };
        let begin = header.get(24..26).and_then(|b| b.try_into().ok()).map_or(0, u16::from_ne_bytes);
        let begin = usize::from(begin);
        let Some(data) = begin.checked_add(kept as usize).and_then(|end| header.get(begin..end)) else { return };
        let time_ns = u64::from(seconds) * 1_000_000_000 + u64::from(ns);
        show(Frame { time_ns, wire_len: wire as usize, data });
        if next == 0 {
            return;
        }
        at = at.saturating_add(next as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(frames: &[&[u8]]) -> Vec<u8> {
        let mut out = vec![0; 48];
        out[FRAMES_AT..FRAMES_AT + 4].copy_from_slice(&(frames.len() as u32).to_ne_bytes());
        out[FIRST_AT..FIRST_AT + 4].copy_from_slice(&48u32.to_ne_bytes());
        for (n, data) in (1u32..).zip(frames) {
            let len = data.len() as u32;
            let next = if n as usize == frames.len() { 0 } else { 80 + len.next_multiple_of(16) };
            for word in [next, n, 7, len, len + 100, 0] {
                out.extend(word.to_ne_bytes());
            }
            out.extend(80u16.to_ne_bytes());
            out.resize(out.len() + 54, 0);
            out.extend(*data);
            out.resize(out.len().next_multiple_of(16), 0);
        }
        out
    }

    #[test]
    fn a_block_has_its_frames_in_order() {
        let mut seen = Vec::new();
        frames(&block(&[b"first", b"second one", b""]), &mut |f| seen.push((f.time_ns, f.wire_len, f.data.to_vec())));
        let expected = [
            (1_000_000_007, 105, b"first".to_vec()),
            (2_000_000_007, 110, b"second one".to_vec()),
            (3_000_000_007, 100, vec![]),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_damaged_block_gives_no_bytes_of_others() {
        let good = block(&[b"first", b"second"]);
        for at in 0..good.len() {
            for byte in [0, 1, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] = byte;
                let mut bytes = 0;
                frames(&bad, &mut |f| bytes += f.data.len());
                assert!(bytes <= 2 * bad.len());
            }
        }
        for len in 0..good.len() {
            frames(&good[..len], &mut |f| assert!(f.data.len() <= len));
        }
    }
}
