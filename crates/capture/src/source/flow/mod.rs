//! Flows: connections that the kernel bundles by process, remote address and listening port (see `bpf/flow/maps.h`).
//!
//! | module | concern |
//! |---|---|
//! | [`wire`] | a bundle as the kernel writes it |
//! | [`table`] | the two tables of bundles, which take turns |
//! | [`plain`] | remote ends whose connections are not translated (NAT) |
//! | [`existing`], [`diag`] | sockets that are older than the tracing: their owners, and the kernel's list of them |
//! | [`source`] | the programs, and how they are loaded |
//! | this module | draining the bundles |

mod diag;
mod existing;
mod plain;
pub(super) mod source;
mod table;
pub(crate) use table::run;
pub(crate) mod wire;

use crate::boxes;
use crate::object::WirespanSkel;
use crate::ring::Ring;
use crate::wire::contract::{Flow, WS_FLOW_BLOCK, WS_FLOW_NEAR};
use crate::Capture;
use libbpf_rs::{Btf, MapCore as _, MapFlags, MapHandle};
use plain::Plain;
pub use plain::PlainEnd;
use rustc_hash::FxHashMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};
use table::Tables;
use wirespan_model::Bundle;

/// Sizes of the kernel's tables. What does not fit is not lost, but costs more time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowOptions {
    /// Bundles between two drains; each takes about 900 bytes, as there are two tables.
    pub bundles: u32,
    /// TCP sockets followed at once. Each takes 400 to 800 bytes: the table has twice as many places, rounded up to a
    /// power of two. The first 4,096 places are made at the start, the others when these do not do.
    pub sockets: u32,
}

impl Default for FlowOptions {
    fn default() -> Self {
        FlowOptions { bundles: 16_384, sockets: 32_768 }
    }
}

/// A wait that ends earlier than its timeout by more than this was ended by the kernel.
const EARLY: Duration = Duration::from_millis(5);

/// So many sockets at least may be without a place where calls are counted by system calls. Each takes memory once it
/// is there, and 16 bytes before.
const LEAST_PLACELESS: u32 = 65_536;

/// Sizes the maps; to the smallest size if no flows are wanted.
fn size(
    skel: &mut crate::object::OpenWirespanSkel<'static>,
    options: Option<FlowOptions>,
    by_syscalls: bool,
) -> libbpf_rs::Result<()> {
    let sizes = options.unwrap_or(FlowOptions { bundles: 1, sockets: 1 });
    skel.maps.flow_bundles_a.set_max_entries(sizes.bundles.max(1))?;
    skel.maps.flow_bundles_b.set_max_entries(sizes.bundles.max(1))?;
    // With twice as many places as sockets, few sockets find all places that they may take in use.
    let slots = sizes.sockets.clamp(1, 1 << 24).next_power_of_two() * 2;
    skel.maps.flow_slots.set_max_entries(slots)?;
    skel.maps.flow_sockets.set_max_entries(slots.min(WS_FLOW_NEAR))?;
    skel.maps.flow_blocks.set_max_entries(slots.div_ceil(WS_FLOW_BLOCK))?;
    skel.maps.flow_by_cookie.set_max_entries(if by_syscalls { slots.max(LEAST_PLACELESS) } else { 1 })?;
    if let Some(rodata) = skel.maps.rodata_data.as_mut() {
        rodata.flows_by_syscalls = by_syscalls;
        rodata.flow_slot_mask = slots - 1;
        rodata.flow_many = (sizes.bundles / 2).max(1);
    }
    if options.is_none() {
        skel.maps.flow_spills.set_max_entries(4096)?;
    }
    Ok(())
}

/// Makes the further places of sockets, if the kernel programs want them and they are not there yet.
fn make_far(skel: &WirespanSkel<'static>) -> libbpf_rs::Result<Option<MapHandle>> {
    let maps = &skel.maps;
    let wanted = maps.bss_data.as_ref().is_some_and(|bss| bss.flow_far_wanted);
    let entries = maps.flow_slots.max_entries().saturating_sub(WS_FLOW_NEAR);
    if !wanted || entries == 0 || maps.flow_far.lookup(&boxes::PLACE, MapFlags::ANY)?.is_some() {
        return Ok(None);
    }
    boxes::make_array(&maps.flow_far, "flow_far", maps.flow_sockets.value_size(), entries).map(Some)
}

/// Descriptors of the maps and programs that a drain needs. May move to another thread than that of the loader.
pub struct FlowSource {
    sweep: OwnedFd,
    current: MapHandle,
    tables: [MapHandle; 2],
    spills: MapHandle,
    plain: MapHandle,
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
            plain: MapHandle::try_from(&maps.flow_plain)?,
            reasons: wire::drop_reasons(&Btf::from_vmlinux()?),
        })
    }

    /// Prepares draining. Call it in the thread that will drain.
    ///
    /// # Errors
    /// The ring of spilled bundles cannot be mapped.
    pub fn open(self) -> libbpf_rs::Result<Flows> {
        let ring = Ring::open(&self.spills)?;
        let tables = Tables::new(self.current, self.tables)?;
        let plain = Plain::new(self.plain);
        Ok(Flows { sweep: self.sweep, tables, ring, spilled: Vec::new(), plain, reasons: self.reasons })
    }
}

impl Capture {
    /// The source of bundles, for another thread to drain; `None` if no flows are bundled, or if it was taken before.
    /// Bundles can be drained once more after [`Capture::detach`].
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
    plain: Plain,
    reasons: FxHashMap<u32, Box<str>>,
}

impl Flows {
    /// Waits until the next drain is due. Returns early, with true, if the table is nearly full or has no room left.
    pub fn wait(&mut self, at_most: Duration) -> bool {
        let begun = Instant::now();
        self.ring.wait(at_most);
        self.read_spilled();
        // Only a full table wakes this thread; a signal merely causes an early drain. The clock of the wait may be a
        // tick ahead of ours, hence EARLY.
        !self.spilled.is_empty() || begun.elapsed() + EARLY < at_most
    }

    /// Passes all bundles since the last drain to `sink`. The same key may come more than once.
    ///
    /// # Errors
    /// A call of the kernel failed. The bundles stay in its tables for the next drain.
    pub fn drain(&mut self, sink: &mut dyn FnMut(Bundle)) -> std::io::Result<()> {
        // First make room in the ring of spilled bundles: switching the tables takes a while.
        self.read_spilled();
        table::run(self.sweep.as_fd(), &mut [])?;
        self.tables.take(&mut |key, counts| sink(wire::read(key, counts, &self.reasons)))?;
        self.read_spilled();
        let reasons = &self.reasons;
        let spilled = std::mem::take(&mut self.spilled);
        spilled.iter().for_each(|flow| sink(wire::read(&flow.key, &flow.counts, reasons)));
        Ok(())
    }

    /// From now on, each connection is a bundle of its own, unless [`Flows::bundle`] says otherwise of its remote end:
    /// the addresses of connections may be translated on this host.
    ///
    /// # Errors
    /// The kernel has no memory for the table.
    pub fn keep_apart(&mut self) -> std::io::Result<()> {
        self.plain.begin()
    }

    /// Bundles further connections of this remote end, because they are not translated.
    pub fn bundle(&mut self, end: &PlainEnd) {
        self.plain.set(end, true);
    }

    /// Takes that back.
    pub fn unbundle(&mut self, end: &PlainEnd) {
        self.plain.set(end, false);
    }

    fn read_spilled(&mut self) {
        let Flows { ring, spilled, .. } = self;
        ring.take(usize::MAX, &mut |record| spilled.extend(Flow::read(record)));
    }
}

/// Passes on the server's end of every connection of these processes, and where they listen: address (zeros: all
/// addresses of a namespace), port, and the namespace if there is no address.
pub(super) fn older_ends(pids: &[u32], tell: &mut dyn FnMut([u8; 16], u16, u32)) {
    existing::adopt(pids, &mut |known| {
        let server = if known.serves { known.local } else { known.remote };
        let netns = if server.is_unspecified() { known.netns } else { 0 };
        tell(wire::octets(server), known.port, netns);
    });
}

/// Tells the kernel about the sockets that these processes hold already.
fn adopt(skel: &WirespanSkel<'static>, pids: &[u32]) {
    existing::adopt(pids, &mut |known| {
        let mut record = known.to_bytes();
        // The kernel refuses a socket that it follows already; its own record is better than this one.
        let _ = table::run(skel.progs.flow_adopt.as_fd(), &mut record);
    });
}
