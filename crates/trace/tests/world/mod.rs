//! A small world for the tests: processes that call each other, the spans that they leave, and the truth.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use wirespan_model::test_support::SpanBuilder;
use wirespan_model::{Endpoint, Evidence, ExchangeRange, FiveTuple, Span, SpanId, Status, TapSide, Trace, Transport};

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000_000_000;
pub const T0: u64 = 1_700_000_000 * S;

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proc {
    pub host: u64,
    pub pid: u32,
    pub name: &'static str,
}

pub fn proc(host: u64, pid: u32, name: &'static str) -> Proc {
    Proc { host, pid, name }
}

/// The user's client, and the services of a small shop.
pub const USER: Proc = Proc { host: 1, pid: 10, name: "curl" };

pub fn edge() -> Proc {
    proc(1, 20, "gateway")
}
pub fn cart() -> Proc {
    proc(2, 30, "cart")
}
pub fn redis() -> Proc {
    proc(2, 40, "redis")
}

#[derive(Default)]
pub struct World {
    pub spans: Vec<Span>,
    pub truth: HashMap<SpanId, Option<SpanId>>,
    next: u32,
}

/// A request: indices of its two spans.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub client: usize,
    pub server: usize,
}

fn ip(host: u64) -> IpAddr {
    IpAddr::from([10, 0, (host >> 8) as u8, host as u8])
}

impl World {
    pub fn blank(&mut self, p: Proc, tap: TapSide, start: u64, end: u64) -> Span {
        self.next += 1;
        SpanBuilder::at(0x1000_0000 + u64::from(self.next), tap)
            .request("http", "GET", &format!("/{}", p.name))
            .time(start, end)
            .response_at(end)
            .host(p.host)
            .process(p.pid, p.pid, "")
            .service(p.name)
            .build()
    }

    /// A request from `from` (for the request `cause`, if any) to `to`, with its two spans; 50 µs on the way each way.
    pub fn call(&mut self, cause: Option<Call>, from: Proc, to: Proc, start: u64, end: u64) -> Call {
        let mut c = self.blank(from, TapSide::ClientProcess, start, end);
        let mut s = self.blank(to, TapSide::ServerProcess, start + 50 * US, end - 50 * US);
        let n = self.next;
        let tuple = FiveTuple {
            transport: Transport::Tcp,
            client: Endpoint::new(ip(from.host), 10_000 + (n % 50_000) as u16),
            server: Endpoint::new(ip(to.host), 80),
        };
        for span in [&mut c, &mut s] {
            span.tuple = tuple;
            span.request_seq = Some(n.wrapping_mul(7919));
            span.response_seq = Some(n.wrapping_mul(104_729));
        }
        c.socket = u64::from(n) * 2;
        s.socket = u64::from(n) * 2 + 1;
        let x = s.socket << 24 | 1;
        s.exchange = Some(ExchangeRange { first: x, last: x });
        if let Some(cause) = cause {
            let owner = &self.spans[cause.server];
            c.cause = owner.exchange.map(|e| e.last);
            c.cause_evidence = Some(Evidence::Thread);
        }
        self.truth.insert(c.id, cause.map(|c| self.spans[c.server].id));
        self.truth.insert(s.id, Some(c.id));
        self.spans.extend([c, s]);
        Call { client: self.spans.len() - 2, server: self.spans.len() - 1 }
    }

    /// Requests over one connection, 100 ms after each other. Each begins before the previous answer, so both own the
    /// same exchange. The server of each request calls another service.
    pub fn over_one_connection(&mut self, requests: u64) -> Vec<Call> {
        let (user, a, b) = (proc(1, 10, "user"), proc(1, 11, "a"), proc(1, 12, "b"));
        (0..requests)
            .map(|i| {
                let t = T0 + i * 100 * MS;
                let call = self.call(None, user, a, t, t + 150 * MS);
                let server = &mut self.spans[call.server];
                server.protocol = "grpc".into();
                server.socket = 77;
                server.message_id = Some(2 * i + 1);
                server.exchange = Some(ExchangeRange { first: 77 << 24 | i, last: 77 << 24 | (i + 1) });
                let name = server.stream_exchange();
                let behind = self.call(Some(call), a, b, t + 10 * MS, t + 20 * MS);
                self.spans[behind.client].cause = name;
                call
            })
            .collect()
    }

    pub fn arcs(&self) -> Vec<Arc<Span>> {
        self.spans.iter().cloned().map(Arc::new).collect()
    }

    pub fn id(&self, i: usize) -> SpanId {
        self.spans[i].id
    }
}

/// Parent of each span of some traces.
pub fn parents(traces: &[Trace]) -> HashMap<SpanId, Option<SpanId>> {
    traces.iter().flat_map(|t| &t.spans).map(|s| (s.span.id, s.link.map(|l| l.parent))).collect()
}

/// The link of one span.
pub fn link_of(traces: &[Trace], id: SpanId) -> Option<(SpanId, Evidence, f32)> {
    let s = traces.iter().flat_map(|t| &t.spans).find(|s| s.span.id == id).unwrap();
    s.link.map(|l| (l.parent, l.evidence, l.confidence))
}

/// Rules that every trace must keep, for any set of spans.
pub fn check(trace: &Trace) {
    let mut depth: HashMap<SpanId, u32> = HashMap::new();
    assert!(!trace.spans.is_empty());
    for s in &trace.spans {
        match s.link {
            None => assert_eq!(s.depth, 0),
            Some(l) => {
                let parent = depth.get(&l.parent).expect("a parent stands before its child");
                assert_eq!(s.depth, parent + 1);
                assert!(l.confidence > 0.0 && l.confidence <= 1.0, "{l:?}");
            }
        }
        assert!(depth.insert(s.span.id, s.depth).is_none(), "a span stands once");
    }
}

/// Numbers that look random (SplitMix64).
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }
}

/// An untraced caller → gateway → cart ×10 → a database that is not observed; the last call to it fails.
pub fn failing_shop() -> World {
    let mut w = World::default();
    let (user, gateway, cart, db) = (proc(9, 1, "user"), proc(1, 2, "gateway"), proc(2, 3, "cart"), proc(3, 4, "db"));
    for i in 0..10 {
        let t = T0 + i * 100 * MS;
        let a = w.call(None, user, gateway, t, t + 20 * MS);
        let b = w.call(Some(a), gateway, cart, t + 2 * MS, t + 12 * MS);
        let c = w.call(Some(b), cart, db, t + 3 * MS, t + 4 * MS);
        w.spans[c.client].protocol = "redis".into();
        if i == 9 {
            w.spans[c.client].status = Status::Reset;
            w.spans[c.client].error = "ECONNRESET".into();
        }
    }
    w.spans.retain(|s| &*s.resource.service != "user" && &*s.resource.service != "db");
    w
}
