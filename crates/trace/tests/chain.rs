//! From events to traces: three services with thread pools and kept connections, many users at once, events of
//! different sockets arriving in any order. Every trace must be exactly what happened.
#![allow(clippy::unwrap_used)]

use proptest::prelude::{prop, proptest, ProptestConfig};
use std::collections::HashMap;
use std::sync::Arc;
use wirespan_join::{JoinConfig, Joiner, Resources};
use wirespan_model::event::Actor;
use wirespan_model::{
    DataEvent, Direction, Endpoint, Event, Resource, Role, SocketId, Span, Status, TapSide, Transport,
};
use wirespan_trace::link;

const T0: u64 = 1_700_000_000_000_000_000;
const US: u64 = 1_000;

struct Names;

impl Resources for Names {
    fn resource(&self, actor: &Actor) -> Arc<Resource> {
        Arc::new(Resource { service: format!("svc{}", actor.pid).into(), ..Resource::default() })
    }
}

/// A kept connection; the kernel's counters at both ends.
struct Conn {
    client: u64,
    server: u64,
    port: u16,
    seq: [u32; 2],
    exchange: u64,
    free_at: u64,
}

/// A pool of threads or connections. The one that is free first is taken.
fn free<T>(pool: &mut [T], at: impl Fn(&T) -> u64) -> usize {
    (0..pool.len()).min_by_key(|i| at(&pool[*i])).unwrap()
}

struct Sim {
    /// Connections between service n and n + 1.
    conns: Vec<Vec<Conn>>,
    /// Threads of each service: the time at which each is free again.
    threads: Vec<Vec<u64>>,
    events: Vec<(u64, DataEvent)>,
    jitter: Vec<u64>,
}

impl Sim {
    #[allow(clippy::too_many_arguments)]
    fn call(&mut self, conn: (usize, usize), server: bool, egress: bool, tid: u32, at: u64, cause: u64, bytes: &str) {
        let c = &mut self.conns[conn.0][conn.1];
        let up = server != egress;
        let socket = if server { c.server } else { c.client };
        let seq = c.seq[usize::from(up)];
        // Each byte is sent once and received once, so the receiver advances the counter.
        if !egress {
            c.seq[usize::from(up)] = seq.wrapping_add(bytes.len() as u32);
        }
        let ends =
            [Endpoint::new([10, 0, 0, 1].into(), c.port), Endpoint::new([10, 0, 0, 2].into(), 80 + conn.0 as u16)];
        let pid = conn.0 as u32 + u32::from(server) + 1;
        let event = DataEvent {
            socket: SocketId(socket),
            direction: if egress { Direction::Egress } else { Direction::Ingress },
            role: if server { Role::Server } else { Role::Client },
            transport: Transport::Tcp,
            local: ends[usize::from(server)],
            remote: ends[usize::from(!server)],
            actor: Actor { pid, tid: pid * 1000 + tid, ..Actor::default() },
            seq: Some(seq),
            part: 0,
            enter_ns: at - 200,
            exit_ns: at,
            waited_ns: 0,
            clocks: None,
            srtt_ns: 0,
            len: bytes.len() as u64,
            errno: 0,
            exchange: if server { socket << 24 | c.exchange } else { 0 },
            cause,
            cause_evidence: None,
            plaintext: false,
            payload: bytes.as_bytes()[..bytes.len().min(512)].to_vec(),
        };
        let late = self.jitter[socket as usize % self.jitter.len()];
        self.events.push((at + late, event));
    }

    /// A request of service `level` (thread `tid`, acting for `cause`) to the next one; returns when the answer is
    /// there.
    fn request(&mut self, level: usize, tid: u32, at: u64, cause: u64, path: &str) -> u64 {
        let i = free(&mut self.conns[level], |c| c.free_at);
        let at = at.max(self.conns[level][i].free_at) + 10 * US;
        let conn = (level, i);
        let ask = format!("GET {path} HTTP/1.1\r\nHost: svc\r\n\r\n");
        self.conns[level][i].exchange += 1;
        self.call(conn, false, true, tid, at, cause, &ask);
        let thread = free(&mut self.threads[level + 1], |t| *t);
        let begin = (at + 30 * US).max(self.threads[level + 1][thread]);
        let server_tid = thread as u32;
        self.call(conn, true, false, server_tid, begin, 0, &ask);
        let c = &self.conns[level][i];
        let own = c.server << 24 | c.exchange;
        self.threads[level + 1][thread] = u64::MAX;
        self.conns[level][i].free_at = u64::MAX;
        let mut now = begin + 20 * US;
        if level + 1 < self.conns.len() {
            for n in 0..2 {
                now = self.request(level + 1, server_tid, now, own, &format!("{path}/{n}")) + 5 * US;
            }
        }
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", 700, "x".repeat(700));
        self.call(conn, true, true, server_tid, now, 0, &answer);
        self.call(conn, false, false, tid, now + 30 * US, cause, &answer);
        self.threads[level + 1][thread] = now + US;
        self.conns[level][i].free_at = now + 31 * US;
        now + 31 * US
    }
}

/// Runs `users` × `rounds` requests through three services; checks every trace.
fn run(users: usize, rounds: usize, sizes: [usize; 2], jitter: Vec<u64>) {
    let mut next = 1u64;
    let mut conns = |n: usize| -> Vec<Conn> {
        (0..n)
            .map(|_| {
                next += 2;
                let seq = [(next as u32).wrapping_mul(2_654_435_761), (next as u32).wrapping_mul(40_503_001)];
                Conn { client: next, server: next + 1, port: next as u16 + 1000, seq, exchange: 0, free_at: 0 }
            })
            .collect()
    };
    let mut sim = Sim {
        conns: vec![conns(users), conns(sizes[0]), conns(sizes[1])],
        threads: vec![vec![], vec![0; users], vec![0; sizes[0]], vec![0; sizes[1]]],
        events: Vec::new(),
        jitter,
    };
    for round in 0..rounds {
        for user in 0..users {
            let at = T0 + (round * users + user) as u64 * 7 * US;
            sim.request(0, 0, at, 0, &format!("/{round}.{user}"));
        }
    }
    sim.events.sort_by_key(|(at, _)| *at);
    let mut joiner = Joiner::new(JoinConfig::default(), 7, Box::new(Names));
    let mut spans: Vec<Arc<Span>> = Vec::new();
    for (_, e) in sim.events {
        joiner.event(Event::Data(e), &mut |s| spans.push(Arc::new(s)));
    }
    joiner.finish(&mut |s| spans.push(Arc::new(s)));
    assert!(spans.iter().all(|s| s.status == Status::Ok), "{:?}", joiner.stats());
    // 1 + 2 + 4 requests, seen at both ends.
    assert_eq!(spans.len(), users * rounds * 14);
    let traces = link(spans);
    assert_eq!(traces.len(), users * rounds);
    for t in &traces {
        let root = t.spans[0].span.target.clone();
        let by_id: HashMap<_, _> = t.spans.iter().map(|s| (s.span.id, &s.span)).collect();
        for s in &t.spans {
            let expected = match (s.span.tap, s.link.map(|l| by_id[&l.parent])) {
                (TapSide::ClientProcess, None) => root.to_string(),
                (TapSide::ClientProcess, Some(p)) => {
                    assert_eq!((p.tap, p.pid, p.tid), (TapSide::ServerProcess, s.span.pid, s.span.tid));
                    s.span
                        .target
                        .rsplit_once('/')
                        .map(|t| t.0)
                        .filter(|up| **up == *p.target)
                        .map(|_| &s.span.target)
                        .unwrap()
                        .to_string()
                }
                (_, parent) => parent.unwrap().target.to_string(),
            };
            assert_eq!(*s.span.target, *expected);
        }
        assert_eq!(t.spans.len(), 14, "{root}");
    }
}

#[test]
fn requests_of_one_user_are_exact() {
    run(1, 50, [1, 1], vec![0]);
}

#[test]
fn two_hundred_users_share_small_pools() {
    run(200, 5, [16, 4], vec![0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn events_of_different_sockets_come_in_any_order(
        users in 1usize..40,
        pools in (1usize..8, 1usize..8),
        jitter in prop::collection::vec(0u64..20_000_000, 1..50),
    ) {
        run(users, 3, [pools.0, pools.1], jitter);
    }
}
