//! The kernel programs of a packet program, which may be changed while they run.

use anyhow::{Context as _, Result};
use std::time::Duration;
use wirespan_capture::packet::{PacketOptions, Packets};
use wirespan_model::packet::Sighting;

/// A program of the kernel that has begun is over after this time, and its record is in the ring.
const SETTLED: Duration = Duration::from_millis(20);
/// Time between two reads of a ring: while many packets come, and otherwise. Each read interrupts what runs.
const BUSY: Duration = Duration::from_millis(5);
const IDLE: Duration = Duration::from_millis(40);
/// So many sightings of one read are many. The ring has room for a hundred times as many.
const MANY: usize = 1_000;
/// So many reads take all that a ring can hold.
const RINGS: usize = 4;

/// How long to wait for the next read of a ring, if this one took so many sightings.
pub(super) fn rest(taken: usize) -> Duration {
    if taken > MANY {
        BUSY
    } else {
        IDLE
    }
}

/// Attached programs.
pub(crate) struct Taps {
    packets: Packets,
    /// Sightings before this time were told by the programs before, Unix ns.
    from_ns: u64,
    /// Counts of the programs before, by name.
    before: Vec<(&'static str, u64)>,
    missed: u64,
    seen: Vec<Sighting>,
    read_up_to_ns: u64,
    rest: Duration,
}

impl Taps {
    /// Attaches the programs; packets are seen when it returns.
    pub(crate) fn open(options: &PacketOptions) -> Result<Self> {
        let packets = Packets::open(options)?;
        Ok(Taps { packets, from_ns: 0, before: Vec::new(), missed: 0, seen: Vec::new(), read_up_to_ns: 0, rest: BUSY })
    }

    /// Puts the programs for `options` in the place of these, and appends what is left of what these saw. `prepare`
    /// makes them ready.
    ///
    /// There is no gap, and nothing is told twice: the old programs stay until the new ones are attached. Up to one
    /// moment the old ones tell the packets, and from then on the new ones.
    pub(crate) fn change(
        &mut self,
        options: &PacketOptions,
        prepare: impl FnOnce(&Packets) -> Result<()>,
        into: &mut Vec<Sighting>,
    ) -> Result<()> {
        self.drain(into);
        let next = self.packets.beside(options).context("changing the program")?;
        prepare(&next)?;
        let moment_ns = next.time();
        std::thread::sleep(SETTLED);
        let at = into.len();
        self.drain(into);
        let mut late = into.split_off(at);
        late.retain(|s| s.time_ns < moment_ns);
        into.append(&mut late);
        self.before = self.counters();
        self.missed = self.missed();
        self.from_ns = moment_ns;
        self.packets = next;
        Ok(())
    }

    /// The attached programs.
    pub(crate) fn packets(&self) -> &Packets {
        &self.packets
    }

    /// Appends what was seen since the last call, without waiting. More may come than is handled: it takes what was in
    /// the ring, and ends.
    pub(crate) fn drain(&mut self, into: &mut Vec<Sighting>) {
        let mut taken = 0;
        for _ in 0..RINGS {
            let now_ns = self.packets.time();
            let more = self.packets.drain(&mut self.seen);
            taken += self.seen.len();
            self.rest = rest(taken);
            into.extend(self.seen.drain(..).filter(|s| s.time_ns >= self.from_ns));
            if !more {
                self.read_up_to_ns = now_ns;
                return;
            }
        }
    }

    /// How long to wait until the next [`Taps::drain`].
    pub(crate) fn rest(&self) -> Duration {
        self.rest
    }

    /// What was seen up to this time has been read, Unix ns.
    pub(crate) fn read_up_to_ns(&self) -> u64 {
        self.read_up_to_ns
    }

    /// Sees no packet any more. What is left of what was seen can still be read.
    pub(crate) fn detach(&mut self) {
        self.packets.detach();
    }

    /// The kernel's name for the reason of a drop.
    pub(crate) fn reason(&self, number: u32) -> String {
        self.packets.reason(number)
    }

    /// Whether the present programs have told as many packets as they may.
    pub(crate) fn at_limit(&self) -> bool {
        count(&self.packets.counters(), "limited") > 0
    }

    /// Counters of all programs since the start.
    pub(crate) fn counters(&self) -> Vec<(&'static str, u64)> {
        self.packets.counters().into_iter().map(|(name, n)| (name, n + count(&self.before, name))).collect()
    }

    /// See [`Packets::missed`].
    pub(crate) fn missed(&self) -> u64 {
        self.missed + self.packets.missed()
    }
}

/// One of [`Taps::counters`].
pub(crate) fn count(counters: &[(&'static str, u64)], name: &str) -> u64 {
    counters.iter().find(|(n, _)| *n == name).map_or(0, |(_, n)| *n)
}
