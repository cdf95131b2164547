//! Whose system calls are recorded, and until when.
//!
//! A user asks for the calls of a service. The kernel knows processes only, so the service of each process of the
//! targets is looked up, again and again while calls are recorded: new processes may come.

use crate::slow::Scoped;
use rustc_hash::FxHashMap;
use std::time::{Duration, Instant};
use wirespan_capture::CallSet;
use wirespan_model::syscalls::CallForm;
use wirespan_model::{Span, TapSide};

/// Most orders at a time.
const MOST_ASKED: usize = 64;
/// After the birth of a process, processes are looked up this often at most.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What a user asks for.
#[derive(Clone, Debug)]
pub(crate) struct CallOrder {
    /// Whose requests show their calls.
    pub(crate) of: Scoped,
    pub(crate) calls: CallSet,
    pub(crate) form: CallForm,
    /// When it ends, Unix ns.
    pub(crate) until_ns: u64,
}

/// The orders, and the processes that they are about.
#[derive(Default)]
pub(crate) struct SystemCalls {
    asked: Vec<CallOrder>,
    /// Since when the calls of a process are recorded, Unix ns. Requests that began before lack some of their calls.
    since: FxHashMap<u32, u64>,
    looked: Option<Instant>,
    /// A process was born since then, or runs another program.
    stale: bool,
}

impl SystemCalls {
    /// Adds an order. False if there are too many.
    pub(crate) fn ask(&mut self, order: CallOrder) -> bool {
        if self.asked.len() == MOST_ASKED {
            return false;
        }
        self.asked.push(order);
        true
    }

    /// Ends the orders for the same requests at this time, if they would last longer.
    pub(crate) fn end(&mut self, of: &Scoped, now_ns: u64) {
        for order in self.asked.iter_mut().filter(|order| order.of.is_same(of)) {
            order.until_ns = order.until_ns.min(now_ns);
        }
    }

    /// Whether calls of any process may be asked for.
    pub(crate) fn is_on(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Forgets the orders whose time is over. Returns whether there were any.
    pub(crate) fn end_due(&mut self, now_ns: u64) -> bool {
        let before = self.asked.len();
        self.asked.retain(|order| order.until_ns > now_ns);
        self.asked.len() != before
    }

    /// A process was born, or runs another program.
    pub(crate) fn note_birth(&mut self) {
        self.stale = self.is_on();
    }

    /// Whether processes are to be looked up because of a birth.
    pub(crate) fn is_due(&self) -> bool {
        self.stale && self.looked.is_none_or(|at| at.elapsed() >= LOOK_EVERY)
    }

    /// The processes whose calls are recorded, of these with their services.
    pub(crate) fn processes(&mut self, all: impl IntoIterator<Item = (u32, String)>) -> Vec<(u32, CallSet)> {
        (self.looked, self.stale) = (Some(Instant::now()), false);
        let set_of = |service: &str| {
            let sets = self.asked.iter().filter(|order| order.of.is_for(service)).map(|order| order.calls);
            sets.reduce(CallSet::with)
        };
        all.into_iter().filter_map(|(pid, service)| Some((pid, set_of(&service)?))).collect()
    }

    /// The calls of these processes are recorded from now on.
    pub(crate) fn begun(&mut self, processes: &[(u32, CallSet)], now_ns: u64) {
        let before = std::mem::take(&mut self.since);
        let since = |pid: &u32| before.get(pid).copied().unwrap_or(now_ns);
        self.since = processes.iter().map(|(pid, _)| (*pid, since(pid))).collect();
    }

    /// Writes into a span in which form its calls are wanted, if they are.
    pub(crate) fn judge(&self, span: &mut Span) {
        if span.tap != TapSide::ServerProcess || self.asked.is_empty() {
            return;
        }
        if self.since.get(&span.pid).is_none_or(|since| span.start_ns < *since) {
            return;
        }
        let fits = |order: &&CallOrder| order.of.fits(&span.resource.service, &span.operation, &span.target);
        if let Some(order) = self.asked.iter().rev().find(fits) {
            span.attrs.push(order.form.attribute());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::slow::Rule;
    use std::sync::Arc;
    use wirespan_model::Resource;

    fn order(service: &str, endpoint: &str, calls: &str, form: CallForm) -> CallOrder {
        let calls = CallSet::read(calls).unwrap();
        CallOrder { of: Scoped::of(service, endpoint, Rule::Learnt), calls, form, until_ns: 1_000 }
    }

    fn form(calls: &SystemCalls, pid: u32, target: &str, start_ns: u64) -> Option<CallForm> {
        let resource = Arc::new(Resource { service: "shop".into(), ..Resource::default() });
        let tap = TapSide::ServerProcess;
        let mut span = Span { tap, pid, target: target.into(), start_ns, resource, ..Span::default() };
        calls.judge(&mut span);
        CallForm::of(&span)
    }

    #[test]
    fn calls_are_recorded_of_the_processes_of_the_service_and_shown_at_its_requests() {
        let mut calls = SystemCalls::default();
        assert!(calls.ask(order("shop", "", "getpid", CallForm::Events)));
        assert!(calls.ask(order("shop", "/cart", "read", CallForm::Spans)));
        let all = [(7, "shop".to_string()), (8, "pay".to_string())];
        let both = CallSet::read("getpid,read").unwrap();
        let processes = calls.processes(all);
        assert_eq!(processes, [(7, both)]);
        calls.begun(&processes, 50);
        assert_eq!(form(&calls, 7, "/", 60), Some(CallForm::Events));
        assert_eq!(form(&calls, 7, "/cart", 60), Some(CallForm::Spans), "the latest order that fits");
        assert_eq!(form(&calls, 7, "/", 40), None, "some of its calls were made before");
        assert_eq!(form(&calls, 8, "/", 60), None);
        calls.begun(&[(7, both), (9, both)], 90);
        assert_eq!((form(&calls, 7, "/", 60), form(&calls, 9, "/", 60)), (Some(CallForm::Events), None));
    }

    #[test]
    fn orders_end_and_births_are_looked_at_only_meanwhile() {
        let mut calls = SystemCalls::default();
        calls.note_birth();
        assert!(!calls.is_due());
        assert!((0..MOST_ASKED).all(|_| calls.ask(order("shop", "", "all", CallForm::Spans))));
        assert!(!calls.ask(order("shop", "", "all", CallForm::Spans)));
        calls.end(&Scoped::of("shop", "/cart", Rule::Learnt), 5);
        assert!(!calls.end_due(5), "of another endpoint");
        calls.note_birth();
        assert!(calls.is_due());
        calls.processes([]);
        calls.note_birth();
        assert!(!calls.is_due(), "it was just looked");
        assert!(!calls.end_due(999) && calls.end_due(1_000) && !calls.is_on());
    }
}
