//! A stream of finished spans → whole traces, for export.
//!
//! Spans that share a key wait together in a group. When no span has come for a while, [`link`] splits the group into
//! traces. A request's span ends after the calls that the request caused, so a group that misses the request of one of
//! its calls waits longer. A group is remembered after its export: a late span gets its trace id and its parent. Spans
//! that sent messages to a broker are kept longer, as messages may wait there.
//!
//! A call waits with the request that caused it. Two requests with the same name do not wait together: on a shared
//! connection every request under way has that name, one after the other, and the group would never be idle.

mod config;
mod shelf;

pub use config::{StreamConfig, StreamStats};

use crate::fold::{fold, is_noise};
use crate::forest::link;
use crate::links::{nearest, Moves};
use crate::related::{keys, own_names};
use rustc_hash::{FxHashMap, FxHashSet};
use shelf::Shelf;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::sync::Arc;
use wirespan_model::broker::{message_ranges, Transfer};
use wirespan_model::{Key, KeyKind, Span, SpanId, SpanLink, TapSide, Trace, TraceId};

struct Kept {
    span: Arc<Span>,
    /// The trace id under which the group was exported.
    exported: Option<TraceId>,
}

struct Group {
    spans: Vec<Kept>,
    fresh: usize,
    last_ns: u64,
    due_ns: u64,
}

/// Assembles traces of spans in any order. One thread; time comes with [`Stream::tick`].
pub struct Stream {
    config: StreamConfig,
    groups: FxHashMap<u64, Group>,
    by_key: FxHashMap<Key, u64>,
    /// Groups of the requests that own this exchange, for the calls that name it as their cause.
    named: FxHashMap<Key, SmallVec<[u64; 1]>>,
    /// Groups that wait for their export, by time.
    due: BTreeSet<(u64, u64)>,
    /// Exported groups, by the time at which they are forgotten.
    remembered: BTreeSet<(u64, u64)>,
    /// Spans that sent messages to a broker.
    sent: Moves,
    shelf: Shelf,
    next: u64,
    spans: usize,
    now_ns: u64,
    /// How much later than the other spans of its trace a span may arrive.
    delay_ns: u64,
    stats: StreamStats,
}

impl Stream {
    /// An empty stream.
    pub fn new(config: StreamConfig) -> Self {
        Stream {
            config,
            groups: FxHashMap::default(),
            by_key: FxHashMap::default(),
            named: FxHashMap::default(),
            due: BTreeSet::new(),
            remembered: BTreeSet::new(),
            sent: Moves::default(),
            shelf: Shelf::default(),
            next: 0,
            spans: 0,
            now_ns: 0,
            delay_ns: 0,
            stats: StreamStats::default(),
        }
    }

    /// A span may come this much later than others of its trace: groups wait that much longer.
    pub fn expect_delay(&mut self, delay_ns: u64) {
        self.delay_ns = delay_ns;
    }

    /// Sets the time at which the next spans are pushed. A caller that could not push for a while calls this before it
    /// pushes again; otherwise the pause would look as if no span had come.
    pub fn time(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
    }

    /// Takes a span. If too many spans wait, some traces go early, to `sink`.
    pub fn push(&mut self, span: Arc<Span>, sink: &mut dyn FnMut(Trace)) {
        self.stats.spans_in += 1;
        let own: SmallVec<[Key; 4]> = own_names(&span).collect();
        let mut keys = keys(&span);
        let mut found: Vec<u64> = keys.iter().filter_map(|k| self.by_key.get(k).copied()).collect();
        keys.retain(|k| !own.contains(k));
        found.extend(keys.iter().filter_map(|k| self.named.get(k)).flatten());
        found.sort_unstable();
        found.dedup();
        if found.iter().any(|g| self.groups[g].spans.iter().rev().take(64).any(|k| k.span.id == span.id)) {
            self.stats.duplicates += 1;
            return;
        }
        found.sort_by_key(|g| std::cmp::Reverse(self.groups[g].spans.len()));
        let into = match found.first() {
            Some(g) => *g,
            None => {
                self.next += 1;
                let group = Group { spans: Vec::new(), fresh: 0, last_ns: self.now_ns, due_ns: 0 };
                self.groups.insert(self.next, group);
                self.next
            }
        };
        for other in found.into_iter().skip(1) {
            self.merge(other, into);
        }
        for key in keys {
            self.by_key.insert(key, into);
        }
        for name in own {
            let groups = self.named.entry(name).or_default();
            if !groups.contains(&into) {
                groups.push(into);
            }
        }
        let Some(group) = self.groups.get_mut(&into) else { return };
        if group.fresh == 0 && !group.spans.is_empty() {
            self.stats.late_spans += 1;
        }
        if moved(&span, Transfer::Sent) {
            self.sent.add(&span);
        }
        group.spans.push(Kept { span, exported: None });
        group.fresh += 1;
        group.last_ns = self.now_ns;
        let too_many = group.spans.len() >= self.config.max_group;
        self.spans += 1;
        self.schedule(into, self.now_ns.saturating_add(self.config.idle_ns + self.delay_ns));
        if too_many {
            self.stats.early_groups += 1;
            self.export(into, false, sink);
            self.forget(into);
        }
        while self.spans > self.config.max_spans.max(1) {
            let Some(&(_, g)) = self.remembered.first().or(self.due.first()) else { break };
            if self.groups.get(&g).is_some_and(|g| g.fresh > 0) {
                self.stats.early_groups += 1;
                self.export(g, false, sink);
            }
            self.forget(g);
        }
    }

    fn merge(&mut self, from: u64, into: u64) {
        let Some(small) = self.groups.remove(&from) else { return };
        self.unschedule(small.due_ns, from);
        for kept in &small.spans {
            for key in keys(&kept.span) {
                if let Some(group) = self.by_key.get_mut(&key).filter(|g| **g == from) {
                    *group = into;
                }
            }
            for name in own_names(&kept.span) {
                let groups = self.named.entry(name).or_default();
                groups.retain(|g| *g != from && *g != into);
                groups.push(into);
            }
        }
        if let Some(group) = self.groups.get_mut(&into) {
            group.fresh += small.fresh;
            group.spans.extend(small.spans);
        }
    }

    fn unschedule(&mut self, due_ns: u64, id: u64) {
        self.due.remove(&(due_ns, id));
        self.remembered.remove(&(due_ns, id));
    }

    fn schedule(&mut self, id: u64, at_ns: u64) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        let before = std::mem::replace(&mut group.due_ns, at_ns);
        let exported = group.fresh == 0;
        self.unschedule(before, id);
        if exported { &mut self.remembered } else { &mut self.due }.insert((at_ns, id));
    }

    /// Time passed: exports the groups that have been idle long enough.
    pub fn tick(&mut self, now_ns: u64, sink: &mut dyn FnMut(Trace)) {
        self.time(now_ns);
        while let Some(&(at, id)) = self.due.first() {
            if at > self.now_ns {
                break;
            }
            let Some(group) = self.groups.get(&id) else {
                self.due.remove(&(at, id));
                continue;
            };
            // The expected delay may have grown since the group's last span came.
            let delayed_until = group.last_ns.saturating_add(self.config.idle_ns + self.delay_ns);
            if self.now_ns < delayed_until {
                self.schedule(id, delayed_until);
                continue;
            }
            let patient_until = group.last_ns.saturating_add(self.config.unresolved_ns);
            if self.now_ns < patient_until && misses_a_cause(group) {
                self.schedule(id, patient_until);
                continue;
            }
            if self.now_ns < patient_until && self.waits_for_a_sender(group) {
                self.schedule(id, self.now_ns.saturating_add(self.config.idle_ns).max(at.saturating_add(1)));
                continue;
            }
            self.export(id, true, sink);
            self.schedule(id, self.now_ns.saturating_add(self.config.remember_ns).saturating_add(1));
        }
        while let Some(&(at, id)) = self.remembered.first().filter(|(at, _)| *at <= self.now_ns) {
            self.remembered.remove(&(at, id));
            self.forget(id);
        }
    }

    /// The end of all spans: exports everything that waits.
    pub fn finish(&mut self, sink: &mut dyn FnMut(Trace)) {
        // A receiver's link names the trace of the sender: groups without a receiver go first.
        let received = |g: &Group| g.spans.iter().any(|k| moved(&k.span, Transfer::Received));
        let mut all: Vec<(bool, u64)> = self.groups.iter().map(|(id, g)| (received(g), *id)).collect();
        all.sort_unstable();
        for (_, id) in &all {
            self.export(*id, true, sink);
        }
        for (_, id) in all {
            self.forget(id);
        }
    }

    /// Counters.
    pub fn stats(&self) -> StreamStats {
        self.stats
    }

    /// Spans kept at present.
    pub fn kept(&self) -> usize {
        self.spans
    }

    /// Links all spans of the group, and exports those that were not exported yet.
    fn export(&mut self, id: u64, complete: bool, sink: &mut dyn FnMut(Trace)) {
        let Some(group) = self.groups.get(&id).filter(|g| g.fresh > 0) else { return };
        let before: FxHashMap<_, _> = group.spans.iter().filter_map(|k| k.exported.map(|t| (k.span.id, t))).collect();
        let own: Vec<Arc<Span>> = group.spans.iter().map(|k| k.span.clone()).collect();
        let mut now = FxHashMap::default();
        for mut trace in link(own.clone()) {
            let known = trace.spans.iter().find_map(|s| before.get(&s.span.id).copied());
            trace.id = known.unwrap_or(trace.id);
            trace.complete = complete;
            if !self.config.housekeeping && !self.keeps(&mut trace) {
                continue;
            }
            trace.spans.retain(|s| !before.contains_key(&s.span.id));
            if trace.spans.is_empty() {
                continue;
            }
            for s in &mut trace.spans {
                now.insert(s.span.id, trace.id);
                if moved(&s.span, Transfer::Received) && nearest(&s.span, &own) {
                    s.links = self.senders(&s.span, &own);
                }
            }
            self.stats.spans_out += trace.spans.len() as u64;
            self.stats.traces_out += 1;
            sink(trace);
        }
        let Some(group) = self.groups.get_mut(&id) else { return };
        for kept in &mut group.spans {
            kept.exported = kept.exported.or_else(|| now.get(&kept.span.id).copied());
        }
        group.fresh = 0;
    }

    /// Folds the housekeeping of a trace. False if the trace has nothing else.
    fn keeps(&mut self, trace: &mut Trace) -> bool {
        if is_noise(trace) {
            self.stats.noise_spans += trace.spans.len() as u64;
            return false;
        }
        self.stats.folded_spans += fold(trace) as u64;
        true
    }

    /// Links to the spans that sent the messages of this span, with their traces if these were exported already.
    fn senders(&self, span: &Span, own: &[Arc<Span>]) -> Vec<SpanLink> {
        let mut links = self.sent.links(span, own);
        links.iter_mut().for_each(|l| l.trace = self.exported(l.span));
        links
    }

    /// The trace under which a span was exported.
    fn exported(&self, id: SpanId) -> Option<TraceId> {
        let Some(group) = self.by_key.get(&Key { kind: KeyKind::Span, value: id.0 }) else {
            return self.shelf.trace(id);
        };
        self.groups.get(group)?.spans.iter().find(|k| k.span.id == id)?.exported
    }

    /// Whether the group received messages of a span whose trace has not been exported yet.
    fn waits_for_a_sender(&self, group: &Group) -> bool {
        let received = group.spans.iter().filter(|k| k.exported.is_none() && moved(&k.span, Transfer::Received));
        received.flat_map(|k| self.senders(&k.span, &[])).any(|l| l.trace.is_none())
    }

    fn forget(&mut self, id: u64) {
        let Some(group) = self.groups.remove(&id) else { return };
        self.unschedule(group.due_ns, id);
        self.spans -= group.spans.len();
        for kept in &group.spans {
            for key in keys(&kept.span) {
                if self.by_key.get(&key) == Some(&id) {
                    self.by_key.remove(&key);
                }
            }
            for name in own_names(&kept.span) {
                let Some(groups) = self.named.get_mut(&name) else { continue };
                groups.retain(|g| *g != id);
                if groups.is_empty() {
                    self.named.remove(&name);
                }
            }
        }
        for kept in group.spans.into_iter().filter(|kept| moved(&kept.span, Transfer::Sent)) {
            let gone = match kept.exported {
                Some(trace) => self.shelf.put(kept.span, trace),
                None => Some(kept.span),
            };
            gone.iter().for_each(|span| self.sent.remove(span));
        }
    }
}

/// Whether a span moved messages of a broker this way.
fn moved(span: &Span, transfer: Transfer) -> bool {
    message_ranges(span).iter().any(|p| p.transfer == transfer)
}

/// Whether a span that has not been exported was caused by a request whose span has not come yet.
fn misses_a_cause(group: &Group) -> bool {
    let wanted = |k: &Kept| k.exported.is_none() && k.span.tap != TapSide::App;
    let mut missing: FxHashSet<(u64, u64)> =
        group.spans.iter().filter(|k| wanted(k)).filter_map(|k| Some((k.span.host_id, k.span.cause?))).collect();
    for span in group.spans.iter().map(|k| &k.span) {
        if missing.is_empty() {
            return false;
        }
        if let Some(e) = span.exchange {
            let named = span.stream_exchange();
            let own = |cause: &u64| e.contains(*cause) || named == Some(*cause);
            missing.retain(|(host, cause)| *host != span.host_id || !own(cause));
        }
    }
    !missing.is_empty()
}
