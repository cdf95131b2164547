//! Java's virtual machine (HotSpot): finds the places in its memory that show the mounted virtual thread, the objects
//! and the current task of a thread.
//!
//! The machine describes its structures itself, for debuggers: `gHotSpotVMStructs` is a table of type, field and
//! offset. Two more offsets are learnt from the living threads: the place where the C library keeps a thread's
//! `JavaThread`, and, before Java 24, the place of the id in a `java.lang.Thread`. An offset is accepted only if it
//! holds for all threads. A thread's object is recognised by the field that points back to the `JavaThread`. With
//! coloured references (ZGC) there is no such field, so the machine is not followed. A machine without virtual threads
//! (before Java 19) is followed as well, because its workers run tasks, too.

pub(super) mod agent;
pub(crate) mod functions;
mod table;
#[cfg(test)]
mod tests;
mod turns;

use super::{Learn, Process, Runtime};
use crate::features::Program;
use crate::memory::{self, Memory};
use crate::uprobe::elf::Image;
use crate::uprobe::{FactMaps, ProbeSet};
use crate::wire::contract::{AllocationsKey, JavaFacts, WS_MARK_CHUNKS, WS_VIRTUAL_THREAD};
use libbpf_rs::MapCore as _;
use std::collections::BTreeSet;

use table::{Fields, BUFFER, HEAP, STUBS, SYMBOLS, THREADS};

const MAX_THREADS: u64 = 4096;
/// Greatest and least number of threads from which offsets are learnt.
const LOOKED_AT: usize = 32;
const ENOUGH: usize = 4;
/// The C library's structure of a thread (glibc: 2,304 bytes).
const THREAD_BYTES: usize = 2304;
/// The beginning of a `java.lang.Thread`, where its numbers of eight bytes stand.
const OBJECT_BYTES: usize = 64;
const MAX_ID: u64 = 1 << 48;

/// Java's virtual machine.
pub(super) struct Java;

const FACTS: &str = "java_facts";
/// Where threads of Java allocate, by process and chunk.
const ALLOCATIONS: &str = "java_allocations";

impl Runtime for Java {
    fn tables(&self) -> &'static [&'static str] {
        &["actors", "java_moved", "java_ran", "java_recycled"]
    }

    fn programs(&self) -> &'static [Program] {
        turns::PROGRAMS
    }

    fn plan(&self, image: &Image<'_>) -> Vec<ProbeSet> {
        Library::of(image).map(|_| turns::plan(image)).into_iter().collect()
    }

    fn maps(&self) -> &'static [&'static str] {
        &[FACTS, ALLOCATIONS]
    }

    fn facts(&self, image: &Image<'_>, _: &[ProbeSet]) -> Option<Learn> {
        let library = Library::of(image)?;
        Some(Learn::runtime(WS_VIRTUAL_THREAD, FACTS, move |process| library.learn(process)))
    }

    fn takes_agent(&self, image: &Image<'_>) -> bool {
        Library::of(image).is_some()
    }

    fn ended(&self, maps: &FactMaps, pid: u32) {
        let Some(map) = maps.of_runtime(ALLOCATIONS) else { return };
        let keys = (0..=WS_MARK_CHUNKS).map(|chunk| AllocationsKey { pid, chunk }.to_bytes());
        let _ = keys.map(|key| map.delete(&key)).find(Result::is_err); // either all keys exist or none
    }
}

/// The machine's library: addresses of [`SYMBOLS`], and file offset and address of its code.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Library {
    symbols: [u64; SYMBOLS.len()],
    segment: (u64, u64),
}

impl Library {
    /// `None` if the file is not the library of a Java machine.
    fn of(image: &Image<'_>) -> Option<Self> {
        if !image.is_x86_64() {
            return None;
        }
        let found = image.exported(|name| SYMBOLS.iter().position(|s| s.as_bytes() == name));
        let mut symbols = [0; SYMBOLS.len()];
        for (place, which) in found {
            *symbols.get_mut(which)? = place.address;
        }
        (!symbols.contains(&0)).then_some(())?;
        Some(Library { symbols, segment: image.code()? })
    }

    /// Learns the places in a process; `None` if they cannot be read (yet).
    fn learn(&self, process: &Process<'_>) -> Option<JavaFacts> {
        let bias = process.mapped.filter(|_| process.follows_actors)?.bias(self.segment);
        let memory = memory::of(process.pid).ok()?;
        learn(&memory, &self.symbols.map(|s| s.wrapping_add(bias)))
    }
}

/// Places as found in one thread.
struct Seen {
    /// Offsets in the C library's structure of the thread that hold the address of its JavaThread.
    thread: BTreeSet<u16>,
    /// Offset in its java.lang.Thread of the field that points back to its JavaThread. The id follows it.
    back: u16,
    id: u64,
}

fn learn(memory: &impl Memory, symbols: &[u64; SYMBOLS.len()]) -> Option<JavaFacts> {
    let fields = Fields::read(memory, symbols, &THREADS)?;
    let mut machine = JavaFacts {
        os_thread: fields.offset("Thread", "_osthread").or_else(|| fields.offset("JavaThread", "_osthread"))?,
        handle: fields.offset("OSThread", "_pthread_id")?,
        platform: fields.offset("JavaThread", "_threadObj")?,
        current: fields.offset("JavaThread", "_vthread").unwrap_or(0),
        id: fields.offset("JavaThread", "_monitor_owner_id").unwrap_or(0),
        ..JavaFacts::default()
    };
    let stopped = ["_is_stw_gc_active", "_is_gc_active"].iter().find_map(|f| fields.offset(HEAP, f))?;
    let heap = memory.word(fields.address("Universe", "_collectedHeap")?)?;
    machine.collecting = heap.checked_add(u64::from(stopped))?;
    let buffer = ["_start", "_top", "_end"].map(|f| fields.offset(BUFFER, f));
    if let (Some(tlab), [Some(start), Some(top), Some(end)]) = (fields.offset("Thread", "_tlab"), buffer) {
        (machine.buffer, machine.buffer_start, machine.buffer_top, machine.buffer_end) = (tlab, start, top, end);
        machine.collections = fields.offset(HEAP, "_total_collections").map_or(0, |o| heap.wrapping_add(u64::from(o)));
    }
    if machine.collections != 0 {
        let tasks = tasks(memory, &fields, heap).unwrap_or_default();
        (machine.stack, machine.entry, machine.heap_from, machine.heap_to) = tasks;
    }
    let list = memory.word(fields.address("ThreadsSMRSupport", "_java_thread_list")?)?;
    let length = memory.word(list.checked_add(u64::from(fields.offset("ThreadsList", "_length")?))?)? & 0xffff_ffff;
    let threads = memory.word(list.checked_add(u64::from(fields.offset("ThreadsList", "_threads")?))?)?;
    let mut seen = Vec::new();
    for i in 0..length.min(MAX_THREADS) {
        let thread = memory.word(threads.checked_add(8 * i)?)?;
        // A thread that begins or ends is incomplete. A carrier shows nothing while a virtual thread is mounted.
        seen.extend(look(memory, &machine, thread));
        if seen.len() == LOOKED_AT {
            break;
        }
    }
    let first = seen.first().filter(|_| seen.len() >= ENOUGH)?;
    let mut common = first.thread.clone();
    seen.iter().for_each(|s| common.retain(|at| s.thread.contains(at)));
    machine.thread = *common.first()?;
    seen.iter().all(|s| s.back == first.back).then_some(())?;
    if machine.current != 0 {
        let ids: BTreeSet<u64> = seen.iter().map(|s| s.id).collect();
        (seen.iter().all(|s| (1..MAX_ID).contains(&s.id)) && ids.len() == seen.len()).then_some(())?;
        machine.id_in_object = first.back.checked_add(8)?;
    }
    Some(machine)
}

/// Facts to find tasks: offset of the upper end of a stack, return address of the stub that calls the first method, and
/// begin and end of the heap.
fn tasks(memory: &impl Memory, fields: &Fields, heap: u64) -> Option<(u16, u64, u64, u64)> {
    let stack = fields.offset("JavaThread", "_stack_base").or_else(|| fields.offset("Thread", "_stack_base"))?;
    let entry = memory.word(fields.address(STUBS, "_call_stub_return_address")?)?;
    let reserved = heap.checked_add(u64::from(fields.offset(HEAP, "_reserved")?))?;
    let (from, words) = (memory.word(reserved)?, memory.word(reserved.checked_add(8)?)?);
    let to = from.checked_add(words.checked_mul(8)?)?;
    (from != 0 && from < to).then_some((stack, entry, from, to))
}

fn look(memory: &impl Memory, machine: &JavaFacts, thread: u64) -> Option<Seen> {
    let field = |offset: u16| memory.word(thread.checked_add(u64::from(offset))?);
    let handle = memory.word(field(machine.os_thread)?.checked_add(u64::from(machine.handle))?)?;
    let object = memory.word(field(machine.platform)?)?;
    if machine.current != 0 && memory.word(field(machine.current)?)? != object {
        return None;
    }
    let at = |words: Vec<u64>| {
        words.into_iter().zip((0..).step_by(8)).filter(|(w, _)| *w == thread).map(|(_, at)| at).collect()
    };
    let own: BTreeSet<u16> = at(memory.words(handle, THREAD_BYTES)?);
    let words = memory.words(object, OBJECT_BYTES)?;
    let back = words.iter().position(|w| *w == thread)?;
    // From Java 19 on, `eetop` and `tid` are the first fields of java.lang.Thread, and of one size.
    let id = *words.get(back + 1)?;
    if machine.id != 0 && field(machine.id)? != id {
        return None;
    }
    Some(Seen { thread: own, back: u16::try_from(8 * back).ok()?, id })
}
