//! Addresses and connections as small keys, the same at both ends of a connection.

use std::net::IpAddr;
use wirespan_model::event::Role;
use wirespan_model::key::hash64;
use wirespan_model::{Endpoint, Flow, Span, Transport};

/// An address as one host sees it. Loopback is a different address on each host and in each network namespace.
pub(crate) type Place = (u64, u32, Endpoint);

pub(crate) fn place(host: u64, netns: u32, end: Endpoint) -> Place {
    if end.ip.is_loopback() {
        (host, netns, end)
    } else {
        (0, 0, end)
    }
}

pub(crate) fn place_id((host, netns, end): Place) -> u64 {
    hash64(&[&host.to_le_bytes(), &netns.to_le_bytes(), &ip_bytes(end.ip), &end.port.to_le_bytes()])
}

fn ip_bytes(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v) => v.to_ipv6_mapped().octets(),
        IpAddr::V6(v) => v.octets(),
    }
}

/// One connection, the same at both of its ends (but for NAT between them).
pub(crate) fn connection(span: &Span) -> u64 {
    let t = &span.tuple;
    // Unix sockets have no address, so all Unix sockets of a host count as one.
    let local = t.server.ip.is_loopback() || t.server.port == 0;
    let host = if local { span.host_id } else { 0 };
    hash64(&[
        &ip_bytes(t.client.ip),
        &t.client.port.to_le_bytes(),
        &ip_bytes(t.server.ip),
        &t.server.port.to_le_bytes(),
        &[t.transport as u8],
        &host.to_le_bytes(),
    ])
}

/// The first sequence numbers of the request and the response. They are the same at both ends, even behind NAT.
pub(crate) fn wire(span: &Span) -> Option<u64> {
    let (request, response) = (span.request_seq?, span.response_seq?);
    Some(u64::from(request) << 32 | u64::from(response))
}

/// All connections from one address to one port at another, as flow records know them.
pub(crate) fn link(transport: Transport, client: IpAddr, server: Endpoint, host: u64, netns: u32) -> u64 {
    let (host, netns) = if server.ip.is_loopback() { (host, netns) } else { (0, 0) };
    hash64(&[
        &[transport as u8],
        &ip_bytes(client),
        &ip_bytes(server.ip),
        &server.port.to_le_bytes(),
        &host.to_le_bytes(),
        &netns.to_le_bytes(),
    ])
}

/// The two ends of a flow record.
#[derive(Clone, Copy)]
pub(crate) struct FlowEnds {
    pub(crate) link: u64,
    pub(crate) from: IpAddr,
    pub(crate) to: Place,
    /// The record is of the server's side.
    pub(crate) serves: bool,
    /// The record has no other end: it belongs to a listening socket.
    pub(crate) alone: bool,
}

impl FlowEnds {
    pub(crate) fn of(flow: &Flow) -> Self {
        let k = &flow.key;
        // Peers of equal rank are ordered by their addresses, so that both name the same edge.
        let serves = k.role == Role::Server || (k.role == Role::Unknown && k.remote < k.local);
        let (from, ip) = if serves { (k.remote, k.local) } else { (k.local, k.remote) };
        let server = Endpoint::new(ip, k.port);
        FlowEnds {
            link: link(k.transport, from, server, k.host_id, k.netns),
            from,
            to: place(k.host_id, k.netns, server),
            serves: serves || (k.role != Role::Client && k.remote == k.local),
            alone: k.remote.is_unspecified(),
        }
    }
}

/// Service of a span; the name of the thread if the span has none.
pub(crate) fn service(span: &Span) -> &str {
    match &*span.resource.service {
        "" => &span.comm,
        name => name,
    }
}
