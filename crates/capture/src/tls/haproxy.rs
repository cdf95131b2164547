//! HAProxy: which stream its scheduler runs on a thread, and where a stream is made.
//!
//! The program exports its functions and thread-local variables, so that it can name them when it crashes. `th_ctx`
//! leads to the context of the thread, which has the task that runs; `bpf/runtime/haproxy/haproxy.h` finds where, as that differs
//! between versions. Since 2.6, these names stand.

use super::elf::{Image, Place};
use super::library::Probe;
use super::points::Function;
use std::collections::HashMap;

/// Runs a stream; runs one end of a stream, where something may be sent for it; gives a stream its first end.
const NAMES: [&str; 3] = ["process_stream", "sc_conn_io_cb", "sc_attach_strm"];
const CONTEXT: &str = "th_ctx";
/// So much of a function is looked at.
const LOOKED_AT: u64 = 64;

/// `struct haproxy` of `bpf/core/maps.h`; all zero if this is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    stream: u64,
    end: u64,
    context: u64,
}

impl Facts {
    pub(crate) fn bytes(self) -> [u8; 24] {
        let mut out = [0; 24];
        for (at, word) in out.chunks_exact_mut(8).zip([self.stream, self.end, self.context]) {
            at.copy_from_slice(&word.to_ne_bytes());
        }
        out
    }
}

/// What an executable tells, in its own addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HaProxy {
    facts: Facts,
    segment: (u64, u64),
    pub(crate) made: Vec<Probe>,
}

impl HaProxy {
    /// The same in a process; `mapping` is memory address and file offset of the file's code.
    pub(crate) fn facts(&self, (start, offset): (u64, u64)) -> Facts {
        let (at, address) = self.segment;
        let bias = start.wrapping_add(at.wrapping_sub(offset)).wrapping_sub(address);
        Facts {
            stream: self.facts.stream.wrapping_add(bias),
            end: self.facts.end.wrapping_add(bias),
            context: self.facts.context,
        }
    }
}

/// Looks into a file; `None` if it is no HAProxy that is known.
pub(crate) fn plan(image: &Image<'_>) -> Option<HaProxy> {
    if !image.is_x86_64() {
        return None;
    }
    let exported = image.exported(|name| NAMES.iter().find(|n| n.as_bytes() == name).copied());
    let found: HashMap<&str, Place> = exported.into_iter().map(|(place, name)| (name, place)).collect();
    let [stream, end, made] = NAMES.map(|name| found.get(name).map(|p| p.address));
    let made = made?;
    let function = Function::new(image.bytes(made, LOOKED_AT)?, made);
    let probe = Probe { offset: image.offset(function.points(false).enter)?, cookie: 0 };
    Some(HaProxy {
        facts: Facts { stream: stream?, end: end?, context: image.thread_local(CONTEXT)? },
        segment: image.code()?,
        made: vec![probe],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_a_process_are_those_of_the_file_moved() {
        let facts = Facts { stream: 0xfc6f0, end: 0x1acee0, context: 0x180u64.wrapping_sub(0xa850) };
        let haproxy = HaProxy { facts, segment: (0x4f000, 0x4f000), made: Vec::new() };
        let moved = haproxy.facts((0x5555_5559_f000, 0x4f000));
        assert_eq!((moved.stream, moved.end, moved.context), (0x5555_5564_c6f0, 0x5555_556f_cee0, facts.context));
    }

    #[test]
    fn other_programs_are_left_alone() {
        let own = std::path::Path::new("/proc/self/exe");
        assert!(super::super::elf::with(own, plan).is_none());
    }
}
