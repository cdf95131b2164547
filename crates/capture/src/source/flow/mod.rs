//! Flows: connections that the kernel bundles by process, remote address and listening port (`bpf/flow/maps.h` tells
//! how).
//!
//! | module | concern |
//! |---|---|
//! | [`wire`] | a bundle as the kernel writes it |
//! | [`table`] | the tables of bundles, taken by turns |
//! | [`existing`], [`diag`] | sockets that existed before: whose they are, and the kernel's list of them |
//! | [`source`] | programs, and their loading |
//! | here | the drain |

mod diag;
mod existing;
pub(super) mod source;
mod table;
mod wire;

use crate::object::WirespanSkel;
use crate::ring::Ring;
use crate::wire::contract::Flow;
use crate::Capture;
use libbpf_rs::{Btf, MapHandle};
use rustc_hash::FxHashMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};
use table::Tables;
use wirespan_model::Bundle;

/// Sizes of the kernel's tables. What does not fit is not lost, but dearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowOptions {
    /// Bundles between two drains; each takes about 900 bytes, as there are two tables.
    pub bundles: u32,
    /// TCP sockets followed at once; each takes 400 to 800 bytes, as there are twice as many places (a power of two).
    pub sockets: u32,
}

impl Default for FlowOptions {
    fn default() -> Self {
        FlowOptions { bundles: 16_384, sockets: 32_768 }
    }
}

/// Places whose use is noted together (`FLOW_BLOCK`).
const BLOCK: u32 = 64;
/// A wait that ends so much before its time was ended.
const EARLY: Duration = Duration::from_millis(5);

/// Sizes the maps; to the least if no flows are wanted.
fn size(skel: &mut crate::object::OpenWirespanSkel<'static>, options: Option<FlowOptions>) -> libbpf_rs::Result<()> {
    let sizes = options.unwrap_or(FlowOptions { bundles: 1, sockets: 1 });
    skel.maps.flow_bundles_a.set_max_entries(sizes.bundles.max(1))?;
    skel.maps.flow_bundles_b.set_max_entries(sizes.bundles.max(1))?;
    // Twice as many, so that few find all of theirs taken.
    let slots = sizes.sockets.clamp(1, 1 << 24).next_power_of_two() * 2;
    skel.maps.flow_slots.set_max_entries(slots)?;
    skel.maps.flow_sockets.set_max_entries(slots)?;
    skel.maps.flow_blocks.set_max_entries(slots.div_ceil(BLOCK))?;
    if let Some(rodata) = skel.maps.rodata_data.as_mut() {
        rodata.flow_slot_mask = slots - 1;
        rodata.flow_many = (sizes.bundles / 2).max(1);
    }
    if options.is_none() {
        skel.maps.flow_spills.set_max_entries(4096)?;
    }
    Ok(())
}

/// Descriptors of all that a drain needs. May go to another thread than the programs' loader.
pub struct FlowSource {
    sweep: OwnedFd,
    current: MapHandle,
    tables: [MapHandle; 2],
    spills: MapHandle,
    reasons: FxHashMap<u32, Box<str>>,
}

impl FlowSource {
    fn new(skel: &WirespanSkel<'static>) -> libbpf_rs::Result<Self> {
        let maps = &skel.maps;
        Ok(FlowSource {
            sweep: skel.progs.flow_sweep.as_fd().try_clone_to_owned()?,
            current: MapHandle::try_from(&maps.flow_current)?,
            tables: [MapHandle::try_from(&maps.flow_bundles_b)?, MapHandle::try_from(&maps.flow_bundles_a)?],
            spills: MapHandle::try_from(&maps.flow_spills)?,
            reasons: wire::drop_reasons(&Btf::from_vmlinux()?),
        })
    }

    /// Gets ready to drain, in the thread that will.
    ///
    /// # Errors
    /// The ring of spilled bundles cannot be mapped.
    pub fn open(self) -> libbpf_rs::Result<Flows> {
        let ring = Ring::open(&self.spills)?;
        let tables = Tables::new(self.current, self.tables)?;
        Ok(Flows { sweep: self.sweep, tables, ring, spilled: Vec::new(), reasons: self.reasons })
    }
}

impl Capture {
    /// The bundles of flows, for another thread to drain; `None` if none are made, or at the second call. After
    /// [`Capture::detach`] they can be drained once more.
    pub fn take_flows(&mut self) -> Option<FlowSource> {
        self.take_reader()
    }
}

/// Drains bundles.
pub struct Flows {
    sweep: OwnedFd,
    tables: Tables,
    ring: Ring,
    spilled: Vec<Flow>,
    reasons: FxHashMap<u32, Box<str>>,
}

impl Flows {
    /// Waits for the next drain; returns early, with true, if the table fills up, or bundles find no room any more.
    pub fn wait(&mut self, at_most: Duration) -> bool {
        let begun = Instant::now();
        self.ring.wait(at_most);
        self.read_spilled();
        // Nothing but that wakes it; a signal costs an early drain. The clock of the wait may be a tick ahead of ours.
        !self.spilled.is_empty() || begun.elapsed() + EARLY < at_most
    }

    /// Takes all that was bundled since the last drain. One key may come more than once.
    ///
    /// # Errors
    /// The kernel refused; what it holds stays there for the next drain.
    pub fn drain(&mut self, sink: &mut dyn FnMut(Bundle)) -> std::io::Result<()> {
        // Room first: to turn the tables takes a while.
        self.read_spilled();
        table::run(self.sweep.as_fd(), &mut [])?;
        self.tables.take(&mut |key, counts| sink(wire::read(key, counts, &self.reasons)))?;
        self.read_spilled();
        let reasons = &self.reasons;
        let spilled = std::mem::take(&mut self.spilled);
        spilled.iter().for_each(|flow| sink(wire::read(&flow.key, &flow.counts, reasons)));
        Ok(())
    }

    fn read_spilled(&mut self) {
        let Flows { ring, spilled, .. } = self;
        ring.take(usize::MAX, &mut |record| spilled.extend(Flow::read(record)));
    }
}

/// Tells the kernel of the sockets that these processes hold already.
fn adopt(skel: &WirespanSkel<'static>, pids: &[u32]) {
    existing::adopt(pids, &mut |known| {
        let mut record = known.to_bytes();
        // Refused if it is there already: then the kernel knows better.
        let _ = table::run(skel.progs.flow_adopt.as_fd(), &mut record);
    });
}
