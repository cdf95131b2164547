//! System calls: every call of chosen processes, also those that take no time.
//!
//! The programs hang on each system call of the machine, so they are attached only while somebody asks for calls.

mod names;
mod set;

pub use set::CallSet;

use super::Source;
use crate::boxes;
use crate::clock::Clock;
use crate::features::Program;
use crate::object::WirespanSkel;
use crate::ring::Ring;
use crate::wire::contract::{Call, CallsWanted, WS_CALLS_PROCESSES};
use crate::Options;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, MapType};
use rustc_hash::FxHashMap;
use wirespan_model::syscalls::ThreadCall;
use wirespan_model::Event;

/// Size of the ring of calls while they are recorded: 43,000 calls.
const RING_BYTES: u32 = 2 << 20;
/// Calls that are read at a time.
const SOME: usize = 4096;

/// The source of system calls.
pub(super) struct SystemCalls;

impl Source for SystemCalls {
    fn programs(&self) -> Vec<&'static Program> {
        PROGRAMS.iter().collect()
    }

    /// As those of waits: a refusal shows in `wirespan check`, and they hang nowhere until somebody asks.
    fn is_asked(&self, options: &Options) -> bool {
        options.messages
    }
}

const PROGRAMS: &[Program] = &[
    Program::tracepoint(
        "call_enter",
        "Linux 2.6",
        "system calls of requests (--syscalls)",
        "which system calls a request made is not known",
    )
    .at("sys_enter")
    .costs("while it is asked for, every system call of the machine gets slower, also of processes not traced"),
    Program::tracepoint(
        "call_exit",
        "Linux 2.6",
        "system calls: how they ended",
        "which system calls a request made is not known",
    )
    .at("sys_exit")
    .costs("as above"),
];

/// Reads the calls, while they are asked for.
#[derive(Default)]
pub(crate) struct Recorder {
    ring: Option<(Ring, MapHandle)>,
    /// What the kernel was told, by process.
    told: FxHashMap<u32, CallSet>,
    /// Process and number of the last call of each thread.
    numbers: FxHashMap<u32, (u32, u32)>,
    /// Processes for which there was no room.
    left_out: u64,
    /// Calls that threads made and that did not come.
    lost: u64,
}

impl Recorder {
    /// Records these calls of these processes from now on, and none of others. Says whether there are any.
    pub(crate) fn record(&mut self, skel: &mut WirespanSkel<'static>, processes: &[(u32, CallSet)]) -> bool {
        let wanted: FxHashMap<u32, CallSet> = processes.iter().take(WS_CALLS_PROCESSES as usize).copied().collect();
        self.left_out += processes.len().saturating_sub(WS_CALLS_PROCESSES as usize) as u64;
        let on = !wanted.is_empty();
        if on && self.ring.is_none() {
            match self.open(skel) {
                Ok(ring) => self.ring = Some(ring),
                Err(error) => {
                    tracing::warn!(%error, "no memory for system calls: none are recorded");
                    return false;
                }
            }
        }
        let map = &skel.maps.calls_wanted;
        for pid in self.told.keys().filter(|pid| !wanted.contains_key(pid)) {
            let _ = map.delete(&pid.to_ne_bytes());
        }
        for (pid, set) in wanted.iter().filter(|(pid, set)| self.told.get(pid) != Some(set)) {
            let value = CallsWanted { bits: set.bits() };
            if let Err(error) = map.update(&pid.to_ne_bytes(), &value.to_bytes(), MapFlags::ANY) {
                tracing::warn!(%error, pid, "system calls of a process are not recorded");
            }
        }
        self.told = wanted;
        on
    }

    /// Gives the ring back; call it when the programs are detached and all calls were read.
    pub(crate) fn close(&mut self, skel: &WirespanSkel<'static>) {
        if self.ring.take().is_some() {
            let _ = skel.maps.calls_ended.delete(&boxes::PLACE);
            self.numbers.clear();
        }
    }

    fn open(&mut self, skel: &mut WirespanSkel<'static>) -> libbpf_rs::Result<(Ring, MapHandle)> {
        if let Some(bss) = skel.maps.bss_data.as_mut() {
            bss.calls_epoch = bss.calls_epoch.wrapping_add(1).max(1);
        }
        let table = boxes::make(&skel.maps.calls_ended, MapType::RingBuf, "calls", (0, 0), RING_BYTES, 0)?;
        let ring = Ring::open(&table).map_err(libbpf_rs::Error::from)?;
        Ok((ring, table))
    }

    /// Appends the calls that have ended since the last time. Returns whether there may be more.
    pub(crate) fn take(&mut self, clock: &Clock, into: &mut Vec<Event>, bad: &mut u64) -> bool {
        let Recorder { ring: Some((ring, _)), numbers, lost, .. } = self else { return false };
        let mut calls = Vec::new();
        let taken = ring.take(SOME, &mut |record| match Call::read(record) {
            Some(call) => {
                let of_thread = numbers.entry(call.tid).or_insert((call.pid, 0));
                let last = if of_thread.0 == call.pid && of_thread.1 < call.number { of_thread.1 } else { 0 };
                *of_thread = (call.pid, call.number);
                let lost_before = call.number.wrapping_sub(last).saturating_sub(1);
                *lost += u64::from(lost_before);
                calls.push(ThreadCall {
                    pid: call.pid,
                    tid: call.tid,
                    began_ns: clock.to_unix(call.began_ns),
                    ended_ns: clock.to_unix(call.ended_ns),
                    name: names::of(call.call),
                    result: call.result,
                    lost_before,
                });
            }
            None => *bad += 1,
        });
        if !calls.is_empty() {
            into.push(Event::Calls(calls));
        }
        taken >= SOME
    }

    /// Counters since the start.
    pub(crate) fn counters(&self) -> [(&'static str, u64); 2] {
        [("calls_missed", self.lost), ("calls_processes_left_out", self.left_out)]
    }
}
