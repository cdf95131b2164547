//! What the capture thread records for a time: waits of slow requests, and system calls.

use super::CaptureThread;
use crate::clock::now_ns;
use crate::slow::{Knobs, Scoped};
use crate::syscalls::CallOrder;
use anyhow::{bail, Result};
use wirespan_model::event::Actor;
use wirespan_model::Event;

/// What is recorded for a time.
pub(crate) struct Why {
    /// Whose requests; which of them are slow.
    pub(crate) rule: Scoped,
    /// What is recorded with their waits.
    pub(crate) knobs: Knobs,
    /// What slow requests wait for is recorded.
    pub(crate) waits: bool,
    /// Their system calls are recorded.
    pub(crate) calls: Option<CallOrder>,
    /// Until when, Unix ns.
    pub(crate) until_ns: u64,
    /// Nothing begins: orders before for these requests end.
    pub(crate) ends: bool,
    pub(crate) of: Concerns,
}

/// Whom an order concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Concerns {
    /// This agent, whichever service is named: it may start later.
    Anything,
    /// This agent if it traces the service now: others are asked, too.
    OwnServices,
}

/// What has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    /// Processes of the service that are traced now.
    pub(crate) processes: usize,
}

impl CaptureThread {
    pub(super) fn trace_why(&mut self, why: Why, events: &mut Vec<Event>) -> Result<Begun> {
        let is_of = |(_, service): &(u32, String)| why.rule.is_for(service);
        let begun = Begun { processes: self.services().iter().filter(|own| is_of(own)).count() };
        if why.ends {
            self.slow.end(&why.rule, why.until_ns);
            self.system_calls.end(&why.rule, why.until_ns);
            return Ok(begun);
        }
        if begun.processes == 0 && why.of == Concerns::OwnServices {
            return Ok(begun);
        }
        let Why { rule, knobs, waits, calls, until_ns, .. } = why;
        if calls.is_some() && !self.capture.can_record_calls() {
            bail!("the programs of system calls are not loaded: `wirespan check` says why");
        }
        let has_room = !waits || self.slow.ask(rule, knobs, until_ns);
        if !(has_room && calls.is_none_or(|order| self.system_calls.ask(order))) {
            bail!("too many services are traced at once: wait until one of them ends");
        }
        if waits {
            self.record_waits();
        }
        self.record_calls(events);
        Ok(begun)
    }

    /// What failed is told like what was slow. It has just ended: the kernel still has its waits.
    pub(super) fn take_failed(&mut self) {
        for failed in self.joiner.failed() {
            if self.slow.records(failed.pid) {
                self.capture.take_waits(failed.tid, failed.exchange);
            }
        }
    }

    /// The service of each process that is traced.
    pub(super) fn services(&self) -> Vec<(u32, String)> {
        let named = |pid: u32| self.enricher.resource(&Actor { pid, ..Actor::default() }).service.to_string();
        self.capture.processes().into_iter().map(|pid| (pid, named(pid))).collect()
    }

    /// Records the system calls that are asked for, of the processes that there are now.
    pub(super) fn record_calls(&mut self, events: &mut Vec<Event>) {
        let services = if self.system_calls.is_on() { self.services() } else { Vec::new() };
        let processes = self.system_calls.processes(services);
        self.capture.record_calls(&processes, events);
        self.system_calls.begun(&processes, now_ns());
    }

    pub(super) fn record_waits(&mut self) {
        self.capture.record_waits(self.slow.options());
        self.capture.set_slow(&self.slow.changes());
    }
}
