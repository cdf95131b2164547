//! Debug build: verifies the checksum that the kernel programs give to every data record (docs/preemption.md, "Checked
//! records"). The kernel's half is `bpf/core/checked.h`.

use crate::wire::contract::{Data, WS_CHECKED_PAYLOAD};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of the payload that the checksum covers.
const PAYLOAD: usize = WS_CHECKED_PAYLOAD as usize;
/// Bytes of the header before the checksum itself, which is its last field.
const HEADER: usize = Data::SIZE - 8;

static VERIFIED: AtomicU64 = AtomicU64::new(0);
static BAD: AtomicU64 = AtomicU64::new(0);
static UNCHECKED: AtomicU64 = AtomicU64::new(0);

/// Checksum of a header and a payload. Bytes of the payload that fill no word are left out.
fn checksum(header: &[u8], payload: &[u8]) -> u64 {
    let covered = payload.get(..PAYLOAD).unwrap_or(payload);
    header.as_chunks::<8>().0.iter().chain(covered.as_chunks::<8>().0).fold(0, |sum, word| {
        let sum = (sum ^ u64::from_ne_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        sum ^ sum >> 32
    })
}

/// Counts a data record as verified, and as bad if `told` is not its checksum. 0 is no checksum: the kernel had no
/// storage for the mark and the checksum of this task.
pub(crate) fn verify(record: &[u8], payload: &[u8], told: u64) {
    if told == 0 {
        UNCHECKED.fetch_add(1, Ordering::Relaxed);
        return;
    }
    VERIFIED.fetch_add(1, Ordering::Relaxed);
    if record.get(..HEADER).is_none_or(|header| checksum(header, payload) != told) {
        BAD.fetch_add(1, Ordering::Relaxed);
    }
}

/// Records whose checksum was verified, those that did not have the checksum that they came with, and those that came
/// with none.
pub(crate) fn counters() -> [(&'static str, u64); 3] {
    [
        ("verified_records", VERIFIED.load(Ordering::Relaxed)),
        ("bad_checksums", BAD.load(Ordering::Relaxed)),
        ("unchecked_records", UNCHECKED.load(Ordering::Relaxed)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_covered_bit_counts() {
        let header: Vec<u8> = (0..HEADER).map(|i| i as u8).collect();
        let payload: Vec<u8> = (0..300).map(|i| (i * 7) as u8).collect();
        let whole = checksum(&header, &payload);
        for at in 0..HEADER * 8 {
            let mut other = header.clone();
            other[at / 8] ^= 1 << (at % 8);
            assert_ne!(checksum(&other, &payload), whole, "bit {at} of the header");
        }
        for at in 0..payload.len() * 8 {
            let mut other = payload.clone();
            other[at / 8] ^= 1 << (at % 8);
            assert_eq!(checksum(&header, &other) == whole, at / 8 >= PAYLOAD, "bit {at} of the payload");
        }
    }
    #[test]
    fn a_record_without_checksum_is_unchecked() {
        let counted = || counters().map(|(_, n)| n);
        let [verified, bad, unchecked] = counted();
        verify(&[1; Data::SIZE], &[], 0);
        verify(&[1; Data::SIZE], &[], 1);
        assert_eq!(counted(), [verified + 1, bad + 1, unchecked + 1]);
    }
}
