//! Who ended a wait, who ran instead of a thread that was ready, and what these did it for.

use super::super::acting::{Acting, Acts};
use super::{Threads, DEEPEST};
use rustc_hash::FxHashMap;
use wirespan_model::wait::{Holder, SpanWait, ThreadWait, Waker};
use wirespan_model::Text;

impl Threads {
    /// The span for which a thread acted at this time, and whether that may still become known.
    fn span_of(waker: &Waker, time_ns: u64, acting: &dyn Acting) -> (Text, bool) {
        let Waker::Thread { pid, tid, .. } = waker else { return (Text::default(), true) };
        match acting.of(*pid, *tid, time_ns) {
            Acts::For(span) => (span.to_string().into(), true),
            Acts::Unknown => (Text::default(), true),
            Acts::Later => (Text::default(), false),
        }
    }

    /// Adds the spans for which the threads acted that woke this one, or ran instead of it; says whether all that can
    /// be known of them is known by now.
    pub(super) fn tell_spans(&self, wait: &mut SpanWait, w: &ThreadWait, acting: &dyn Acting) -> bool {
        let (mut woken, mut ran) = ((Text::default(), true), (Text::default(), true));
        if !wait.woken_by.is_empty() {
            woken = Self::span_of(&w.waker, w.woken_ns, acting);
        }
        if !wait.ran_by.is_empty() {
            ran = Self::span_of(&w.ran, (w.woken_ns + w.ran_ns) / 2, acting);
        }
        (wait.woken_for, wait.ran_for) = (woken.0, ran.0);
        woken.1 && ran.1
    }

    pub(super) fn name(&self, waker: &Waker) -> Text {
        match waker {
            Waker::Unknown => Text::default(),
            Waker::Another => "another process".into(),
            Waker::Kernel => "the kernel".into(),
            Waker::Network => "network".into(),
            Waker::Disk => "disk".into(),
            Waker::Timer => "timer".into(),
            Waker::Thread { service, .. } if !service.is_empty() => format!("service {service}").into(),
            Waker::Thread { tid, name, .. } if name.is_empty() => format!("thread {tid}").into(),
            Waker::Thread { name, .. } => format!("thread {name}").into(),
        }
    }

    /// The longest of those waits of a thread on which it spent most of this time, and how long all of them took;
    /// `None` if it ran for more than half of the time, or that is not known.
    fn mostly(&self, tid: u32, from_ns: u64, to_ns: u64) -> Option<(&ThreadWait, u64)> {
        let overlap = |w: &ThreadWait| {
            let ran_ns = if w.ran_ns == 0 { to_ns } else { w.ran_ns };
            ran_ns.min(to_ns).saturating_sub(w.stopped_ns.max(from_ns))
        };
        let mut alike: FxHashMap<_, (&ThreadWait, u64)> = FxHashMap::default();
        let mut all_ns = 0;
        for w in self.within(tid, from_ns, to_ns) {
            let (longest, sum) = alike.entry((w.kind, w.syscall, &w.resource)).or_insert((w, 0));
            *sum += overlap(w);
            all_ns += overlap(w);
            if overlap(w) > overlap(longest) {
                *longest = w;
            }
        }
        alike.into_values().max_by_key(|(_, sum)| *sum).filter(|_| all_ns * 2 >= to_ns - from_ns)
    }

    /// The thread that ended a wait, what it did meanwhile, and who kept that thread waiting in turn.
    pub(super) fn holders(&self, waker: &Waker, waiter: u32, during: (u64, u64)) -> Vec<Holder> {
        let (mut waker, (mut from_ns, mut to_ns)) = (waker, during);
        let mut seen = vec![waiter];
        let mut holders = Vec::new();
        while let Waker::Thread { tid, .. } = waker {
            if seen.contains(tid) || holders.len() == DEEPEST {
                break;
            }
            seen.push(*tid);
            let who = self.name(waker);
            let Some((w, ns)) = self.mostly(*tid, from_ns, to_ns) else {
                // It ran, if its waits are known.
                let known = self.threads.contains_key(tid);
                holders.push(Holder { who, duration_ns: if known { to_ns - from_ns } else { 0 }, ..Holder::default() });
                break;
            };
            let (syscall, resource) = (w.syscall.into(), w.resource.clone());
            holders.push(Holder { who, kind: Some(w.kind), syscall, resource, duration_ns: ns });
            (from_ns, to_ns) = (from_ns.max(w.stopped_ns), to_ns.min(w.woken_ns.max(w.stopped_ns)));
            if from_ns >= to_ns {
                break;
            }
            waker = &w.waker;
        }
        holders
    }
}
