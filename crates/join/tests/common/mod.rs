//! A small stage for the tests: one connection seen by one process, call by call.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod tls;

use std::sync::Arc;
use wirespan_join::{JoinConfig, Joiner, Resources, Verdict};
use wirespan_model::event::{Actor, SocketChange, TcpTotals};
use wirespan_model::{DataEvent, Direction, Endpoint, Event, Resource, Role, SocketEvent, SocketId, Span, Transport};

pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000_000_000;
pub const T0: u64 = 1_700_000_000 * S;

pub struct Nobody;

impl Resources for Nobody {
    fn resource(&self, actor: &Actor) -> Arc<Resource> {
        Arc::new(Resource { service: format!("svc-{}", actor.pid).into(), ..Resource::default() })
    }
}

pub fn end(last: u8, port: u16) -> Endpoint {
    Endpoint::new(std::net::IpAddr::from([10, 0, 0, last]), port)
}

/// A process at one end of a connection.
#[derive(Clone)]
pub struct End {
    pub socket: u64,
    pub role: Role,
    pub transport: Transport,
    pub local: Endpoint,
    pub remote: Endpoint,
    pub actor: Actor,
    pub seq: [Option<u32>; 2],
    pub exchange: u64,
    pub cause: u64,
    pub cut: usize,
}

impl End {
    pub fn client(socket: u64) -> Self {
        End {
            socket,
            role: Role::Client,
            transport: Transport::Tcp,
            local: end(1, 40000),
            remote: end(2, 80),
            actor: Actor { pid: 100, tid: 101, comm: *b"curl\0\0\0\0\0\0\0\0\0\0\0\0", ..Actor::default() },
            seq: [Some(5000), Some(1000)],
            exchange: 0,
            cause: 0,
            cut: 512,
        }
    }

    pub fn server(socket: u64) -> Self {
        let c = End::client(socket);
        End {
            role: Role::Server,
            local: c.remote,
            remote: c.local,
            actor: Actor { pid: 200, tid: 201, comm: *b"nginx\0\0\0\0\0\0\0\0\0\0\0", ..Actor::default() },
            seq: [Some(1000), Some(5000)],
            ..c
        }
    }

    pub fn udp(mut self) -> Self {
        self.transport = Transport::Udp;
        self.seq = [None, None];
        self
    }

    /// One call; `at` is the time of its return, it lasts 1 µs.
    pub fn call(&mut self, direction: Direction, at: u64, bytes: &[u8]) -> DataEvent {
        let i = direction as usize;
        let seq = self.seq[i];
        self.seq[i] = seq.map(|s| s.wrapping_add(bytes.len() as u32));
        DataEvent {
            socket: SocketId(self.socket),
            direction,
            role: self.role,
            transport: self.transport,
            local: self.local,
            remote: self.remote,
            actor: self.actor,
            seq,
            part: 0,
            enter_ns: at - 1000,
            exit_ns: at,
            waited_ns: 0,
            clocks: None,
            srtt_ns: 0,
            len: bytes.len() as u64,
            errno: 0,
            exchange: self.exchange,
            cause: self.cause,
            cause_evidence: None,
            plaintext: false,
            payload: bytes[..bytes.len().min(self.cut)].to_vec(),
        }
    }

    pub fn send(&mut self, at: u64, bytes: &[u8]) -> Event {
        Event::Data(self.call(Direction::Egress, at, bytes))
    }

    pub fn recv(&mut self, at: u64, bytes: &[u8]) -> Event {
        Event::Data(self.call(Direction::Ingress, at, bytes))
    }

    pub fn change(&self, at: u64, change: SocketChange) -> Event {
        Event::Socket(SocketEvent {
            socket: SocketId(self.socket),
            change,
            role: self.role,
            transport: self.transport,
            local: self.local,
            remote: self.remote,
            actor: self.actor,
            time_ns: at,
            cause: self.cause,
            cause_evidence: None,
            totals: TcpTotals { srtt_ns: 70_000, retransmits: 2, connect_ns: 0, ..TcpTotals::default() },
        })
    }
}

pub struct Stage {
    pub joiner: Joiner,
    pub spans: Vec<Span>,
}

impl Stage {
    pub fn new() -> Self {
        Stage::with(JoinConfig::default())
    }

    pub fn with(config: JoinConfig) -> Self {
        Stage { joiner: Joiner::new(config, 7, Box::new(Nobody)), spans: Vec::new() }
    }

    pub fn event(&mut self, event: Event) {
        let spans = &mut self.spans;
        self.joiner.event(event, &mut |s| spans.push(s));
    }

    pub fn tick(&mut self, now: u64) {
        let spans = &mut self.spans;
        self.joiner.tick(now, &mut |s| spans.push(s));
    }

    pub fn finish(&mut self) {
        let spans = &mut self.spans;
        self.joiner.finish(&mut |s| spans.push(s));
    }

    pub fn verdicts(&mut self) -> Vec<Verdict> {
        self.joiner.verdicts().into_iter().map(|v| v.1).collect()
    }

    pub fn stat(&self, name: &str) -> u64 {
        self.joiner.stats().counters().iter().find(|c| c.0 == name).unwrap().1
    }
}

pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: shop\r\n\r\n").into_bytes()
}

pub fn ok(body: usize) -> Vec<u8> {
    let mut r = format!("HTTP/1.1 200 OK\r\nContent-Length: {body}\r\n\r\n").into_bytes();
    r.extend(std::iter::repeat_n(b'x', body));
    r
}
