//! Builders of packets and capture files for tests.
#![allow(dead_code, unreachable_pub)]

use wirespan_model::{DataEvent, Direction, Event, SocketEvent};
use wirespan_pcap::{Limits, PcapError, Replay, Stats};

pub const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 1], 40_000);
pub const SERVER: ([u8; 4], u16) = ([10, 0, 0, 2], 80);
pub const SYN: u8 = 2;
pub const ACK: u8 = 16;
pub const FIN: u8 = 1;
pub const RST: u8 = 4;
pub const MS: u64 = 1_000_000;

/// One frame and its time.
#[derive(Clone, Debug)]
pub struct Packet {
    pub time_ns: u64,
    pub frame: Vec<u8>,
}

fn ip_checksum(header: &[u8]) -> u16 {
    let sum: u32 = header.chunks(2).map(|p| u32::from(p[0]) << 8 | u32::from(p[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !(((sum & 0xffff) + (sum >> 16)) as u16)
}

pub fn ipv4(from: [u8; 4], to: [u8; 4], protocol: u8, id: u16, place: u16, payload: &[u8]) -> Vec<u8> {
    let mut p = vec![0x45, 0];
    p.extend((20 + payload.len() as u16).to_be_bytes());
    p.extend(id.to_be_bytes());
    p.extend(place.to_be_bytes());
    p.extend([64, protocol, 0, 0]);
    p.extend(from);
    p.extend(to);
    let sum = ip_checksum(&p);
    p[10..12].copy_from_slice(&sum.to_be_bytes());
    p.extend(payload);
    p
}

pub fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut p = vec![2; 12];
    p.extend(kind.to_be_bytes());
    p.extend(payload);
    p
}

pub fn tcp_bytes(from_port: u16, to_port: u16, seq: u32, ack: u32, flags: u8, window: u16, payload: &[u8]) -> Vec<u8> {
    let mut t = Vec::new();
    t.extend(from_port.to_be_bytes());
    t.extend(to_port.to_be_bytes());
    t.extend(seq.to_be_bytes());
    t.extend(ack.to_be_bytes());
    t.extend([0x50, flags]);
    t.extend(window.to_be_bytes());
    t.extend([0; 4]);
    t.extend(payload);
    t
}

pub fn udp_bytes(from_port: u16, to_port: u16, payload: &[u8]) -> Vec<u8> {
    let mut u = Vec::new();
    u.extend(from_port.to_be_bytes());
    u.extend(to_port.to_be_bytes());
    u.extend((8 + payload.len() as u16).to_be_bytes());
    u.extend([0, 0]);
    u.extend(payload);
    u
}

/// A segment; `to_server` gives its direction.
pub fn tcp(time_ms: u64, to_server: bool, seq: u32, ack: u32, flags: u8, payload: &[u8]) -> Packet {
    let (from, to) = if to_server { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
    let segment = tcp_bytes(from.1, to.1, seq, ack, flags, 1000, payload);
    Packet { time_ns: time_ms * MS, frame: ethernet(0x0800, &ipv4(from.0, to.0, 6, 0, 0, &segment)) }
}

/// SYN, SYN-ACK and ACK with these initial sequence numbers, 1 ms apart.
pub fn handshake(client_isn: u32, server_isn: u32) -> Vec<Packet> {
    let (c, s) = (client_isn.wrapping_add(1), server_isn.wrapping_add(1));
    vec![
        tcp(1, true, client_isn, 0, SYN, b""),
        tcp(2, false, server_isn, c, SYN | ACK, b""),
        tcp(3, true, c, s, ACK, b""),
    ]
}

/// A classic capture with nanoseconds.
pub fn pcap(link: u32, packets: &[Packet], snap_len: usize) -> Vec<u8> {
    let mut f = Vec::new();
    f.extend(0xa1b2_3c4du32.to_le_bytes());
    f.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    f.extend((snap_len as u32).to_le_bytes());
    f.extend(link.to_le_bytes());
    for p in packets {
        let cut = p.frame.len().min(snap_len);
        f.extend(((p.time_ns / 1_000_000_000) as u32).to_le_bytes());
        f.extend(((p.time_ns % 1_000_000_000) as u32).to_le_bytes());
        f.extend((cut as u32).to_le_bytes());
        f.extend((p.frame.len() as u32).to_le_bytes());
        f.extend(&p.frame[..cut]);
    }
    f
}

/// The events of a capture.
#[derive(Debug)]
pub struct Seen {
    pub events: Vec<Event>,
    pub stats: Stats,
    pub result: Result<(), PcapError>,
}

pub fn replay(file: &[u8]) -> Seen {
    replay_with(file, Limits::default())
}

pub fn replay_with(file: &[u8], limits: Limits) -> Seen {
    let mut replay = Replay::new(limits);
    let mut events = Vec::new();
    let result = replay.read("test.pcap", file, &mut |e| events.push(e));
    Seen { events, stats: replay.stats().clone(), result }
}

pub fn replay_packets(packets: &[Packet]) -> Seen {
    let seen = replay(&pcap(1, packets, 65_535));
    seen.result.as_ref().expect("a good capture");
    seen
}

impl Seen {
    pub fn data(&self) -> impl Iterator<Item = &DataEvent> {
        self.events.iter().filter_map(|e| if let Event::Data(d) = e { Some(d) } else { None })
    }

    pub fn sockets(&self) -> Vec<&SocketEvent> {
        self.events.iter().filter_map(|e| if let Event::Socket(s) = e { Some(s) } else { None }).collect()
    }

    /// Captured bytes of a direction, and the number that was sent.
    pub fn stream(&self, direction: Direction) -> (Vec<u8>, u64) {
        let mut bytes = Vec::new();
        let mut len = 0;
        for d in self.data().filter(|d| d.direction == direction) {
            bytes.extend(&d.payload);
            len += d.len;
        }
        (bytes, len)
    }
}
