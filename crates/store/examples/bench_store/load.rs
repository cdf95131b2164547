//! Synthetic spans of a shop of twenty services: each span is a function of its number, so that nothing is kept.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use wirespan_model::{
    Endpoint, Evidence, ExchangeRange, FiveTuple, Key, Resource, Span, SpanId, SpanKind, Status, TapSide, TcpHealth,
    TraceId, Transport, Value,
};
use wirespan_store::TimeRange;

/// Spans per trace: twelve calls, each seen by the caller and by the called.
pub const TRACE_SPANS: usize = 24;
/// The spans of a trace lie this many rows apart at most.
pub const SCATTER: usize = 120_000;
const HOUR: u64 = 3_600_000_000_000;
const START: u64 = 1_800_000_000_000_000_000;
const SERVICES: u64 = 20;
/// Coprime to [`SCATTER`], so that it permutes the rows of a window.
const STEP: usize = 51_427;

pub struct Load {
    spans: usize,
    resources: Vec<Arc<Resource>>,
}

fn mix(n: u64) -> u64 {
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

impl Load {
    pub fn new(spans: usize) -> Load {
        let resource = |i: u64| Resource {
            service: format!("service-{i}").into(),
            host: format!("node-{}", i % 3).into(),
            executable: ["/usr/bin/python3.11", "/usr/local/bin/node", "/app/server"][i as usize % 3].into(),
            container: format!("{:064x}", mix(i)).into(),
            extra: vec![
                ("k8s.namespace.name".into(), "shop".into()),
                ("k8s.pod.name".into(), format!("service-{i}-7d4b9c").into()),
            ],
        };
        Load { spans, resources: (0..SERVICES).map(|i| Arc::new(resource(i))).collect() }
    }

    pub fn traces(&self) -> usize {
        // Only whole windows have whole traces.
        (self.spans / SCATTER).max(1) * (SCATTER / TRACE_SPANS)
    }

    pub fn times(&self) -> (u64, u64) {
        (START, START + HOUR)
    }

    /// The span at a place of the stream.
    pub fn span(&self, place: usize) -> Span {
        let window = place / SCATTER;
        let number = place % SCATTER * STEP % SCATTER;
        self.make(window * (SCATTER / TRACE_SPANS) + number / TRACE_SPANS, number % TRACE_SPANS, place)
    }

    /// Time range ± 5 minutes around a trace.
    pub fn around(&self, trace: usize) -> TimeRange {
        let window = trace / (SCATTER / TRACE_SPANS);
        let t = START + (HOUR / self.spans as u64) * (window * SCATTER + SCATTER / 2) as u64;
        // Of few spans, the scatter takes longer than that.
        let reach = (5 * 60 * 1_000_000_000).max(HOUR / self.spans as u64 * SCATTER as u64);
        TimeRange { from_ns: t - reach, to_ns: t + reach }
    }

    /// Every key of every span of a trace.
    pub fn trace_keys(&self, trace: usize) -> Vec<Key> {
        let mut keys: Vec<Key> = (0..TRACE_SPANS).flat_map(|i| self.make(trace, i, 0).keys()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    fn make(&self, trace: usize, i: usize, place: usize) -> Span {
        let (trace, call) = (trace as u64, (i / 2) as u64);
        let server_side = i % 2 == 1;
        let random = mix(trace << 8 | call);
        let own = mix(random ^ i as u64);
        let route = mix(trace % 40);
        let service = |n: u64| (route >> (n % 8)).wrapping_add(n * 3) % SERVICES;
        // Call n is made by the server of call n / 2.
        let (caller, called) = (service(call / 2), service(call + 1));
        let at = if server_side { called } else { caller };
        let exchange = |call: u64, server: bool| {
            let n = mix(trace << 8 | call) % 40;
            let socket = 1_000 + service(call + 1) * 100 + n + if server { 50 } else { 0 };
            socket << 24 | (trace * 12 + call) & 0xff_ffff
        };
        let mine = exchange(call, server_side);
        let gap = HOUR / self.spans as u64;
        let start = START + gap * place as u64 + own % gap.max(1);
        let duration = 150_000 + (own >> 20 & 0xf_ffff) * (1 << (own >> 50 & 7));
        let failed = random.is_multiple_of(50);
        let port = |n: u64| 8000 + n as u16;
        let ip = |n: u64| IpAddr::V4(Ipv4Addr::new(10, 0, (n % 3) as u8, 10 + n as u8));
        Span {
            id: SpanId(own | 1),
            tap: if server_side { TapSide::ServerProcess } else { TapSide::ClientProcess },
            kind: if server_side { SpanKind::Server } else { SpanKind::Client },
            protocol: Cow::Borrowed("http"),
            start_ns: start,
            // Most responses arrive in one piece.
            response_ns: start + if own.is_multiple_of(4) { duration * 9 / 10 } else { duration },
            end_ns: start + duration,
            status: if failed { Status::ServerError } else { Status::Ok },
            status_code: Some(if failed { 500 } else { 200 }),
            error: if failed { "upstream timed out".into() } else { "".into() },
            operation: ["GET", "POST", "PUT"][(random % 5 % 3) as usize].into(),
            target: format!("/api/v1/items/{}", random >> 8 & 0xfff).into(),
            request_bytes: 180 + random % 200,
            response_bytes: 300 + (random >> 12) % 5_000,
            tuple: FiveTuple {
                transport: Transport::Tcp,
                client: Endpoint { ip: ip(caller), port: 32_768 + ((mine >> 24) * 7 % 28_000) as u16 },
                server: Endpoint { ip: ip(called), port: port(called) },
            },
            socket: mine >> 24,
            pid: 1_000 + at as u32,
            tid: 1_000 + at as u32 + (own % 32) as u32,
            coroutine: 0,
            comm: ["python3", "node", "server"][at as usize % 3].into(),
            netns: 4_026_532_000 + at as u32,
            cgroup_id: 10_000 + at,
            host_id: mix(at % 3),
            exchange: Some(ExchangeRange { first: mine, last: mine }),
            cause: (!server_side && call > 0).then(|| exchange(call / 2, true)),
            cause_evidence: (!server_side && call > 0).then_some(Evidence::Thread),
            request_seq: Some(random as u32),
            response_seq: Some((random >> 32) as u32),
            message_id: None,
            trace_id: (trace % 5 == 0).then(|| {
                let mut id = [0; 16];
                id[..8].copy_from_slice(&mix(trace).to_le_bytes());
                id[8..].copy_from_slice(&mix(trace + 1).to_be_bytes());
                TraceId(id)
            }),
            parent_span_id: (trace % 5 == 0).then(|| SpanId(mix(random + 1) | 1)),
            request_id: (trace % 10 == 1).then(|| format!("{:032x}", mix(trace)).into()),
            attrs: vec![
                (Cow::Borrowed("server.address"), Value::from(format!("service-{called}.shop.svc"))),
                (
                    Cow::Borrowed("user_agent.original"),
                    Value::from(["python-requests/2.32.3", "node", "curl/8.7.1"][caller as usize % 3]),
                ),
                (Cow::Borrowed("http.request.body.size"), Value::Int((random % 900) as i64)),
            ],
            tcp: TcpHealth { srtt_ns: 40_000 + own % 60_000, queue_us: 5 + (own % 40) as u32, ..TcpHealth::default() },
            resource: self.resources[at as usize].clone(),
        }
    }
}
