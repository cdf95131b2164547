//! pcapng: sections of blocks. Several interfaces per section, each with its own link type, clock resolution and
//! offset.

use super::{Frame, Got, Input, Order, MAX_RECORD};
use crate::error::PcapError;
use crate::packet::Link;
use crate::stats::Stats;

pub(super) const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const MAX_BLOCK: u32 = 16 << 20;
const MAX_INTERFACES: usize = 65_536;

const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

const OPTION_RESOLUTION: u16 = 9;
const OPTION_OFFSET: u16 = 14;

#[derive(Clone, Copy)]
struct Interface {
    /// Link layer; `None` if it is not known. Its packets are then counted and skipped.
    link: Option<Link>,
    snap_len: u32,
    /// Units per second of its timestamps.
    per_second: u64,
    /// Seconds to add to its timestamps.
    offset_s: i64,
}

#[derive(Default)]
pub(super) struct Ng {
    order: Order,
    interfaces: Vec<Interface>,
    last_ns: u64,
    block: Vec<u8>,
    /// A link type that could not be read, and whether any frame could be read.
    unknown_link: Option<u16>,
    read_any: bool,
}

impl Ng {
    pub(super) fn next(
        &mut self,
        input: &mut Input<'_>,
        frame: &mut Frame,
        stats: &mut Stats,
    ) -> Result<bool, PcapError> {
        loop {
            let mut head = [0; 8];
            match input.fill(&mut head)? {
                Got::All => {}
                Got::Nothing => return self.end(input),
                Got::Part => return cut(stats),
            }
            let mut already = 8;
            if head.starts_with(&SECTION_HEADER) {
                let mut magic = [0; 4];
                if input.fill(&mut magic)? != Got::All {
                    return cut(stats);
                }
                already = 12;
                self.order = match (u32::from_be_bytes(magic), u32::from_le_bytes(magic)) {
                    (BYTE_ORDER_MAGIC, _) => Order::Big,
                    (_, BYTE_ORDER_MAGIC) => Order::Little,
                    _ => return Err(input.damaged(12, "a section header without byte-order mark")),
                };
                self.interfaces.clear();
            }
            let (kind, total) = (self.order.u32(&head, 0), self.order.u32(&head, 4));
            if total % 4 != 0 || !(already + 4..=MAX_BLOCK).contains(&total) {
                return Err(input.damaged(u64::from(already), format!("a block of {total} bytes")));
            }
            let mut block = std::mem::take(&mut self.block);
            let got = input.fill_vec(&mut block, (total - already) as usize)?;
            self.block = block;
            if got != Got::All {
                return cut(stats);
            }
            let body = self.block.get(..self.block.len() - 4).unwrap_or_default();
            let was = match kind {
                INTERFACE => {
                    let interface = read_interface(self.order, body, stats);
                    if interface.link.is_none() {
                        self.unknown_link = Some(self.order.u16(body, 0));
                    }
                    if self.interfaces.len() >= MAX_INTERFACES {
                        return Err(input.damaged(u64::from(total), "too many interfaces"));
                    }
                    self.interfaces.push(interface);
                    None
                }
                ENHANCED_PACKET => self.packet(body, self.order.u32(body, 0) as usize),
                OBSOLETE_PACKET => self.packet(body, usize::from(self.order.u16(body, 0))),
                SIMPLE_PACKET => self.simple(body),
                _ => None, // names, statistics and other blocks without packets
            };
            let Some(packet) = was else {
                if matches!(kind, ENHANCED_PACKET | OBSOLETE_PACKET | SIMPLE_PACKET) {
                    return Err(
                        input.damaged(u64::from(total), "a packet longer than its block, or of no known interface")
                    );
                }
                continue;
            };
            let Some(link) = packet.link else {
                stats.bump("link_unsupported");
                continue;
            };
            self.read_any = true;
            self.last_ns = packet.time_ns;
            frame.time_ns = packet.time_ns;
            frame.link = link;
            frame.wire_len = packet.wire_len;
            frame.data.clear();
            frame.data.extend_from_slice(body.get(packet.at..packet.at + packet.captured).unwrap_or_default());
            return Ok(true);
        }
    }

    /// The end of the file. It is an error if no packet could be read because of its link type.
    fn end(&self, input: &Input<'_>) -> Result<bool, PcapError> {
        match self.unknown_link.filter(|_| !self.read_any) {
            Some(link) => Err(PcapError::LinkType { file: input.name.clone(), link }),
            None => Ok(false),
        }
    }

    /// Reads an enhanced packet block (or its obsolete twin): interface, time, captured length, wire length, data.
    fn packet(&self, body: &[u8], interface: usize) -> Option<Packet> {
        let interface = self.interfaces.get(interface)?;
        let (captured, wire) = (self.order.u32(body, 12), self.order.u32(body, 16));
        let time = u64::from(self.order.u32(body, 4)) << 32 | u64::from(self.order.u32(body, 8));
        self.checked(body, 20, captured, wire, interface, interface.time_ns(time))
    }

    /// Reads a simple packet block: interface 0, without a time (the packet before gives it).
    fn simple(&self, body: &[u8]) -> Option<Packet> {
        let interface = self.interfaces.first()?;
        let wire = self.order.u32(body, 0);
        let room = u32::try_from(body.len().saturating_sub(4)).ok()?;
        let snap = if interface.snap_len == 0 { u32::MAX } else { interface.snap_len };
        self.checked(body, 4, wire.min(snap).min(room), wire, interface, self.last_ns)
    }

    fn checked(
        &self,
        body: &[u8],
        at: usize,
        captured: u32,
        wire: u32,
        interface: &Interface,
        time_ns: u64,
    ) -> Option<Packet> {
        let fits = captured <= MAX_RECORD && body.len() >= at + captured as usize;
        let wire_len = wire.max(captured) as usize;
        fits.then_some(Packet { at, captured: captured as usize, wire_len, time_ns, link: interface.link })
    }
}

struct Packet {
    at: usize,
    captured: usize,
    wire_len: usize,
    time_ns: u64,
    link: Option<Link>,
}

fn cut(stats: &mut Stats) -> Result<bool, PcapError> {
    stats.bump("file_cut_short");
    Ok(false)
}

impl Interface {
    fn time_ns(&self, units: u64) -> u64 {
        let ns = u128::from(units) * 1_000_000_000 / u128::from(self.per_second.max(1));
        let shifted = i128::try_from(ns).unwrap_or(0) + i128::from(self.offset_s) * 1_000_000_000;
        u64::try_from(shifted.max(0)).unwrap_or(u64::MAX)
    }
}

fn read_interface(order: Order, body: &[u8], stats: &mut Stats) -> Interface {
    let mut interface = Interface {
        link: Link::from_number(order.u16(body, 0)),
        snap_len: order.u32(body, 4),
        per_second: 1_000_000,
        offset_s: 0,
    };
    let mut at = 8;
    while let Some(rest) = body.get(at..).filter(|r| r.len() >= 4) {
        let (code, len) = (order.u16(rest, 0), usize::from(order.u16(rest, 2)));
        let Some(value) = rest.get(4..4 + len) else {
            stats.bump("file_bad_option");
            break;
        };
        match (code, value) {
            (0, _) => break,
            (OPTION_RESOLUTION, [power]) => {
                // The upper bit tells whether the rest is a power of two or of ten.
                let exponent = u32::from(power & 0x7f);
                let base: u64 = if power & 0x80 == 0 { 10 } else { 2 };
                match base.checked_pow(exponent) {
                    Some(n) => interface.per_second = n,
                    None => stats.bump("file_bad_option"),
                }
            }
            (OPTION_OFFSET, value) if value.len() == 8 => {
                let (first, second) = (u64::from(order.u32(value, 0)), u64::from(order.u32(value, 4)));
                let joined = if order == Order::Big { first << 32 | second } else { second << 32 | first };
                interface.offset_s = joined as i64;
            }
            _ => {}
        }
        at += 4 + len.next_multiple_of(4);
    }
    interface
}
