//! A made-up shop, as wirespan would observe it: the keys of the spans join them, and no span is linked by hand.
//!
//! web (Python) → cart (Go) → redis; web → catalog (Node) → DNS and a database that is not traced; web → payment
//! (Java), which fails now and then. One nightly job makes a trace of more than a thousand spans.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "shared by an example and by tests, which use different parts"
)]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use wirespan_model::test_support::SpanBuilder;
use wirespan_model::wait::{Holder, SpanWait, SpanWaits, WaitKind};
use wirespan_model::{
    Endpoint, Evidence, ExchangeRange, FiveTuple, Resource, Span, SpanId, SpanKind, Status, TapSide, TcpHealth, Text,
    Transport, Value,
};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const HOST_ID: u64 = 0x5a5a_0001;

#[derive(Clone)]
pub struct Service {
    resource: Arc<Resource>,
    pid: u32,
    ip: u8,
    port: u16,
    traced: bool,
    evidence: Evidence,
}

fn service(name: &str, executable: &str, n: u8, port: u16, evidence: Evidence) -> Service {
    let resource =
        Resource { service: name.into(), host: "shop-1".into(), executable: executable.into(), ..Resource::default() };
    Service { resource: Arc::new(resource), pid: 4000 + u32::from(n), ip: n, port, traced: true, evidence }
}

/// The origin of a call: the service, the exchange that it handles, and the thread.
#[derive(Clone)]
pub struct Caller<'a> {
    service: &'a Service,
    exchange: u64,
    tid: u32,
}

pub struct Ask<'a> {
    protocol: &'static str,
    operation: &'a str,
    target: &'a str,
    status: Status,
    code: i32,
    hops: bool,
}

fn http<'a>(operation: &'a str, target: &'a str, code: i32) -> Ask<'a> {
    let status = match code {
        500.. => Status::ServerError,
        400..=499 => Status::ClientError,
        _ => Status::Ok,
    };
    Ask { protocol: "http", operation, target, status, code, hops: false }
}

fn redis<'a>(operation: &'a str, target: &'a str) -> Ask<'a> {
    Ask { protocol: "redis", operation, target, status: Status::Ok, code: 0, hops: false }
}

pub struct Shop {
    pub spans: Vec<Arc<Span>>,
    counter: u64,
    seed: u64,
    web: Service,
    cart: Service,
    catalog: Service,
    payment: Service,
    redis: Service,
    database: Service,
    dns: Service,
    job: Service,
}

impl Shop {
    pub fn new() -> Self {
        let untraced = |s: Service| Service { traced: false, ..s };
        Shop {
            spans: Vec::new(),
            counter: 1,
            seed: 7,
            web: service("web", "/usr/bin/python3.11", 10, 8000, Evidence::Thread),
            cart: service("cart", "/srv/cart", 11, 8081, Evidence::Coroutine),
            catalog: service("catalog", "/usr/bin/node", 12, 8082, Evidence::EventLoop),
            payment: service("payment", "/usr/lib/jvm/bin/java", 13, 8083, Evidence::WakeUp),
            redis: service("redis", "/usr/bin/redis-server", 14, 6379, Evidence::Thread),
            database: untraced(service("database", "", 15, 5432, Evidence::Thread)),
            dns: untraced(service("dns", "", 53, 53, Evidence::Thread)),
            job: service("nightly-report", "/usr/bin/python3.11", 16, 8090, Evidence::Thread),
        }
    }

    fn id(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// Uniform in `0..below`; the same sequence in every run.
    fn random(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    /// One call: the span of the asking process, of the network between where `hops` says so, and of the answering
    /// process. Gives the caller for the calls below.
    fn call<'a>(
        &mut self,
        from: Option<&Caller<'_>>,
        to: &'a Service,
        ask: &Ask<'_>,
        start: u64,
        took: u64,
    ) -> Caller<'a> {
        let (request_seq, response_seq) = (self.random(u32::MAX.into()) as u32, self.random(u32::MAX.into()) as u32);
        let client_ip = from.map_or(200, |c| c.service.ip);
        let end = |ip: u8, port| Endpoint { ip: IpAddr::V4(Ipv4Addr::new(10, 7, 0, ip)), port };
        let dns = ask.protocol == "dns";
        let tuple = FiveTuple {
            transport: if dns { Transport::Udp } else { Transport::Tcp },
            client: end(client_ip, 30_000 + self.random(20_000) as u16),
            server: end(to.ip, to.port),
        };
        let response = start + took * 4 / 5;
        let mut base = SpanBuilder::client(0)
            .request(ask.protocol, ask.operation, ask.target)
            .status(ask.status, (ask.code != 0).then_some(ask.code))
            .bytes(120 + self.random(400), 300 + self.random(9_000))
            .host(HOST_ID)
            .sequence((!dns).then_some(request_seq), (!dns).then_some(response_seq))
            .build();
        base.tuple = tuple;
        base.netns = 4_026_531_840;
        base.message_id = dns.then_some(u64::from(request_seq & 0xffff));
        base.tcp = TcpHealth {
            srtt_ns: 40 * US + self.random(90) * US,
            connect_ns: 60 * US,
            queue_us: 5 + self.random(40) as u32,
            ..TcpHealth::default()
        };
        if let Some(c) = from {
            let socket = self.id();
            self.push(Span {
                tap: TapSide::ClientProcess,
                kind: SpanKind::Client,
                start_ns: start,
                response_ns: if ask.status == Status::NoResponse { 0 } else { response },
                end_ns: start + took,
                socket,
                pid: c.service.pid,
                tid: c.tid,
                comm: comm(c.service),
                exchange: Some(ExchangeRange { first: socket << 24, last: socket << 24 }),
                cause: Some(c.exchange),
                cause_evidence: Some(c.service.evidence),
                resource: Arc::clone(&c.service.resource),
                ..base.clone()
            });
        }
        if ask.hops {
            for (tap, position, delay) in [(TapSide::ClientNic, 2, 9 * US), (TapSide::ServerNic, 3, 31 * US)] {
                let resource = Resource { host: "shop-1".into(), ..Resource::default() };
                self.push(Span {
                    tap,
                    kind: SpanKind::Client,
                    start_ns: start + delay,
                    response_ns: response - delay,
                    end_ns: start + took - delay,
                    resource: Arc::new(resource),
                    attrs: vec![("wirespan.hop.position".into(), Value::Int(position))],
                    ..base.clone()
                });
            }
        }
        let (socket, tid) = (self.id(), to.pid + 1 + self.random(8) as u32);
        let exchange = socket << 24;
        if to.traced {
            let transit = 45 * US + self.random(20) * US;
            self.push(Span {
                tap: TapSide::ServerProcess,
                kind: SpanKind::Server,
                start_ns: start + transit.min(took / 4),
                response_ns: response - transit.min(took / 4),
                end_ns: start + took - transit.min(took / 4),
                socket,
                pid: to.pid,
                tid,
                comm: comm(to),
                exchange: Some(ExchangeRange { first: exchange, last: exchange }),
                resource: Arc::clone(&to.resource),
                ..base
            });
        }
        Caller { service: to, exchange, tid }
    }

    fn push(&mut self, mut span: Span) {
        let n = self.id();
        span.id = SpanId(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(n) | 1);
        if span.protocol == "http" {
            span.attrs.push(("user_agent.original".into(), Value::from("shop-load/1.0")));
            span.attrs.push(("http.route".into(), Value::from(route(&span.target))));
        }
        if span.tap == TapSide::ServerProcess && span.target == "/charge" {
            wait_for_the_ledger(&mut span);
        }
        if span.status == Status::ServerError {
            span.error = "upstream card processor timed out".into();
        }
        self.spans.push(Arc::new(span));
    }

    /// A visit to the shop's start page, order form or checkout. Gives the time at which it ended.
    pub fn visit(&mut self, start: u64, kind: u64) {
        let (web, cart, catalog, payment, redis_server, database, dns) = (
            self.web.clone(),
            self.cart.clone(),
            self.catalog.clone(),
            self.payment.clone(),
            self.redis.clone(),
            self.database.clone(),
            self.dns.clone(),
        );
        let slow = 1 + u64::from(self.random(12) == 0) * 9;
        let jitter = self.random(900) * US;
        match kind % 4 {
            0 | 1 => {
                let mut at = start + 400 * US;
                let front = self.call(None, &web, &http("GET", "/", 200), start, 9 * MS * slow + jitter);
                let ask = Ask { hops: true, ..http("GET", "/products?page=1", 200) };
                let c = self.call(Some(&front), &catalog, &ask, at, 4 * MS * slow);
                let lookup = Ask {
                    protocol: "dns",
                    operation: "A",
                    target: "db.shop.internal",
                    status: Status::Ok,
                    code: 0,
                    hops: false,
                };
                self.call(Some(&c), &dns, &lookup, at + 200 * US, 300 * US);
                let ask = Ask {
                    protocol: "postgresql",
                    operation: "SELECT",
                    target: "products",
                    status: Status::Ok,
                    code: 0,
                    hops: false,
                };
                self.call(Some(&c), &database, &ask, at + 700 * US, 2 * MS * slow);
                at += 4 * MS * slow + 300 * US;
                let c = self.call(Some(&front), &cart, &http("GET", "/cart/7", 200), at, 3 * MS * slow);
                self.call(Some(&c), &redis_server, &redis("HGETALL", "cart:7"), at + 300 * US, 400 * US);
            }
            2 => {
                let front = self.call(None, &web, &http("POST", "/cart/7/items", 201), start, 6 * MS + jitter);
                let c = self.call(Some(&front), &cart, &http("PUT", "/cart/7", 204), start + 500 * US, 4 * MS);
                self.call(Some(&c), &redis_server, &redis("HSET", "cart:7"), start + 900 * US, 500 * US);
                self.call(Some(&c), &redis_server, &redis("EXPIRE", "cart:7"), start + 1_600 * US, 300 * US);
            }
            _ => {
                let fails = self.random(3) == 0;
                let code = if fails { 502 } else { 200 };
                let front = self.call(None, &web, &http("POST", "/checkout", code), start, 48 * MS + jitter);
                let c = self.call(Some(&front), &cart, &http("GET", "/cart/7", 200), start + 700 * US, 3 * MS);
                self.call(Some(&c), &redis_server, &redis("HGETALL", "cart:7"), start + 1_000 * US, 400 * US);
                let ask = http("POST", "/charge", if fails { 504 } else { 200 });
                self.call(Some(&front), &payment, &ask, start + 4 * MS, 40 * MS);
            }
        }
    }

    /// A job that reads `calls` keys one after the other: a trace of `2 * calls + 1` spans.
    pub fn nightly_job(&mut self, start: u64, calls: u64) {
        let (job, redis_server) = (self.job.clone(), self.redis.clone());
        let step = 700 * US;
        let c = self.call(None, &job, &http("POST", "/report", 200), start, (calls + 2) * step);
        for n in 0..calls {
            let key = format!("sales:{n}");
            self.call(Some(&c), &redis_server, &redis("GET", &key), start + (n + 1) * step, 500 * US);
        }
    }

    /// `visits` over the last ten minutes before `now`, and the nightly job.
    pub fn day(now: u64, visits: u64) -> Vec<Arc<Span>> {
        let mut shop = Shop::new();
        for n in 0..visits {
            let ago = 600_000 * MS / visits.max(1) * (visits - n);
            let jitter = shop.random(2_000) * MS;
            shop.visit(now - ago - jitter, n);
        }
        shop.nightly_job(now - 240_000 * MS, 600);
        shop.spans
    }
}

fn comm(service: &Service) -> Text {
    service.resource.executable.rsplit('/').next().unwrap_or_default().into()
}

fn route(target: &str) -> &'static str {
    match target {
        t if t.starts_with("/cart/7/items") => "/cart/{id}/items",
        t if t.starts_with("/cart") => "/cart/{id}",
        t if t.starts_with("/products") => "/products",
        t if t.starts_with("/checkout") => "/checkout",
        t if t.starts_with("/charge") => "/charge",
        t if t.starts_with("/report") => "/report",
        _ => "/",
    }
}

/// A charge waits for a lock of the ledger, whose holder waits for the disk, and then for the network.
fn wait_for_the_ledger(span: &mut Span) {
    let parts = [("on_cpu", 6), ("run_queue", 2), ("blocked", 27), ("children", 5)];
    for (part, share) in parts {
        let ns = span.duration_ns() / 40 * share;
        span.attrs.push((format!("wirespan.wait.{part}").into(), Value::Int(ns as i64)));
    }
    let holder = Holder {
        who: "thread ledger-writer".into(),
        kind: Some(WaitKind::Disk),
        syscall: "fsync".into(),
        resource: "/var/lib/payment/ledger.log".into(),
        duration_ns: 21 * MS,
    };
    let wait = |kind, from: u64, duration_ns, ready_ns| SpanWait {
        kind,
        start_ns: span.start_ns + from,
        duration_ns,
        ready_ns,
        thread: "http-exec-3".into(),
        ..SpanWait::default()
    };
    let lock = SpanWait {
        syscall: "futex".into(),
        woken_by: "thread ledger-writer".into(),
        held_by: vec![holder],
        ..wait(WaitKind::Lock, 2 * MS, 24 * MS, 600 * US)
    };
    let socket = SpanWait {
        syscall: "recvfrom".into(),
        resource: "10.7.0.90:443".into(),
        woken_by: "network".into(),
        in_call: true,
        ..wait(WaitKind::Socket, 28 * MS, 5 * MS, 0)
    };
    let waits = SpanWaits {
        waits: vec![lock, socket, wait(WaitKind::RunQueue, 34 * MS, 2 * MS, 2 * MS)],
        left_out: 4,
        ..SpanWaits::default()
    };
    span.attrs.push(("wirespan.wait.reason".into(), Value::from("slow")));
    span.attrs.push(waits.attribute());
}

/// A store for the spans.
pub fn store() -> Result<Arc<dyn wirespan_store::Store>, wirespan_store::StoreError> {
    Ok(Arc::new(wirespan_store::Embedded::memory(wirespan_store::Options::default())?))
}
