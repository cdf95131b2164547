//! The true ends of a connection whose addresses are translated on the way (DNAT, port forwarding, masquerade).
//!
//! Asks the kernel's connection tracking (ctnetlink) for one connection at a time, in the namespaces through which
//! targets' packets go: that of the socket, then the agent's own (the host's, which routes for containers). No
//! subscription to the connections of the whole machine: a question costs some microseconds, and only new connections
//! of targets are asked for. Clients are asked for once per destination and `FORGET`, as long as it is not translated;
//! namespaces that do not track the connections of targets are left alone as long. Entries outlive their connection
//! (TCP by two minutes), so that the answer is there when the span is.
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

/// A place where connections may be translated.
struct Namespace {
    /// `None`: it could not be entered.
    socket: Option<Socket>,
    /// Connections that it did not know, since the last one that it knew.
    misses: u32,
    /// When it was found not to track connections of targets.
    quiet: Option<Instant>,
}

impl Namespace {
    fn new(socket: Option<Socket>) -> Self {
        Namespace { socket, misses: 0, quiet: None }
    }

    /// The socket, unless a question is pointless.
    fn worth(&mut self, now: Instant) -> Option<&Socket> {
        if self.quiet.is_some_and(|at| now.duration_since(at) < FORGET) {
            return None;
        }
        self.socket.as_ref()
    }

    fn found(&mut self, found: bool, now: Instant) {
        self.misses = if found { 0 } else { self.misses.saturating_add(1) };
        self.quiet = (self.misses >= STRANGER).then_some(now);
    }
}

/// Looks up translated connections. It belongs to one thread.
pub struct Nat {
    proc: PathBuf,
    room: usize,
    own: Namespace,
    own_netns: u32,
    /// By inode.
    others: FxHashMap<u32, Namespace>,
    plain: FxHashMap<Pair, Instant>,
    /// Connections that were asked for; `None`: not translated.
    known: FxHashMap<(u32, bool, FiveTuple), Option<FiveTuple>>,
    /// The order in which they came, the oldest first.
    order: VecDeque<(u32, bool, FiveTuple)>,
    second: Instant,
    questions: u32,
    stats: NatStats,
    certain: bool,
}

impl Nat {
    /// [`Nat::with_room`] for the spans of an agent.
    pub fn new(proc: &Path) -> Option<Self> {
        Nat::with_room(proc, MAX_KNOWN)
    }

    /// Looks into `proc` (`/proc`) for the namespaces of processes; remembers `room` connections. `None` if this user
    /// may not ask, or if connection tracking is not loaded: asking would load it, and that may change (ask again
    /// later).
    pub fn with_room(proc: &Path, room: usize) -> Option<Self> {
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
            own: Namespace::new(Some(own)),
            others: FxHashMap::default(),
            plain: FxHashMap::default(),
            known: FxHashMap::default(),
            order: VecDeque::new(),
            second: Instant::now(),
            questions: 0,
            stats: NatStats::default(),
            certain: false,
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
        let Some(real) = self.ends(seen, serves, span.netns, span.pid) else { return };
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

    /// The true ends of a connection, given the ends that the process's socket has; `None` if they are the same, or not
    /// known. `serves` says whether the socket is the server's.
    pub fn ends(&mut self, seen: FiveTuple, serves: bool, netns: u32, pid: u32) -> Option<FiveTuple> {
        let (busy, failed) = (self.stats.dropped_busy, self.stats.failed);
        let ends = self.look_up(seen, serves, netns, pid);
        self.certain = busy == self.stats.dropped_busy && failed == self.stats.failed;
        ends
    }

    /// Whether the last answer of [`Nat::ends`] is certain: nothing kept the kernel from being asked.
    pub fn was_certain(&self) -> bool {
        self.certain
    }

    /// Addresses of the agent's own namespace, which may stand for the hosts that it masquerades.
    pub fn own_addresses(&self) -> Vec<IpAddr> {
        local::addresses(&self.proc.join("self"))
    }

    fn look_up(&mut self, seen: FiveTuple, serves: bool, netns: u32, pid: u32) -> Option<FiveTuple> {
        let ip = seen.transport == Transport::Tcp || seen.transport == Transport::Udp;
        if !ip || seen.client.port == 0 || seen.server.port == 0 {
            return None;
        }
        let key = (netns, serves, seen);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let now = Instant::now();
        let pair = (netns, seen.transport, seen.client.ip, seen.server.ip, seen.server.port);
        // Do not remember clients by address: one address may stand for itself and for the hosts that it masquerades.
        if !serves && self.plain.get(&pair).is_some_and(|at| now.duration_since(*at) < FORGET) {
            return None;
        }
        if now.duration_since(self.second) >= Duration::from_secs(1) {
            (self.second, self.questions) = (now, 0);
        }
        if self.questions >= MAX_QUESTIONS {
            self.stats.dropped_busy += 1;
            return None;
        }
        let mut real = seen;
        let mut asked = false;
        if netns != self.own_netns {
            asked |= self.ask(Some((netns, pid)), &mut real, serves, now);
        }
        asked |= self.ask(None, &mut real, serves, now);
        let found = (real != seen).then_some(real);
        if asked {
            self.keep(key, found);
        }
        if found.is_some() {
            self.stats.translated += 1;
        } else if !serves {
            if self.plain.len() >= self.room {
                self.plain.clear();
            }
            self.plain.insert(pair, now);
        }
        found
    }

    fn keep(&mut self, key: (u32, bool, FiveTuple), found: Option<FiveTuple>) {
        if self.known.len() >= self.room {
            if let Some(old) = self.order.pop_front() {
                self.known.remove(&old);
            }
        }
        self.known.insert(key, found);
        self.order.push_back(key);
    }

    /// Replaces the ends by those that a namespace knows; false if it was not asked.
    fn ask(&mut self, place: Option<(u32, u32)>, ends: &mut FiveTuple, serves: bool, now: Instant) -> bool {
        let namespace = match place {
            None => &mut self.own,
            Some((netns, pid)) => {
                if !self.others.contains_key(&netns) {
                    if self.others.len() >= MAX_NAMESPACES {
                        self.others.clear();
                    }
                    // A process that has ended leaves its namespace to be entered through another one's span.
                    let Some(entered) = Socket::of(&self.proc.join(pid.to_string()), netns) else { return false };
                    self.others.insert(netns, Namespace::new(entered.ok()));
                }
                let Some(namespace) = self.others.get_mut(&netns) else { return false };
                namespace
            }
        };
        let Some(socket) = namespace.worth(now) else { return false };
        self.questions += 1;
        self.stats.asked += 1;
        // A connection is found by the first packet of either direction, as it looks where the socket is.
        let (from, to) = if serves { (ends.server, ends.client) } else { (ends.client, ends.server) };
        match socket.ask(&Tuple::new(ends.transport, from, to)) {
            Ok(entry) => {
                namespace.found(entry.is_some(), now);
                if let Some(entry) = entry {
                    (ends.client, ends.server) = (entry.original.source, entry.reply.source);
                }
            }
            Err(_) => self.stats.failed += 1,
        }
        true
    }

    /// Counts since the start.
    pub fn stats(&self) -> NatStats {
        self.stats
    }
}
