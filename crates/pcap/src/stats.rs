//! Counters of a replay.

use std::collections::BTreeMap;

/// Numbers of packets and events that a replay read, emitted and dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets read from files.
    pub packets: u64,
    /// Captured bytes of these packets.
    pub bytes: u64,
    /// TCP segments understood.
    pub segments: u64,
    /// UDP datagrams understood.
    pub datagrams: u64,
    /// Messages of ICMP understood.
    pub icmp: u64,
    /// TCP connections and pairs of UDP ends.
    pub flows: u64,
    /// Events emitted.
    pub events: u64,
    /// Number of packets that were dropped or odd, by reason (`link_not_ip`). A reason that did not occur is absent.
    pub counts: BTreeMap<&'static str, u64>,
}

impl Stats {
    /// Number for one reason; 0 if it did not occur.
    pub fn count(&self, reason: &str) -> u64 {
        self.counts.get(reason).copied().unwrap_or(0)
    }

    /// All counters with their names, the reasons last.
    pub fn counters(&self) -> Vec<(String, u64)> {
        let mut all = vec![
            ("packets".to_string(), self.packets),
            ("bytes".to_string(), self.bytes),
            ("segments".to_string(), self.segments),
            ("datagrams".to_string(), self.datagrams),
            ("icmp".to_string(), self.icmp),
            ("flows".to_string(), self.flows),
            ("events".to_string(), self.events),
        ];
        all.extend(self.counts.iter().map(|(reason, n)| ((*reason).to_string(), *n)));
        all
    }

    pub(crate) fn add(&mut self, reason: &'static str, n: u64) {
        *self.counts.entry(reason).or_default() += n;
    }

    pub(crate) fn bump(&mut self, reason: &'static str) {
        self.add(reason, 1);
    }
}
