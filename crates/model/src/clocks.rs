//! Clocks of threads, as the scheduler keeps them.

use crate::event::{Actor, DataEvent};
use crate::Role;
use serde::{Deserialize, Serialize};

/// What the scheduler says of a thread: times since it began, ns. Each only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clocks {
    /// It ran.
    pub on_cpu_ns: u64,
    /// It was ready, and waited for a processor.
    pub queued_ns: u64,
    /// Its groups were held back by their CPU limits: on all processors together.
    pub limited_ns: u64,
}

/// Where the clocks of a thread stood when it moved bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockMark {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// When the bytes began to move, Unix ns.
    pub began_ns: u64,
    /// When they had moved, Unix ns: the time of the clocks.
    pub time_ns: u64,
    /// Socket of the bytes.
    pub socket: u64,
    /// Id of the exchange to which they belong; 0 if not known.
    pub exchange: u64,
    /// Id of the request for which the thread acted: the exchange itself where this process serves it, else the cause
    /// of a call; 0 if not known.
    pub request: u64,
    /// The clocks.
    pub clocks: Clocks,
}

impl DataEvent {
    /// Where the clocks of the thread stood when the call returned.
    pub fn clock_mark(&self) -> Option<ClockMark> {
        let Actor { pid, tid, .. } = self.actor;
        let (began_ns, time_ns, exchange) = (self.enter_ns, self.exit_ns, self.exchange);
        let request = if self.role == Role::Client { self.cause } else { exchange };
        let socket = self.socket.0;
        self.clocks.map(|clocks| ClockMark { pid, tid, began_ns, time_ns, socket, exchange, request, clocks })
    }
}
