//! Go's goroutines: where the runtime keeps their ids, and where one hands work over to another.
//!
//! Offsets in the runtime's structures come from a table by version, which a Go program names itself
//! (`.go.buildinfo`). They were read from the debug information of one release of each version. In a program of a
//! version that the table does not have, goroutines are not followed: its threads are taken for the actors.

mod http;
mod reasons;

pub(super) use reasons::Reasons;

use super::{Learn, Process, Runtime};
use crate::features::Program;
use crate::uprobe::elf::{Image, Place};
use crate::uprobe::points::Function;
use crate::uprobe::{go_functions, Probe, ProbeSet, When};
use crate::wire::contract::{GoFacts, GO_EXECUTE, GO_POLLED, GO_READY, WS_GOROUTINE};
use http::FUNCTIONS;
use std::collections::HashMap;

/// Go programs.
pub(super) struct Go;

const LOST_HAND_OVER: &str = "what a goroutine sends for a request that another one read is not joined to it";

const LOST_IN_BUFFER: &str =
    "what a goroutine sends for a request that it found in a channel, without waiting for it, is inferred";

const INFERRED_IF_SHARED: &str =
    "what requests of Go send on one connection (producers of Kafka, pipelines of Redis) is inferred";

impl Runtime for Go {
    fn tables(&self) -> &'static [&'static str] {
        &["actors", "answers", "carriers"]
    }

    fn programs(&self) -> &'static [Program] {
        const {
            &[
                Program::uprobe(
                    "go_birth",
                    "Go: a goroutine acts for the goroutine that started it",
                    "a goroutine acts for what its parent acts for when it is first seen, before Go 1.21 for nothing",
                ),
                Program::uprobe("go_send", "Go: hand-over by channel to a waiting goroutine", LOST_HAND_OVER),
                Program::uprobe("go_recv", "Go: hand-over by channel from a waiting goroutine", LOST_HAND_OVER),
                Program::uprobe("go_put", "Go: work that is left in a channel with room", LOST_IN_BUFFER),
                Program::uprobe("go_take", "Go: work that is taken out of a channel with room", LOST_IN_BUFFER),
                Program::uprobe(
                    "go_turns",
                    "Go: when a goroutine was ready, and which thread ran it when (--threshold)",
                    "of a slow request of Go, the time is not known in which its goroutine was not on the thread \
                     that moved the request",
                ),
                Program::uprobe(
                    "go_close",
                    "Go: who waits for a channel that is closed, where requests share a connection",
                    INFERRED_IF_SHARED,
                ),
                Program::uprobe(
                    "go_ready",
                    "Go: which goroutine is woken by which answer, where requests share a connection",
                    INFERRED_IF_SHARED,
                ),
                Program::uprobe(
                    "go_http",
                    "Go: for which request its HTTP and gRPC libraries act",
                    "calls of Go's HTTP/2 and gRPC servers are joined by guess if several requests were read together",
                ),
            ]
        }
    }

    fn plan(&self, image: &Image<'_>) -> Vec<ProbeSet> {
        plan(image).unwrap_or_default()
    }

    fn maps(&self) -> &'static [&'static str] {
        &[FACTS]
    }

    fn facts(&self, image: &Image<'_>, _: &[ProbeSet]) -> Option<Learn> {
        if !self.is_urgent(image) || !image.is_x86_64() {
            return None;
        }
        let layout = Layout::of(version(image)?)?;
        Some(Learn::runtime(WS_GOROUTINE, FACTS, move |process| facts(layout, process)))
    }

    /// Until the goroutines are followed, the threads are taken for the actors, which is wrong from the first request
    /// on.
    fn is_urgent(&self, image: &Image<'_>) -> bool {
        image.section(BUILD).is_some()
    }
}

const FACTS: &str = "go_facts";
/// The section in which a Go program says how it was built.
const BUILD: &str = ".go.buildinfo";

/// Offsets, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    goid: u16,
    parent: u16,
    curg: u16,
    recvq: u8,
    reader: u8,
}

impl Layout {
    fn of(minor: u32) -> Option<Self> {
        let (goid, parent, curg) = match minor {
            17..=20 => (152, 0, 192),
            21 | 22 => (152, 272, 192),
            23 | 24 => (160, 280, 192),
            25 => (152, 272, 184),
            26 => (152, 280, 184),
            _ => return None,
        };
        // A timer came before it.
        let recvq = if minor < 23 { 56 } else { 64 };
        // A number of the descriptor came before it.
        let reader = if minor < 21 { 24 } else { 32 };
        Some(Layout { goid, parent, curg, recvq, reader })
    }
}

/// What the kernel programs must know of a process; `None` if goroutines are not followed.
fn facts(layout: Layout, process: &Process<'_>) -> Option<GoFacts> {
    let births = (process.is_probed)("go_birth").into();
    let Layout { goid, parent, curg, recvq, reader } = layout;
    process.follows_actors.then_some(GoFacts { goid, parent, curg, births, recvq, reader, ..GoFacts::default() })
}

const BIRTH: &str = "runtime.newproc.func1";
const QUEUE: &str = "runtime.runqput";
const SEND: &str = "runtime.send";
const RECV: &str = "runtime.recv";
const READY: &str = "runtime.ready";
const CLOSE: &str = "runtime.closechan";
/// Functions that copy values into the buffer of a channel and out of it, what copies, and what then clears the place
/// in the buffer.
const BUFFERS: [&str; 3] = ["runtime.chansend", "runtime.chanrecv", "runtime.selectgo"];
const COPY: &str = "runtime.typedmemmove";
const CLEAR: &str = "runtime.typedmemclr";
/// The program of turns, and its functions of the scheduler with their cookies.
const TURNS: &str = "go_turns";
const SCHEDULER: [(&str, u32); 3] =
    [(READY, GO_READY), ("runtime.netpollready", GO_POLLED), ("runtime.execute", GO_EXECUTE)];
/// Longest of these functions.
const MAX_FUNCTION: u64 = 8192;

/// Where to probe; `None` if this is not a Go program of a known version.
fn plan(image: &Image<'_>) -> Option<Vec<ProbeSet>> {
    if !image.is_x86_64() {
        return None;
    }
    Layout::of(version(image)?)?;
    let wanted = [BIRTH, QUEUE, SEND, RECV, CLOSE, COPY, CLEAR].into_iter().chain(BUFFERS);
    let wanted: Vec<&'static str> = wanted.chain(SCHEDULER.iter().chain(&FUNCTIONS).map(|f| f.0)).collect();
    let found: HashMap<_, _> = go_functions::functions(image, &wanted).into_iter().collect();
    let body = |place: &Place| {
        let bytes = image.bytes(place.address, place.size.min(MAX_FUNCTION))?;
        Some(Function::new(bytes, place.address))
    };
    let probe = |address: u64| image.offset(address).map(|offset| Probe { offset, cookie: 0 });
    let entry = |name| found.get(name).and_then(body).and_then(|f| f.go_entry()).and_then(probe).into_iter().collect();
    let birth = found.get(BIRTH).zip(found.get(QUEUE)).and_then(|(birth, queue)| {
        let calls = body(birth)?.calls_of(queue.address);
        Some(calls.into_iter().filter_map(probe).collect())
    });
    let (mut puts, mut takes) = (Vec::new(), Vec::new());
    if let (Some(copy), Some(clear)) = (found.get(COPY), found.get(CLEAR)) {
        for function in BUFFERS.iter().filter_map(|name| body(found.get(name)?)) {
            let (calls, clears) = (function.all_calls(), clear.address);
            for (n, (at, _)) in calls.iter().enumerate().filter(|(_, (_, to))| *to == copy.address) {
                let is_take = calls.get(n + 1).is_some_and(|(_, next)| *next == clears);
                if is_take { &mut takes } else { &mut puts }.extend(probe(*at));
            }
        }
    }
    let with_cookies = |functions: &[(&'static str, u32)]| -> Vec<Probe> {
        let probe = |(name, cookie): &(&'static str, u32)| {
            let body = body(found.get(name)?)?;
            let offset = image.offset(body.go_entry().or_else(|| body.go_leaf_entry())?)?;
            Some(Probe { offset, cookie: *cookie })
        };
        functions.iter().filter_map(probe).collect()
    };
    let turns = with_cookies(&SCHEDULER);
    let begins = turns.iter().any(|probe| probe.cookie == GO_EXECUTE);
    Some(vec![
        ProbeSet::new("go_birth", birth.unwrap_or_default()),
        ProbeSet::new("go_send", entry(SEND)),
        ProbeSet::new("go_recv", entry(RECV)),
        ProbeSet::new("go_put", puts),
        ProbeSet::new("go_take", takes).with("go_put"),
        ProbeSet::new(TURNS, if begins { turns } else { Vec::new() }).only(When::Waits),
        ProbeSet::new("go_close", entry(CLOSE)).only(When::Shares),
        ProbeSet::new("go_ready", entry(READY)).with("go_close").only(When::Shares),
        ProbeSet::new("go_http", with_cookies(&FUNCTIONS)),
    ])
}

/// The minor version of Go that built the program. A program that does not say it in line is of version 17
/// (`src/debug/buildinfo`).
fn version(image: &Image<'_>) -> Option<u32> {
    let (_, bytes) = image.section(BUILD)?;
    minor(bytes)
}

fn minor(bytes: &[u8]) -> Option<u32> {
    const MAGIC: &[u8] = b"\xff Go buildinf:";
    const IN_LINE: u8 = 2;
    let at = bytes.windows(MAGIC.len()).step_by(16).position(|w| w == MAGIC)? * 16;
    let info = bytes.get(at..)?;
    if info.get(15)? & IN_LINE == 0 {
        return Some(17);
    }
    let length = usize::from(*info.get(32)?); // a varint; versions are shorter than 128 bytes
    let text = std::str::from_utf8(info.get(33..33 + length)?).ok()?;
    let rest = text.strip_prefix("go1.").or_else(|| text.split("go1.").nth(1))?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(version: &str) -> Vec<u8> {
        let mut bytes = b"\xff Go buildinf:".to_vec();
        bytes.extend([8, 2]);
        bytes.resize(32, 0);
        bytes.push(version.len() as u8);
        bytes.extend(version.as_bytes());
        bytes
    }

    #[test]
    fn a_program_names_its_version() {
        for (text, expected) in
            [("go1.26.8", Some(26)), ("go1.21rc2", Some(21)), ("devel go1.24-abc", Some(24)), ("devel +12", None)]
        {
            assert_eq!(minor(&info(text)), expected, "{text}");
        }
        for cut in 0..info("go1.26.8").len() - 1 {
            assert!(minor(&info("go1.26.8")[..cut]).is_none_or(|m| m == 17 || m == 26), "{cut}");
        }
    }

    #[test]
    fn an_unknown_version_is_left_alone() {
        assert!(Layout::of(16).is_none() && Layout::of(99).is_none() && Layout::of(26).is_some());
    }
}
