//! The true ends of a connection whose addresses are translated on the way (DNAT, port forwarding, masquerade).
//!
//! Asks the kernel's connection tracking (ctnetlink) for one connection at a time, in the namespaces through which
//! targets' packets go: that of the socket, then the agent's own (the host's, which routes for containers). No
//! subscription to the connections of the whole machine: a question costs some microseconds, and only new connections
//! of targets are asked for. Clients are asked for once per destination and `FORGET`, as long as it is not translated;
//! namespaces that do not track the connections of targets are left alone as long. Entries outlive their connection
//! (TCP by two minutes), so that the answer is there when the span is. A connection that was refused leaves no entry:
//! that says nothing about its destination.
//!
//! Bias: without an answer the addresses stay as the socket has them.

mod local;
mod message;
mod socket;

use message::Tuple;
use rustc_hash::FxHashMap;
use socket::Socket;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wirespan_model::{Attr, Endpoint, FiveTuple, Span, TapSide, Transport};

/// How long a destination counts as not translated, and a namespace as not tracking.
const FORGET: Duration = Duration::from_secs(10);
/// How long the translation of a connection is remembered for spans; then its ports may be another connection's.
const REMEMBER: Duration = Duration::from_secs(10);
/// Most connections whose translation is remembered.
const MAX_KNOWN: usize = 65_536;
/// Most namespaces with a netlink socket of the agent.
const MAX_NAMESPACES: usize = 256;
/// Most questions per second. Further connections keep their addresses, and are counted.
const MAX_QUESTIONS: u32 = 5_000;
/// Consecutive unknown connections after which a namespace counts as not tracking targets' connections.
const STRANGER: u32 = 64;

/// Counters of queries and answers since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NatStats {
    /// Questions to the kernel.
    pub asked: u64,
    /// Connections that were found to be translated.
    pub translated: u64,
    /// Spans whose connection was not asked for: too many questions in this second, or too many namespaces.
    pub dropped_busy: u64,
    /// Questions that failed for another reason than "no such connection".
    pub failed: u64,
}

impl NatStats {
    /// The counters by name.
    pub fn counters(&self) -> [(&'static str, u64); 4] {
        [
            ("nat_asked", self.asked),
            ("nat_translated", self.translated),
            ("nat_dropped_busy", self.dropped_busy),
            ("nat_failed", self.failed),
        ]
    }
}

/// A pair of addresses and a port: what rules of translation look at.
type Pair = (u32, Transport, IpAddr, IpAddr, u16);

/// What is known about the ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// They are translated; these are the true ones.
    Translated(FiveTuple),
    /// The socket has the true ones.
    Plain,
    /// Nobody knows the connection (any more), or too much was asked.
    Unknown,
}

/// What a namespace says about a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    /// Nothing: it was not asked, because it cannot be or because it does not track such connections.
    Nothing,
    /// It knows the connection.
    Known,
    /// It does not know the connection, or the question failed.
    Unknown,
}

/// Which sockets ask: their namespace, and whether they serve.
type Origin = (u32, bool);

/// Whether connections of an origin are tracked in a namespace.
#[derive(Clone, Copy, Default)]
struct Tracked {
    /// Connections that were not known there, since the last one that was.
    misses: u32,
    /// When it was found that they are not.
    quiet: Option<Instant>,
}

/// A place where connections may be translated.
struct Namespace {
    /// `None`: it could not be entered.
    socket: Option<Socket>,
    tracked: FxHashMap<Origin, Tracked>,
}

impl Namespace {
    fn new(socket: Option<Socket>) -> Self {
        Namespace { socket, tracked: FxHashMap::default() }
    }

    /// The socket, unless a question is pointless.
    fn worth(&self, origin: Origin, now: Instant) -> Option<&Socket> {
        let quiet = self.tracked.get(&origin).and_then(|tracked| tracked.quiet);
        self.socket.as_ref().filter(|_| quiet.is_none_or(|at| now.duration_since(at) >= FORGET))
    }

    fn found(&mut self, origin: Origin, found: bool, now: Instant) {
        if self.tracked.len() >= 2 * MAX_NAMESPACES && !self.tracked.contains_key(&origin) {
            self.tracked.clear();
        }
        let tracked = self.tracked.entry(origin).or_default();
        tracked.misses = if found { 0 } else { tracked.misses.saturating_add(1) };
        tracked.quiet = (tracked.misses >= STRANGER).then_some(now);
    }
}

/// Looks up translated connections. It belongs to one thread.
pub struct Nat {
    proc: PathBuf,
    room: usize,
    remember: Duration,
    own: Namespace,
    own_netns: u32,
    /// By inode.
    others: FxHashMap<u32, Namespace>,
    plain: FxHashMap<Pair, Instant>,
    /// Connections that were asked for.
    known: FxHashMap<(u32, bool, FiveTuple), Ends>,
    /// The same with the time of the question, the oldest first.
    order: VecDeque<(Instant, (u32, bool, FiveTuple))>,
    second: Instant,
    questions: u32,
    stats: NatStats,
}

impl Nat {
    /// [`Nat::with_room`] for the spans of an agent.
    pub fn new(proc: &Path) -> Option<Self> {
        Nat::with_room(proc, MAX_KNOWN, REMEMBER)
    }

    /// Looks into `proc` (`/proc`) for the namespaces of processes; remembers `room` connections, each for a time.
    /// `None` if this user may not ask, or if connection tracking is not loaded: asking would load it, and that may
    /// change (ask again later).
    pub fn with_room(proc: &Path, room: usize, remember: Duration) -> Option<Self> {
        if !proc.join("sys/net/netfilter/nf_conntrack_max").exists() {
            return None;
        }
        let own = Socket::here().ok()?;
        // Ask for a connection that cannot exist: the answer shows whether connection tracking is loaded and may be
        // queried.
        let nobody = Tuple::new(Transport::Tcp, Endpoint::UNSPECIFIED, Endpoint::UNSPECIFIED);
        if own.ask(&nobody).is_err() {
            return None;
        }
        Some(Nat {
            own_netns: socket::netns(&proc.join("self")).unwrap_or(0),
            proc: proc.into(),
            room: room.max(1),
            remember,
            own: Namespace::new(Some(own)),
            others: FxHashMap::default(),
            plain: FxHashMap::default(),
            known: FxHashMap::default(),
            order: VecDeque::new(),
            second: Instant::now(),
            questions: 0,
            stats: NatStats::default(),
        })
    }

    /// Writes the true ends into a span of a process; what the socket had stays in `client.address` or
    /// `server.address`.
    pub fn apply(&mut self, span: &mut Span) {
        let serves = match span.tap {
            TapSide::ServerProcess => true,
            TapSide::ClientProcess => false,
            _ => return,
        };
        let seen = span.tuple;
        let Ends::Translated(real) = self.ends(seen, serves, span.netns, span.pid) else { return };
        span.tuple = real;
        let (address, port, old, peer) = if serves {
            ("client.address", "client.port", seen.client, real.client)
        } else {
            ("server.address", "server.port", seen.server, real.server)
        };
        let mut set = |key: &'static str, value: Attr| {
            if !span.attrs.iter().any(|(k, _)| k == key) {
                span.attrs.push(value);
            }
        };
        set(address, (address.into(), old.ip.to_string().into()));
        set(port, (port.into(), i64::from(old.port).into()));
        set("network.peer.address", ("network.peer.address".into(), peer.ip.to_string().into()));
        set("network.peer.port", ("network.peer.port".into(), i64::from(peer.port).into()));
    }

    /// The true ends of a connection, given the ends that the process's socket has. `serves` says whether the socket is
    /// the server's.
    pub fn ends(&mut self, seen: FiveTuple, serves: bool, netns: u32, pid: u32) -> Ends {
        let ip = seen.transport == Transport::Tcp || seen.transport == Transport::Udp;
        if !ip || seen.client.port == 0 || seen.server.port == 0 {
            return Ends::Unknown;
        }
        let now = Instant::now();
        self.forget(now);
        let key = (netns, serves, seen);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let pair = (netns, seen.transport, seen.client.ip, seen.server.ip, seen.server.port);
        // Do not remember clients by address: one address may stand for itself and for the hosts that it masquerades.
        if !serves && self.plain.get(&pair).is_some_and(|at| now.duration_since(*at) < FORGET) {
            return Ends::Plain;
        }
        if now.duration_since(self.second) >= Duration::from_secs(1) {
            (self.second, self.questions) = (now, 0);
        }
        if self.questions >= MAX_QUESTIONS {
            self.stats.dropped_busy += 1;
            return Ends::Unknown;
        }
        let mut real = seen;
        let mut said = [Said::Nothing; 2];
        if netns != self.own_netns {
            said[0] = self.ask((netns, serves), Some(pid), &mut real, now);
        }
        // What a host sends to itself under one address does not leave its namespace.
        if netns == self.own_netns || real.client.ip != real.server.ip {
            said[1] = self.ask((netns, serves), None, &mut real, now);
        }
        let ends = if real != seen {
            self.stats.translated += 1;
            Ends::Translated(real)
        } else if said.contains(&Said::Known) || !said.contains(&Said::Unknown) {
            Ends::Plain
        } else {
            Ends::Unknown
        };
        if said != [Said::Nothing; 2] {
            self.keep(key, ends, now);
        }
        if ends == Ends::Plain && !serves {
            if self.plain.len() >= self.room {
                self.plain.clear();
            }
            self.plain.insert(pair, now);
        }
        ends
    }

    /// Addresses of the agent's own namespace, which may stand for the hosts that it masquerades.
    pub fn own_addresses(&self) -> Vec<IpAddr> {
        local::addresses(&self.proc.join("self"))
    }

    fn forget(&mut self, now: Instant) {
        let old = |at: Instant| now.duration_since(at) >= self.remember;
        while self.order.front().is_some_and(|(at, _)| old(*at) || self.order.len() > self.room) {
            if let Some((_, key)) = self.order.pop_front() {
                self.known.remove(&key);
            }
        }
    }

    fn keep(&mut self, key: (u32, bool, FiveTuple), ends: Ends, now: Instant) {
        self.known.insert(key, ends);
        self.order.push_back((now, key));
    }

    /// Replaces the ends by those that a namespace knows: that of `pid`, or else the agent's own.
    fn ask(&mut self, origin: Origin, pid: Option<u32>, ends: &mut FiveTuple, now: Instant) -> Said {
        let (netns, serves) = origin;
        let namespace = match pid {
            None => &mut self.own,
            Some(pid) => {
                if !self.others.contains_key(&netns) {
                    if self.others.len() >= MAX_NAMESPACES {
                        self.others.clear();
                    }
                    // A process that has ended leaves its namespace to be entered through another one's span.
                    let Some(entered) = Socket::of(&self.proc.join(pid.to_string()), netns) else {
                        return Said::Nothing;
                    };
                    self.others.insert(netns, Namespace::new(entered.ok()));
                }
                let Some(namespace) = self.others.get_mut(&netns) else { return Said::Nothing };
                namespace
            }
        };
        let Some(socket) = namespace.worth(origin, now) else { return Said::Nothing };
        self.questions += 1;
        self.stats.asked += 1;
        // A connection is found by the first packet of either direction, as it looks where the socket is.
        let (from, to) = if serves { (ends.server, ends.client) } else { (ends.client, ends.server) };
        match socket.ask(&Tuple::new(ends.transport, from, to)) {
            Ok(entry) => {
                namespace.found(origin, entry.is_some(), now);
                let Some(entry) = entry else { return Said::Unknown };
                (ends.client, ends.server) = (entry.original.source, entry.reply.source);
                Said::Known
            }
            Err(_) => {
                self.stats.failed += 1;
                Said::Unknown
            }
        }
    }

    /// Counts since the start.
    pub fn stats(&self) -> NatStats {
        self.stats
    }
}
