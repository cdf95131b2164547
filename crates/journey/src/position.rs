//! Where the bytes of a packet lie in the stream of their connection.

use wirespan_model::packet::{Point, Sighting, FIN, SYN, TCP};

/// Where counting begins, so that bytes before the first one seen have a place, too.
const BASE: u64 = 1 << 40;

/// Bytes `start..end` of a stream, counted without wrapping around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// Counts the sequence numbers of one direction of a connection without wrapping around.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counter {
    last: Option<(u32, u64)>,
}

impl Counter {
    pub(crate) fn place(&mut self, seq: u32) -> u64 {
        let (last_seq, last) = self.last.unwrap_or((seq, BASE));
        // A sequence number lies less than half the space away from the one before (RFC 9293, 3.4).
        let distance = i64::from(seq.wrapping_sub(last_seq).cast_signed());
        let place = last.saturating_add_signed(distance);
        if place >= last {
            self.last = Some((seq, place));
        }
        place
    }

    /// The place of a sequence number near the latest one; `None` before the first.
    pub(crate) fn find(&self, seq: u32) -> Option<u64> {
        let (last_seq, last) = self.last?;
        Some(last.saturating_add_signed(i64::from(seq.wrapping_sub(last_seq).cast_signed())))
    }

    /// `None` if the packet has nothing that can be followed: an acknowledgement without payload.
    pub(crate) fn interval(&mut self, s: &Sighting) -> Option<Interval> {
        if s.route.protocol != TCP || s.fragment {
            let start = identity(s);
            return Some(Interval { start, end: start + 1 });
        }
        if s.point == Point::Ready {
            // All bytes before this one.
            return Some(Interval { start: 0, end: self.place(s.seq) });
        }
        // SYN and FIN take a number each.
        let marks = u64::from(s.flags & SYN != 0) + u64::from(s.flags & FIN != 0);
        let bytes = u64::from(s.len) + marks;
        if bytes == 0 {
            return None;
        }
        let start = self.place(s.seq);
        Some(Interval { start, end: start + bytes })
    }
}

/// A number for what tells a datagram from others of its flow. Equal datagrams have the same number.
fn identity(s: &Sighting) -> u64 {
    let words = [s.len, s.hash, s.seq, s.fragment.into()];
    let mixed = words.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, word| {
        (hash ^ u64::from(*word)).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
    });
    // Room for the end behind it.
    mixed >> 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_model::packet::UDP;
    use wirespan_model::test_support::sighting;

    #[test]
    fn sequence_numbers_go_on_after_they_wrap_around() {
        let mut counter = Counter::default();
        let first = counter.interval(&sighting(TCP, u32::MAX - 9, 20)).expect("bytes");
        let second = counter.interval(&sighting(TCP, 10, 5)).expect("bytes");
        assert_eq!((first.end - first.start, second.start), (20, first.end));
        let again = counter.interval(&sighting(TCP, u32::MAX - 9, 20)).expect("bytes");
        assert_eq!(again, first);
    }

    #[test]
    fn a_syn_is_one_byte_and_an_acknowledgement_is_none() {
        let mut counter = Counter::default();
        let syn = counter.interval(&Sighting { flags: SYN, ..sighting(TCP, 100, 0) }).expect("a number");
        assert_eq!(syn.end - syn.start, 1);
        assert_eq!(counter.interval(&sighting(TCP, 101, 0)), None);
        assert_eq!(counter.interval(&sighting(TCP, 101, 1)).expect("bytes").start, syn.end);
    }

    #[test]
    fn datagrams_differ_by_length_and_payload() {
        let of = |len, hash| Counter::default().interval(&Sighting { hash, ..sighting(UDP, 0, len) });
        assert_eq!(of(10, 1), of(10, 1));
        assert_ne!(of(10, 1), of(10, 2));
        assert_ne!(of(10, 1), of(11, 1));
    }
}
