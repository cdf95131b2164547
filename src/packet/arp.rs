//! ARP at a mirrored device: how often addresses are asked for, and which of them nobody answers for.

use super::ethernet::u16_at;
use rustc_hash::FxHashMap;
use std::net::Ipv4Addr;

pub(super) const ARP: u16 = 0x0806;
/// The kernel asks three times, a second apart.
const PATIENCE_NS: u64 = 3_000_000_000;
/// Addresses that are followed at once.
const FOLLOWED: usize = 4096;

/// Counts of a device.
#[derive(Default)]
pub(super) struct Arp {
    /// When each address was asked for first, ns.
    asked: FxHashMap<Ipv4Addr, u64>,
    requests: u64,
    answers: u64,
    unanswered: u64,
    announcements: u64,
    malformed: u64,
    too_many: u64,
}

fn address_at(packet: &[u8], at: usize) -> Option<Ipv4Addr> {
    let bytes: [u8; 4] = packet.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(bytes.into())
}

/// Operation, sender and target of a packet for Ethernet and IPv4.
fn read(packet: &[u8]) -> Option<(u16, Ipv4Addr, Ipv4Addr)> {
    let known = u16_at(packet, 0)? == 1 && u16_at(packet, 2)? == 0x0800 && packet.get(4..6)? == [6, 4];
    let read = (u16_at(packet, 6)?, address_at(packet, 14)?, address_at(packet, 24)?);
    known.then_some(read)
}

impl Arp {
    /// Takes a packet of ARP.
    pub(super) fn see(&mut self, time_ns: u64, packet: &[u8]) {
        match read(packet) {
            // An announcement, or the question whether an address is free: nobody is to answer.
            Some((_, sender, target)) if sender == target || sender.is_unspecified() => self.announcements += 1,
            Some((1, _, target)) => {
                self.requests += 1;
                if self.asked.len() < FOLLOWED {
                    self.asked.entry(target).or_insert(time_ns);
                } else {
                    self.too_many += 1;
                }
            }
            Some((2, sender, _)) => {
                self.answers += 1;
                self.asked.remove(&sender);
            }
            _ => self.malformed += 1,
        }
    }

    /// Gives up on addresses that nobody answered for, and returns them. If they are asked for again, they count again.
    pub(super) fn tick(&mut self, now_ns: u64) -> Vec<Ipv4Addr> {
        let is_late = |asked: u64| now_ns.saturating_sub(asked) >= PATIENCE_NS;
        let mut late: Vec<_> = self.asked.iter().filter(|(_, at)| is_late(**at)).map(|(ip, _)| *ip).collect();
        late.sort_unstable();
        for address in &late {
            self.asked.remove(address);
        }
        self.unanswered += late.len() as u64;
        late
    }

    pub(super) fn counters(&self) -> [(&'static str, u64); 6] {
        [
            ("arp_requests", self.requests),
            ("arp_answers", self.answers),
            ("arp_unanswered", self.unanswered),
            ("arp_announcements", self.announcements),
            ("arp_malformed", self.malformed),
            ("arp_not_followed", self.too_many),
        ]
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::ethernet::inside;
    use super::*;

    fn frame(tags: usize, operation: u16, sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
        let mut frame = vec![0xff; 12];
        (0..tags).for_each(|_| frame.extend([0x81, 0, 0, 7]));
        frame.extend([8, 6, 0, 1, 8, 0, 6, 4]);
        frame.extend(operation.to_be_bytes());
        frame.extend([2; 6].iter().chain(&sender).chain(&[0; 6]).chain(&target));
        frame
    }

    /// Takes a frame. False if it is none of ARP.
    fn see(arp: &mut Arp, time_ns: u64, frame: &[u8]) -> bool {
        let Some((ARP, packet)) = inside(frame) else { return false };
        arp.see(time_ns, packet);
        true
    }

    fn count(arp: &Arp, name: &str) -> u64 {
        arp.counters().into_iter().find(|(n, _)| *n == name).unwrap().1
    }

    const ONE: [u8; 4] = [10, 0, 0, 1];
    const TWO: [u8; 4] = [10, 0, 0, 2];
    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn an_address_is_unanswered_once_for_all_requests_of_three_seconds() {
        let mut arp = Arp::default();
        for second in 0..3 {
            assert!(see(&mut arp, second * SECOND, &frame(0, 1, ONE, TWO)));
            assert!(arp.tick(second * SECOND + 1).is_empty());
        }
        assert_eq!(arp.tick(3 * SECOND), [Ipv4Addr::from(TWO)]);
        assert!(arp.tick(9 * SECOND).is_empty());
        assert_eq!((count(&arp, "arp_requests"), count(&arp, "arp_unanswered")), (3, 1));
    }

    #[test]
    fn an_answer_may_come_with_tags_and_late() {
        let mut arp = Arp::default();
        assert!(see(&mut arp, 0, &frame(2, 1, ONE, TWO)));
        assert!(see(&mut arp, 2 * SECOND, &frame(1, 2, TWO, ONE)));
        assert!(arp.tick(9 * SECOND).is_empty());
        assert_eq!((count(&arp, "arp_answers"), count(&arp, "arp_unanswered")), (1, 0));
    }

    #[test]
    fn announcements_want_no_answer() {
        let mut arp = Arp::default();
        assert!(see(&mut arp, 0, &frame(0, 1, ONE, ONE)));
        assert!(see(&mut arp, 0, &frame(0, 1, [0; 4], TWO)));
        assert!(arp.tick(9 * SECOND).is_empty());
        assert_eq!(count(&arp, "arp_announcements"), 2);
    }

    #[test]
    fn what_is_cut_is_malformed_and_what_is_ip_is_left() {
        let whole = frame(0, 1, ONE, TWO);
        for len in 0..whole.len() {
            let mut arp = Arp::default();
            let is_arp = see(&mut arp, 0, &whole[..len]);
            assert_eq!((is_arp, count(&arp, "arp_malformed")), (len >= 14, u64::from(len >= 14)), "{len}");
        }
        let mut ip = whole;
        ip[13] = 0;
        assert!(!see(&mut Arp::default(), 0, &ip));
    }
}
