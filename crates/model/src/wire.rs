//! What both ends of an exchange have in common.

use crate::key::{hash64, Key, KeyKind};
use crate::net::{Endpoint, Transport};
use crate::span::Span;
use smallvec::SmallVec;
use std::net::IpAddr;

impl Span {
    /// Whether the message id alone names the exchange: it is made of random numbers of its client, so that no other
    /// exchange has it, and it does not change where addresses are translated.
    pub fn is_named_by_id(&self) -> bool {
        self.protocol == "quic"
    }

    /// Keys of the same bytes on the wire: the pair of TCP sequence numbers (NAT does not change them), and the
    /// five-tuple with the first sequence number or the message id (for exchanges observed in part), or the message id
    /// alone. Of datagrams, the ports and the message id: a socket that is not connected may not know its own address.
    pub fn wire_keys(&self) -> SmallVec<[Key; 2]> {
        let mut keys = SmallVec::new();
        let mut push = |value| keys.push(Key { kind: KeyKind::Wire, value });
        if let (Some(id), true) = (self.message_id, self.is_named_by_id()) {
            push(hash64(&[b"named", self.protocol.as_bytes(), &id.to_le_bytes()]));
            return keys;
        }
        if let (Some(req), Some(resp)) = (self.request_seq, self.response_seq) {
            push(hash64(&[b"seq", &req.to_le_bytes(), &resp.to_le_bytes()]));
        }
        let id = match (self.request_seq, self.response_seq, self.message_id) {
            (Some(req), _, _) => Some((b'q', u64::from(req))),
            (None, Some(resp), _) => Some((b'r', u64::from(resp))),
            (None, None, Some(id)) => Some((b'i', id)),
            _ => None,
        };
        if let Some((tag, id)) = id {
            let t = &self.tuple;
            let end_bytes = if t.transport == Transport::Udp { port_bytes } else { end_bytes };
            push(hash64(&[
                &[tag],
                &id.to_le_bytes(),
                &end_bytes(t.client),
                &end_bytes(t.server),
                &[t.transport as u8],
            ]));
        }
        keys
    }
}

/// The port of an endpoint, as bytes to hash.
fn port_bytes(end: Endpoint) -> [u8; 18] {
    end_bytes(Endpoint { port: end.port, ..Endpoint::UNSPECIFIED })
}

/// An endpoint as bytes to hash. Formatting it as text would cost more than all other keys of a span together.
fn end_bytes(end: Endpoint) -> [u8; 18] {
    let mut bytes = [0; 18];
    let ip = match end.ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&end.port.to_be_bytes());
    bytes
}
