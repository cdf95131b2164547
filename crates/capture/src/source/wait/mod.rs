//! Waits: what threads of targets waited for, and what woke them. The kernel keeps the last waits of each thread, and
//! sends them when a request turns out to be slow.
//!
//! The programs hang on each switch of threads of the machine, so they are attached only while waits are asked for.

mod calls;
mod follow;
mod frames;
mod names;
mod path;
mod record;
mod samples;
mod stacks;
mod turns;
mod unwind;
mod who;

pub(crate) use follow::Follower;

use super::Source;
use crate::features::{Program, PERF_EVENT};
use crate::Options;

/// Of which requests the waits are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitOptions {
    /// Of requests that take at least so long, ns; for a process, [`Capture::set_slow`](crate::Capture::set_slow)
    /// changes it.
    pub threshold_ns: u64,
    /// Of one in so many other requests; 0: of none.
    pub one_of: u32,
    /// Take the stacks of the kernel at waits and samples.
    pub kernel_stack: bool,
    /// Take and copy the stacks of programs there. Without both, nothing is sampled.
    pub user_stack: bool,
}

/// The source of waits.
pub(super) struct Waits;

impl Source for Waits {
    fn programs(&self) -> Vec<&'static Program> {
        PROGRAMS.iter().collect()
    }

    /// They are loaded with the messages, so that a refusal shows in `wirespan check`, and hang nowhere until the user
    /// asks.
    fn is_asked(&self, options: &Options) -> bool {
        options.messages
    }
}

/// The last but one is run by user space, the last by the clocks of the processors.
const PROGRAMS: &[Program] = &[
    Program::tracepoint(
        "wait_switch",
        "Linux 2.6",
        "waits of slow requests (--threshold)",
        "what a slow request waited for is not known",
    )
    .at("sched_switch"),
    Program::tracepoint(
        "wait_waking",
        "Linux 4.3",
        "waits: who ended them",
        "which thread, or whether the network, a disk or a timer ended a wait is not known",
    )
    .at("sched_waking"),
    Program::tracepoint(
        "wait_fork",
        "Linux 2.6",
        "waits of threads from their birth",
        "the first wait of a new thread is not known",
    )
    .at("sched_process_fork"),
    Program::tracepoint(
        "wait_take",
        "Linux 6.10",
        "waits: what holders of locks did",
        "of a lock it is known who released it, but not why that took long",
    )
    .at("sched_switch")
    .calls("bpf_task_from_pid"),
    Program::tracepoint(
        "cpu_sample",
        "Linux 4.9",
        "samples of running threads (--threshold)",
        "in which code a slow request ran is not known",
    )
    .at(PERF_EVENT),
];
