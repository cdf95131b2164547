//! TCP and UDP headers.

use super::icmp::Icmp;
use super::ip::Packet;
use wirespan_model::Endpoint;

/// The payload of a packet.
pub(crate) enum Transported<'a> {
    Tcp(Segment<'a>),
    Udp(Datagram<'a>),
    Icmp(Icmp),
}

/// One TCP segment. `len` bytes were sent; `payload` holds the first of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) source: Endpoint,
    pub(crate) destination: Endpoint,
    pub(crate) domain: u64,
    pub(crate) ip_id: u16,
    pub(crate) ttl: u8,
    pub(crate) seq: u32,
    pub(crate) ack: Option<u32>,
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) rst: bool,
    pub(crate) psh: bool,
    pub(crate) window: u16,
    pub(crate) payload: &'a [u8],
    pub(crate) len: u32,
    pub(crate) time_ns: u64,
}

/// One UDP datagram. `len` bytes were sent; `payload` holds the first of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram<'a> {
    pub(crate) source: Endpoint,
    pub(crate) destination: Endpoint,
    pub(crate) domain: u64,
    pub(crate) payload: &'a [u8],
    pub(crate) len: u32,
    pub(crate) time_ns: u64,
}

pub(super) fn tcp<'a>(packet: &Packet<'a>, time_ns: u64) -> Result<Segment<'a>, &'static str> {
    const CUT: &str = "tcp_cut";
    let view = packet.payload;
    let header = usize::from(view.u8(12).ok_or(CUT)? >> 4) * 4;
    let flags = view.u8(13).ok_or(CUT)?;
    let window = view.u16(14).ok_or(CUT)?;
    if header < 20 || header > view.wire {
        return Err("tcp_bad_header");
    }
    // If the options are cut, nothing of the payload was captured.
    let payload = view.data.get(header..).unwrap_or_default();
    Ok(Segment {
        source: Endpoint::new(packet.source, view.u16(0).ok_or(CUT)?),
        destination: Endpoint::new(packet.destination, view.u16(2).ok_or(CUT)?),
        domain: view.domain,
        ip_id: packet.id,
        ttl: packet.ttl,
        seq: view.u32(4).ok_or(CUT)?,
        ack: (flags & 0x10 != 0).then_some(view.u32(8).ok_or(CUT)?),
        syn: flags & 0x02 != 0,
        fin: flags & 0x01 != 0,
        rst: flags & 0x04 != 0,
        psh: flags & 0x08 != 0,
        window,
        payload,
        len: u32::try_from(view.wire - header).map_err(|_| "tcp_bad_header")?,
        time_ns,
    })
}

pub(super) fn udp<'a>(packet: &Packet<'a>, time_ns: u64) -> Result<Datagram<'a>, &'static str> {
    const CUT: &str = "udp_cut";
    let view = packet.payload;
    let length = match usize::from(view.u16(4).ok_or(CUT)?) {
        0 => view.wire, // a jumbogram, or offloaded segmentation
        length => length,
    };
    if length < 8 || view.wire < 8 {
        return Err("udp_bad_length");
    }
    let body = view.limit(length).skip(8).ok_or(CUT)?;
    Ok(Datagram {
        source: Endpoint::new(packet.source, view.u16(0).ok_or(CUT)?),
        destination: Endpoint::new(packet.destination, view.u16(2).ok_or(CUT)?),
        domain: view.domain,
        payload: body.data,
        len: u32::try_from(body.wire).map_err(|_| "udp_bad_length")?,
        time_ns,
    })
}
