//! The entry: events in, spans out.

use crate::config::JoinConfig;
use crate::conn::Conn;
use crate::datagrams::DatagramSockets;
use crate::ends::Ends;
use crate::env::Env;
use crate::named::NamedJobs;
use crate::order::Orders;
use crate::provisional::ProvisionalCauses;
use crate::settle::{Failed, Settling};
use crate::stats::JoinStats;
use crate::table::{ConnKey, Table};
use crate::verdict::Verdict;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use wirespan_model::event::{Actor, AliasKind, ContextEvent, SocketChange, StreamCause, TaskChange, TcpTrouble, Wake};
use wirespan_model::sdk::SdkSpan;
use wirespan_model::{DataEvent, Endpoint, Event, Resource, SocketEvent, SocketId, Span, Transport};

/// Age after which a process's resource is asked for again, ns. Containers and names become known late.
const EPOCH_NS: u64 = 5_000_000_000;
/// How far the events' time may run ahead of the last tick before the joiner ticks by itself, ns (capture files).
const SELF_TICK_NS: u64 = 1_000_000_000;

/// Source of resources: the identity of processes.
pub trait Resources {
    /// The resource of the process behind an event. Called once per connection and process, and again every few
    /// seconds.
    fn resource(&self, actor: &Actor) -> Arc<Resource>;
}

/// Spans that wait: first for their real cause, then for news of the loss of their bytes.
#[derive(Default)]
struct Waiting {
    named: NamedJobs,
    causes: ProvisionalCauses,
    settling: Settling,
}

/// Turns the events of one host into spans. See the crate's documentation.
pub struct Joiner {
    env: Env,
    table: Table,
    ends: Ends,
    /// Timers of connections: time (Unix ns), slot, generation of the slot.
    timers: BinaryHeap<Reverse<(u64, u32, u32)>>,
    now_ns: u64,
    ticked_ns: u64,
    /// Latest time given to [`Joiner::tick`], Unix ns; 0 if it was never called.
    clock_ns: u64,
    epoch_ns: u64,
    /// Taken out while an event is handled, as it receives that event's spans. Boxed: it moves with every event.
    waiting: Option<Box<Waiting>>,
}

impl Joiner {
    /// A joiner for the events of the host `host_id` (hash of machine id and boot id).
    pub fn new(config: JoinConfig, host_id: u64, resources: Box<dyn Resources + Send>) -> Self {
        Joiner {
            env: Env {
                config,
                host_id,
                resources,
                stats: JoinStats::default(),
                verdicts: Vec::new(),
                datagrams: DatagramSockets::default(),
                orders: Orders::default(),
                sdk_spans: Vec::new(),
                epoch: 0,
                buffered: 0,
                scratch: [Vec::new(), Vec::new()],
            },
            table: Table::new(),
            ends: Ends::default(),
            timers: BinaryHeap::new(),
            now_ns: 0,
            ticked_ns: 0,
            clock_ns: 0,
            epoch_ns: 0,
            waiting: Some(Box::default()),
        }
    }

    /// Takes an event. Finished spans go to `sink`.
    pub fn event(&mut self, mut event: Event, sink: &mut dyn FnMut(Span)) {
        self.env.orders.name(&mut event);
        match event {
            Event::Data(d) => self.with_waiting(sink, |joiner, sink| joiner.data(d, sink)),
            Event::Socket(e) => self.with_waiting(sink, |joiner, sink| joiner.socket(&e, sink)),
            Event::Context(c) => self.context(&c, sink),
            Event::Stream(c) => self.stream(&c, sink),
            Event::Trouble(t) => {
                self.waiting.get_or_insert_default().settling.trouble(&t, self.env.config.settle_ns);
                self.with_waiting(sink, |joiner, sink| joiner.trouble(&t, sink));
            }
            Event::Task(t) => {
                self.env.stats.task_in += 1;
                if t.change == TaskChange::Exec {
                    self.env.epoch = self.env.epoch.wrapping_add(1);
                }
            }
            Event::Handed(h) => {
                let Waiting { named, causes, .. } = &mut **self.waiting.get_or_insert_default();
                if let Some(alias) = named.handed(&h) {
                    self.env.stats.resolved_causes += 1;
                    causes.resolve(&alias);
                }
            }
            Event::Alias(a) if a.kind == AliasKind::Born => self.env.orders.born(a.provisional, a.cause),
            Event::Alias(a) => {
                self.env.stats.resolved_causes += u64::from(a.kind == AliasKind::Name);
                self.waiting.get_or_insert_default().causes.resolve(&a);
            }
            Event::Wake(wake) => self.waiting.get_or_insert_default().causes.wake(wake),
            Event::SdkSpan(span) => self.env.sdk_spans.push(span),
            Event::Waits(_) | Event::Calls(_) => {} // of threads, not of connections
        }
    }

    /// Runs `work`, whose spans may have to wait for their real cause and for news of losses.
    fn with_waiting(&mut self, sink: &mut dyn FnMut(Span), work: impl FnOnce(&mut Self, &mut dyn FnMut(Span))) {
        let mut waiting = self.waiting.take().unwrap_or_default();
        let Waiting { named, causes, settling } = &mut *waiting;
        let wait_ns = self.env.config.settle_ns;
        let mut settle = |span| settling.pass(span, wait_ns, sink);
        work(self, &mut |mut span| {
            named.see(&mut span);
            causes.pass(span, &mut settle);
        });
        self.env.stats.unresolved_causes += causes.give_up(self.now_ns, &mut settle);
        settling.release(self.now_ns, sink);
        self.env.stats.settled_spans = settling.waited;
        self.waiting = Some(waiting);
    }

    fn data(&mut self, d: DataEvent, sink: &mut dyn FnMut(Span)) {
        self.env.stats.data_in += 1;
        self.advance(d.exit_ns, sink);
        let key = ConnKey::new(d.socket, d.transport, &d.remote);
        let slot = match self.table.slot(&key) {
            Some(slot) => slot,
            None => {
                let conn = Conn::new(key, d.transport, (d.local, d.remote), d.role, &d.actor, &self.env);
                self.insert(key, conn, sink)
            }
        };
        self.table.touch(slot);
        self.read(slot, d, sink);
        self.arm(slot);
    }

    /// Gives a call to its connection. The other end of the connection is told of its spans if it cannot read them.
    fn read(&mut self, slot: u32, d: DataEvent, sink: &mut dyn FnMut(Span)) {
        let other = d.plaintext.then(|| self.ends.other_of(slot)).flatten();
        let other = other.filter(|other| self.table.get_mut(*other).is_some_and(|c| c.listens()));
        let Some(conn) = self.table.get_mut(slot) else { return };
        let Some(other) = other else {
            let was_tls = conn.tls_ends().is_some();
            conn.data(d, &mut self.env, sink);
            if let Some(ends) = conn.tls_ends().filter(|_| !was_tls) {
                self.meet(slot, ends);
            }
            return;
        };
        let mut told = Vec::new();
        conn.data(d, &mut self.env, &mut |span: Span| {
            told.push(span.clone());
            sink(span);
        });
        if let Some(conn) = self.table.get_mut(other).filter(|_| !told.is_empty()) {
            told.into_iter().for_each(|span| conn.hear(span, &mut self.env, sink));
            self.arm(other);
        }
    }

    /// A connection was found to speak TLS. If its other end is on this host, too, each learns of the other.
    fn meet(&mut self, slot: u32, ends: (Endpoint, Endpoint)) {
        let Some(other) = self.ends.add(slot, ends) else { return };
        for slot in [slot, other] {
            if let Some(conn) = self.table.get_mut(slot) {
                conn.meet();
            }
        }
    }

    /// Takes a trace context of a request. A context for an unknown connection is ignored.
    fn context(&mut self, c: &ContextEvent, sink: &mut dyn FnMut(Span)) {
        self.advance(c.time_ns, sink);
        let key = ConnKey::new(c.socket, Transport::Tcp, &Endpoint::UNSPECIFIED);
        if let Some(conn) = self.table.slot(&key).and_then(|slot| self.table.get_mut(slot)) {
            self.env.stats.contexts_in += 1;
            conn.context(c);
        }
    }

    fn stream(&mut self, c: &StreamCause, sink: &mut dyn FnMut(Span)) {
        self.env.stats.stream_causes_in += 1;
        self.advance(c.time_ns, sink);
        let key = ConnKey::new(c.socket, Transport::Tcp, &Endpoint::UNSPECIFIED);
        match self.table.slot(&key).and_then(|slot| self.table.get_mut(slot)) {
            Some(conn) => conn.stream_cause(c),
            None => self.env.stats.stream_causes_lost += 1,
        }
    }

    /// Takes a retransmission or a reset, for the open spans of its connection. `event` has shown it to the waiting
    /// spans.
    fn trouble(&mut self, t: &TcpTrouble, sink: &mut dyn FnMut(Span)) {
        self.env.stats.trouble_in += 1;
        self.advance(t.time_ns, sink);
        let key = ConnKey::new(t.socket, Transport::Tcp, &Endpoint::UNSPECIFIED);
        if let Some(conn) = self.table.slot(&key).and_then(|slot| self.table.get_mut(slot)) {
            conn.trouble(t);
        }
    }

    fn socket(&mut self, e: &SocketEvent, sink: &mut dyn FnMut(Span)) {
        self.env.stats.socket_in += 1;
        self.advance(e.time_ns, sink);
        let key = ConnKey::new(e.socket, e.transport, &e.remote);
        let mut slot = self.table.slot(&key);
        // A capture file may use one pair of ends for two connections. Nothing of the first belongs to the second.
        if let Some(old) = slot.filter(|_| e.change == SocketChange::Open) {
            if self.table.get_mut(old).is_some_and(|c| c.is_ending()) {
                self.drop_slot(old, sink);
                slot = None;
            }
        }
        let slot = match slot {
            Some(slot) => slot,
            None => {
                // If nothing else of the connection was observed, its orderly end makes no span.
                let worth_a_span = match e.change {
                    SocketChange::ConnectFailed(_) => true,
                    SocketChange::Open | SocketChange::Reset(_) => e.transport == Transport::Tcp,
                    SocketChange::Close => false,
                };
                if !worth_a_span {
                    return;
                }
                let conn = Conn::new(key, e.transport, (e.local, e.remote), e.role, &e.actor, &self.env);
                self.insert(key, conn, sink)
            }
        };
        self.table.touch(slot);
        if let Some(conn) = self.table.get_mut(slot) {
            conn.socket(e, &mut self.env, sink);
        }
        self.arm(slot);
    }

    fn insert(&mut self, key: ConnKey, conn: Conn, sink: &mut dyn FnMut(Span)) -> u32 {
        while self.table.len() >= self.env.config.max_connections.max(1) {
            let Some(oldest) = self.table.oldest() else { break };
            self.env.stats.evicted_connections += 1;
            self.drop_slot(oldest, sink);
        }
        self.env.stats.connections += 1;
        self.table.insert(key, Box::new(conn))
    }

    fn drop_slot(&mut self, slot: u32, sink: &mut dyn FnMut(Span)) {
        self.ends.remove(slot);
        if let Some(mut conn) = self.table.remove(slot) {
            conn.finish(&mut self.env, sink);
        }
    }

    /// Sets the timer of a connection, unless an earlier one is set.
    fn arm(&mut self, slot: u32) {
        let generation = self.table.generation(slot);
        let Some(conn) = self.table.get_mut(slot) else { return };
        let Some(at) = conn.deadline(self.now_ns, &self.env.config) else { return };
        if conn.armed_ns == 0 || at < conn.armed_ns {
            conn.armed_ns = at;
            self.timers.push(Reverse((at, slot, generation)));
        }
    }

    /// Advances the time by that of an event: the clock of a capture file. A caller that ticks has a better clock.
    fn advance(&mut self, event_ns: u64, sink: &mut dyn FnMut(Span)) {
        if self.clock_ns != 0 {
            return;
        }
        self.now_ns = self.now_ns.max(event_ns);
        if self.ticked_ns == 0 {
            self.ticked_ns = self.now_ns;
        } else if self.now_ns.saturating_sub(self.ticked_ns) >= SELF_TICK_NS {
            self.run_timers(sink);
        }
    }

    /// Reports what has waited long enough. Call it about every 100 ms with the host's time (Unix ns, the clock of the
    /// events). It costs nothing if nothing waits. Without it, the events' own time counts.
    pub fn tick(&mut self, now_ns: u64, sink: &mut dyn FnMut(Span)) {
        self.clock_ns = self.clock_ns.max(now_ns);
        self.now_ns = self.clock_ns;
        self.with_waiting(sink, |joiner, sink| joiner.run_timers(sink));
    }

    fn run_timers(&mut self, sink: &mut dyn FnMut(Span)) {
        self.ticked_ns = self.now_ns;
        if self.now_ns.saturating_sub(self.epoch_ns) >= EPOCH_NS {
            self.epoch_ns = self.now_ns;
            self.env.epoch = self.env.epoch.wrapping_add(1);
        }
        while let Some(Reverse((at, slot, generation))) = self.timers.peek().copied() {
            if at > self.now_ns {
                break;
            }
            self.timers.pop();
            if self.table.generation(slot) != generation {
                continue;
            }
            let Some(conn) = self.table.get_mut(slot).filter(|c| c.armed_ns == at) else { continue };
            conn.armed_ns = 0;
            if conn.tick(self.now_ns, &mut self.env, sink) {
                self.ends.remove(slot);
                self.table.remove(slot);
            } else {
                self.arm(slot);
            }
        }
    }

    /// Reports everything that waits: no events follow.
    pub fn finish(&mut self, sink: &mut dyn FnMut(Span)) {
        self.with_waiting(sink, |joiner, sink| {
            for slot in joiner.table.slots() {
                joiner.drop_slot(slot, sink);
            }
        });
        let Waiting { causes, settling, .. } = &mut **self.waiting.get_or_insert_default();
        let mut settle = |span| settling.pass(span, 0, sink);
        self.env.stats.unresolved_causes += causes.give_up(u64::MAX, &mut settle);
        settling.release(u64::MAX, sink);
        self.timers.clear();
    }

    /// Takes the verdicts since the last call, oldest first, for the kernel's table of connections.
    pub fn verdicts(&mut self) -> Vec<(SocketId, Verdict)> {
        std::mem::take(&mut self.env.verdicts)
    }

    /// Takes the wake-ups whose cause is known since the last call: evidence for the inference, which has the spans.
    pub fn wakes(&mut self) -> Vec<Wake> {
        self.waiting.as_mut().map_or(Vec::new(), |waiting| waiting.causes.wakes())
    }

    /// Takes the spans of SDKs that threads were seen in since the last call.
    pub fn sdk_spans(&mut self) -> Vec<SdkSpan> {
        std::mem::take(&mut self.env.sdk_spans)
    }

    /// Takes the requests that failed since the last call, though their spans may still wait.
    pub fn failed(&mut self) -> Vec<Failed> {
        self.waiting.as_mut().map_or(Vec::new(), |waiting| std::mem::take(&mut waiting.settling.failed))
    }

    /// Counters.
    pub fn stats(&self) -> &JoinStats {
        &self.env.stats
    }

    /// Connections kept at present.
    pub fn connections(&self) -> usize {
        self.table.len()
    }

    /// Captured bytes kept at present, over all connections.
    pub fn buffered(&self) -> usize {
        self.env.buffered
    }
}
