//! Packets on their way through the devices of this host → [`Sighting`]s.
//!
//! The programs are an object of their own (`bpf/packet/`): they are loaded and attached by [`Packets::open`], and gone
//! when it is dropped. Each program is optional. A point that the kernel refuses is missing from the answer, and is
//! told by [`Packets::missing`].

mod clsact;
mod devices;
mod filter;
mod named;
mod record;
mod stack;

pub use devices::Device;
pub use filter::{Filter, Headers, Net};
pub use named::Mark;

use crate::clock::Clock;
use crate::error::{bpf, clear_log, failed_program, listen_to_libbpf, reason, CaptureError};
use crate::object::packet::{OpenPacketSkel, PacketSkel, PacketSkelBuilder};
use crate::privilege;
use crate::ring::Ring;
use crate::source::flow::wire::drop_reasons;
use crate::wire::contract::{PacketEnd, WS_E_ASKED, WS_E_LEFT, WS_M_HEADERS, WS_PACKET_COUNTERS, WS_T_VXLAN};
use libbpf_rs::btf::types::Typedef;
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::skel::{OpenSkel as _, Skel as _, SkelBuilder as _};
use libbpf_rs::{Link, MapCore as _, MapFlags, OpenObject};
use named::Named;
use record::Reader;
use rustc_hash::FxHashMap;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use wirespan_model::packet::{Point, Sighting};

const _: () = assert!(WS_T_VXLAN == wirespan_model::packet::Tunnel::Vxlan as u32);

/// Each point, with its program and the tracepoint of the kernel.
const PROGRAMS: [(Point, &str, &str); 9] = [
    (Point::Send, "packet_send", "tcp_sendmsg_locked"),
    (Point::Queue, "packet_queue", "net_dev_queue"),
    (Point::Xmit, "packet_xmit", "net_dev_start_xmit"),
    (Point::Receive, "packet_receive", "netif_receive_skb"),
    (Point::Tcp, "packet_tcp", "tcp_probe"),
    (Point::Ready, "packet_ready", "sk_data_ready"),
    (Point::Copied, "packet_copied", "skb_copy_datagram_iovec"),
    (Point::Drop, "packet_drop", "kfree_skb"),
    (Point::Resent, "packet_resent", "tcp_retransmit_skb"),
];

/// What stands in for a program that the kernel refuses: before Linux 6.11, a drop does not name the receiving socket.
const INSTEAD: (&str, &str) = ("packet_drop", "packet_drop_old");

/// Names of devices that a filter may have at most.
pub const MAX_DEVICES: usize = 4;

/// Records that one call of [`Packets::drain`] takes at most.
const SOME: usize = 65_536;

/// Bytes of headers that are taken of a packet at most.
pub const MAX_SNAP: u8 = WS_M_HEADERS as u8;

/// What is traced, and how much.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketOptions {
    /// Which packets.
    pub filter: Filter,
    /// Only packets of which one end was chosen by [`Packets::choose`].
    pub only_ends: bool,
    /// Where they are seen.
    pub points: Vec<Point>,
    /// Functions of the kernel where they are seen, too; they take the packet as an argument.
    pub functions: Vec<String>,
    /// The devices of [`Point::Egress`] and [`Point::Ingress`].
    pub devices: Vec<Device>,
    /// Functions of programs that are told as marks in time.
    pub marks: Vec<Mark>,
    /// Bytes of headers that are told of each packet; at most [`MAX_SNAP`].
    pub snap: u8,
    /// Whether the functions are told in which the kernel was.
    pub stack: bool,
    /// One of so many flows, chosen by a hash of its addresses and ports; 0 and 1: all.
    pub one_flow_of: u32,
    /// Records at most.
    pub at_most: u64,
    /// Size of the ring buffer; a power of two, at least a page.
    pub ring_bytes: u32,
}

/// Attached programs. Dropping it detaches all of them, before anything else.
pub struct Packets {
    links: Vec<Link>,
    /// Programs of chosen devices.
    device_links: Vec<devices::Attached>,
    ring: Ring,
    skel: PacketSkel<'static>,
    clock: Clock,
    missing: Vec<(Point, String)>,
    reasons: FxHashMap<u32, Box<str>>,
    reader: Reader,
    bad: u64,
    /// Ids of the attached programs.
    ids: Vec<u32>,
}

fn open(options: &PacketOptions, programs: &[&str]) -> Result<OpenPacketSkel<'static>, CaptureError> {
    // Leaked on purpose, as the larger object is: a few bytes for each packet program that a user starts.
    let storage: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut skel = PacketSkelBuilder::default().open(storage).map_err(bpf("opening the programs of packets"))?;
    let filter = &options.filter;
    if let Some(rodata) = skel.maps.rodata_data.as_mut() {
        rodata.any_netns = filter.netns.is_empty();
        rodata.only_netns = if let [one] = filter.netns[..] { one } else { 0 };
        (rodata.source_address, rodata.source_mask) = filter.source.words();
        (rodata.destination_address, rodata.destination_mask) = filter.destination.words();
        (rodata.either_address, rodata.either_mask) = filter.address.words();
        rodata.source_port = filter.source_port;
        rodata.destination_port = filter.destination_port;
        rodata.either_port = filter.port;
        rodata.only_protocol = filter.protocol;
        rodata.any_of_flags = filter.tcp_flags;
        rodata.device_count = filter.devices.len() as u32;
        for (words, name) in rodata.device_names.chunks_exact_mut(2).zip(&filter.devices) {
            words.copy_from_slice(&record::device_words(name));
        }
        rodata.only_ether_type = filter.ether_type;
        rodata.which_headers = filter.headers as u8;
        rodata.only_hosts = !filter.hosts.is_empty();
        rodata.snap_bytes = options.snap.min(MAX_SNAP);
        rodata.with_stack = options.stack;
        rodata.only_ends = options.only_ends;
        rodata.one_flow_of = options.one_flow_of;
        rodata.at_most = options.at_most;
    }
    skel.maps.packets.set_max_entries(options.ring_bytes).map_err(bpf("sizing the ring of packets"))?;
    for mut program in skel.open_object_mut().progs_mut() {
        let wanted = program.name().to_str().is_some_and(|name| programs.contains(&name));
        program.set_autoload(wanted);
    }
    Ok(skel)
}

/// The chosen addresses, as the kernel programs look them up.
fn filter_hosts(options: &PacketOptions) -> Vec<Vec<u8>> {
    options.filter.hosts.iter().map(|host| record::end(SocketAddr::new(*host, 0))).collect()
}

impl Drop for Packets {
    fn drop(&mut self) {
        self.detach();
    }
}

impl Packets {
    /// Loads and attaches the programs. Packets are seen when it returns.
    pub fn open(options: &PacketOptions) -> Result<Self, CaptureError> {
        Packets::with_clock(options, Clock::now())
    }

    /// As [`Packets::open`], while these programs see packets, too. Times of both can be compared.
    pub fn beside(&self, options: &PacketOptions) -> Result<Self, CaptureError> {
        Packets::with_clock(options, self.clock.clone())
    }

    /// The present time by the clock of the sightings, Unix ns.
    pub fn time(&self) -> u64 {
        self.clock.time()
    }

    fn with_clock(options: &PacketOptions, clock: Clock) -> Result<Self, CaptureError> {
        privilege::require()?;
        if !options.ring_bytes.is_power_of_two() || options.at_most == 0 {
            return Err(CaptureError::Config(format!(
                "ring_bytes is {} (a power of two), at_most is {} (at least 1)",
                options.ring_bytes, options.at_most
            )));
        }
        if let Some(long) = options.filter.devices.iter().find(|name| name.len() > record::MAX_DEVICE_LEN) {
            return Err(CaptureError::Config(format!("`{long}` is longer than the name of a device can be")));
        }
        if options.filter.devices.len() > MAX_DEVICES {
            return Err(CaptureError::Config(format!("at most {MAX_DEVICES} devices can be named")));
        }
        listen_to_libbpf();
        let btf = libbpf_rs::btf::Btf::from_vmlinux().map_err(|_| CaptureError::NoBtf)?;
        let has = |tracepoint: &str| btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{tracepoint}")).is_some();
        let (mut programs, mut missing) = (Vec::new(), Vec::new());
        for (point, program, tracepoint) in PROGRAMS.iter().filter(|(point, ..)| options.points.contains(point)) {
            if has(tracepoint) {
                programs.push((*point, *program));
            } else {
                missing.push((*point, format!("it has no tracepoint {tracepoint}")));
            }
        }
        programs.extend(devices::PROGRAMS.iter().filter(|(point, _)| options.points.contains(point)));
        let named = Named::of(options, &btf)?;
        programs.extend(named.programs());
        let mut skel = loop {
            clear_log();
            let names: Vec<_> = programs.iter().map(|(_, name)| *name).collect();
            let error = match open(options, &names)?.load() {
                Ok(skel) => break skel,
                Err(error) => error,
            };
            let failed = failed_program();
            let Some(at) = failed.and_then(|name| programs.iter().position(|(_, p)| *p == name)) else {
                return Err(bpf("loading the programs of packets")(error));
            };
            let (point, name) = programs.remove(at);
            if matches!(point, Point::Function | Point::Mark) {
                return Err(CaptureError::Config(format!("the kernel refuses {name}: {}", reason())));
            } else if name == INSTEAD.0 {
                programs.push((point, INSTEAD.1));
            } else {
                missing.push((point, reason()));
            }
        };
        for inode in &options.filter.netns {
            let put = skel.maps.packet_netns.update(&inode.to_ne_bytes(), &[1], MapFlags::ANY);
            put.map_err(bpf("choosing a namespace"))?;
        }
        for host in &filter_hosts(options) {
            let put = skel.maps.packet_ends.update(host, &[WS_E_ASKED as u8], MapFlags::ANY);
            put.map_err(bpf("choosing an address"))?;
        }
        let ring = Ring::open(&skel.maps.packets).map_err(|e| bpf("mapping the ring of packets")(e.into()))?;
        let (mut links, mut device_links, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        // The end of the way first: a packet that is seen at its beginning is seen on all of its way.
        programs.sort_by_key(|(point, _)| std::cmp::Reverse(*point));
        for (point, name) in &programs {
            let found = skel.object_mut().progs_mut().find(|program| program.name().to_str() == Some(name));
            let Some(program) = found else { continue };
            let attached = match point {
                Point::Function | Point::Mark => named.attach(*point, &program)?,
                Point::Egress | Point::Ingress => {
                    let by_tcx = devices::is_there(&btf);
                    let found = devices::attach(*point, program.as_fd().as_raw_fd(), &options.devices, by_tcx);
                    device_links
                        .extend(found.map_err(|why| {
                            CaptureError::Config(format!("`where`: `tc`: {}: {why}", point.as_str()))
                        })?);
                    Vec::new()
                }
                _ => match program.attach() {
                    Ok(link) => vec![link],
                    Err(error) => {
                        missing.push((*point, error.to_string()));
                        continue;
                    }
                },
            };
            links.extend(attached);
            ids.extend(libbpf_rs::Program::id_from_fd(program.as_fd()));
        }
        let reasons = drop_reasons(&btf);
        let reader = named.reader();
        Ok(Packets { links, device_links, ring, skel, clock, missing, reasons, reader, bad: 0, ids })
    }

    /// Detaches all programs: from now on no packet is seen. What they saw, their counters and names stay.
    pub fn detach(&mut self) {
        self.device_links.clear();
        // The beginning of the way first, as above.
        while self.links.pop().is_some() {}
    }

    /// Tells packets from and to this address and port from now on. Of use with [`PacketOptions::only_ends`].
    pub fn choose(&self, end: SocketAddr) -> Result<(), CaptureError> {
        let put = self.skel.maps.packet_ends.update(&record::end(end), &[WS_E_ASKED as u8], MapFlags::ANY);
        put.map_err(bpf("choosing an end of connections"))
    }

    /// Tells packets from and to this address and port no longer, although a target has to do with it.
    pub fn leave(&self, end: SocketAddr) -> Result<(), CaptureError> {
        let put = self.skel.maps.packet_ends.update(&record::end(end), &[WS_E_LEFT as u8], MapFlags::ANY);
        put.map_err(bpf("leaving an end of connections"))
    }

    /// The table of chosen ends, for [`Options::watched_ends`](crate::Options::watched_ends): then it also gets the
    /// servers of targets, before their first packet.
    pub fn ends(&self) -> std::io::Result<OwnedFd> {
        self.skel.maps.packet_ends.as_fd().try_clone_to_owned()
    }

    /// If the table of ends is nearly full, forgets all but the addresses where targets listen. Returns how many ends
    /// those were.
    pub fn make_room(&self) -> usize {
        let ends = &self.skel.maps.packet_ends;
        let keys: Vec<_> = ends.keys().collect();
        if keys.len() < ends.max_entries() as usize / 4 * 3 {
            return 0;
        }
        let somewhere = keys.iter().filter(|key| PacketEnd::read(key).is_some_and(|end| end.netns == 0));
        somewhere.filter(|key| ends.delete(key).is_ok()).count()
    }

    /// Points that were asked for and that this kernel does not give, with the reason.
    pub fn missing(&self) -> &[(Point, String)] {
        &self.missing
    }

    /// Appends what was seen since the last call, without waiting. Returns whether there may be more.
    pub fn drain(&mut self, into: &mut Vec<Sighting>) -> bool {
        let Packets { ring, clock, bad, reader, .. } = self;
        let taken = ring.take(SOME, &mut |bytes| match reader.read(bytes, clock) {
            Some(sighting) => into.push(sighting),
            None => *bad += 1,
        });
        taken >= SOME
    }

    /// The kernel's name for the reason of a drop.
    pub fn reason(&self, number: u32) -> String {
        self.reasons.get(&number).map_or_else(|| format!("reason {number}"), ToString::to_string)
    }

    /// Sightings that were missed because the kernel does not run a program that would interrupt itself: an interrupt
    /// handles a packet while the same point is told of another one on the same processor.
    pub fn missed(&self) -> u64 {
        let own = ProgInfoIter::default().filter(|program| self.ids.contains(&program.id));
        own.map(|program| program.recursion_misses).sum()
    }

    /// Counters since the start.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let counts = self.skel.maps.bss_data.as_ref().map(|bss| bss.counts).unwrap_or_default();
        let of = |which: u32| counts.get(which as usize).copied().unwrap_or(0);
        let mut out: Vec<_> = WS_PACKET_COUNTERS.iter().map(|(which, name)| (*name, of(*which))).collect();
        out.push(("bad_records", self.bad));
        out
    }
}
