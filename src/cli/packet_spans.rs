//! What the filter of a packet program names by spans: `trace`, `service`, `endpoint`. A wirespan that runs is asked.

use super::client::ClientArgs;
use crate::clock::now_ns;
use crate::config::Config;
use crate::packet::{Awaited, Program, Subject};
use crate::stop_signal::StopSignal;
use anyhow::{bail, Result};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;
use wirespan_capture::packet::Packets;
use wirespan_model::packet::Sighting;

/// Spans of a trace that ended longer ago than this are its last ones, ns.
const OVER_NS: u64 = 10_000_000_000;
/// Once packets are no longer seen: how often the wirespan is asked for the trace, and how long after the end of its
/// last span; if no span of it is known, how long after the last packet. A server's span comes 0.7 s after its end,
/// because it waits for the report that its response was lost.
const LAST_EVERY: Duration = Duration::from_millis(200);
const LATE_NS: u64 = 1_500_000_000;
const UNKNOWN_NS: u64 = 3_000_000_000;

/// Where spans are asked for.
#[derive(Clone, Copy)]
pub(super) struct Spans<'a> {
    pub(super) client: &'a ClientArgs,
    pub(super) config: &'a Config,
}

impl Spans<'_> {
    /// What the filter names.
    pub(super) fn subject(self, program: &Program) -> Result<Option<Subject>> {
        let Some((path, is_trace)) = program.asks()? else { return Ok(None) };
        let answer = self.client.get(self.config, &path)?;
        let subject = if is_trace { Subject::of_trace(answer)? } else { Subject::of_spans(&answer) };
        Ok(Some(subject))
    }

    /// A place for packets until their trace is known, if the program names one. An error if the trace is over.
    pub(super) fn awaited(self, program: &Program) -> Result<Option<Awaited>> {
        if !program.names_a_trace() {
            return Ok(None);
        }
        // A trace that is not known yet is no error, but a wirespan that does not answer is.
        self.client.get(self.config, "/api/v1/status")?;
        if let Ok(Some(known)) = self.subject(program) {
            if known.end_ns() + OVER_NS < now_ns() {
                bail!("this trace is over: its packets must have been recorded before, so give their file with --from");
            }
        }
        Ok(Some(Awaited::default()))
    }

    /// Moves the packets that belong to the trace, as its spans are known now. Returns when the last of them ended.
    pub(super) fn release(self, awaited: &mut Awaited, program: &Program, into: &mut Vec<Sighting>) -> Option<u64> {
        let subject = self.subject(program).ok().flatten()?;
        awaited.release(&subject, into);
        Some(subject.end_ns())
    }

    /// The same when packets are no longer seen. The last spans come a little later than their packets. A signal ends
    /// the wait.
    pub(super) fn release_last(self, awaited: &mut Awaited, program: &Program, stop: &mut StopSignal) -> Vec<Sighting> {
        let (newest_ns, mut last, mut says) = (awaited.newest_ns(), Vec::new(), true);
        loop {
            let ended_ns = self.release(awaited, program, &mut last);
            let until_ns = ended_ns.map_or(newest_ns + UNKNOWN_NS, |ns| ns + LATE_NS);
            if now_ns() >= until_ns.min(newest_ns + UNKNOWN_NS) || stop.came() {
                break;
            }
            if std::mem::take(&mut says) {
                eprintln!("wirespan: packets are no longer seen; the last spans of the trace are waited for");
            }
            std::thread::sleep(LAST_EVERY);
        }
        if awaited.is_unknown() {
            eprintln!("wirespan: no span of this trace came, so none of its packets is known");
        }
        if awaited.let_go() > 0 {
            let n = awaited.let_go();
            eprintln!("wirespan: {n} sightings were let go before the trace was known: narrow the filter");
        }
        // Spans do not come in the order of their packets.
        last.sort_by_key(|s| s.time_ns);
        last
    }
}

/// Chooses the servers that are new. A running wirespan that has ended knows no new ones.
pub(super) fn choose(packets: &Packets, subject: &Subject, known: &mut BTreeSet<SocketAddr>) -> Result<()> {
    for server in subject.servers() {
        if known.insert(server) {
            packets.choose(server)?;
        }
    }
    Ok(())
}
