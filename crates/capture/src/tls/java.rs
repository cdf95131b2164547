//! Java's virtual machine (HotSpot): where a thread says which virtual thread it has mounted.
//!
//! The machine describes its structures itself, for debuggers: `gHotSpotVMStructs` is a table of type, field and offset. What it
//! does not say is learnt from the threads that live: where the C library keeps a thread's `JavaThread`, and, before Java 24,
//! where a `java.lang.Thread` keeps its id. Each is believed only if it holds for all of them. The objects are recognised by the field
//! in which they point back to their `JavaThread`: where references are coloured (ZGC), none is, and the machine is left
//! alone, as one that has no virtual threads (before Java 19).

use super::elf::Image;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::os::unix::fs::FileExt as _;

const TABLE: &str = "gHotSpotVMStructs";
/// Where an entry of the table keeps what.
const TYPE: &str = "gHotSpotVMStructEntryTypeNameOffset";
const FIELD: &str = "gHotSpotVMStructEntryFieldNameOffset";
const OFFSET: &str = "gHotSpotVMStructEntryOffsetOffset";
const ADDRESS: &str = "gHotSpotVMStructEntryAddressOffset";
const STRIDE: &str = "gHotSpotVMStructEntryArrayStride";
const SYMBOLS: [&str; 6] = [TABLE, TYPE, FIELD, OFFSET, ADDRESS, STRIDE];

/// More than any version has: a table without an end is none.
const MAX_ENTRIES: u64 = 8192;
const MAX_NAME: usize = 64;
const MAX_THREADS: u64 = 4096;
/// So many threads are looked at, and not fewer.
const LOOKED_AT: usize = 32;
const ENOUGH: usize = 4;
/// The C library's structure of a thread (glibc: 2,304 bytes).
const THREAD_BYTES: usize = 2304;
/// The beginning of a `java.lang.Thread`, where its numbers of eight bytes stand.
const OBJECT_BYTES: usize = 64;
const MAX_ID: u64 = 1 << 48;

/// `struct java_machine` of `bpf/maps.h`; all zero if there is none that can be followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Machine {
    collecting: u64,
    thread: u16,
    os_thread: u16,
    handle: u16,
    platform: u16,
    current: u16,
    id: u16,
    id_in_object: u16,
    /// Of JavaThread, and of that: start, top and end. `collections` is 0 if they are not known.
    buffer: [u16; 4],
    collections: u64,
}

impl Machine {
    pub(crate) fn bytes(self) -> [u8; 40] {
        let mut out = [0; 40];
        out[..8].copy_from_slice(&self.collecting.to_ne_bytes());
        let own = [self.thread, self.os_thread, self.handle, self.platform, self.current, self.id, self.id_in_object];
        for (at, word) in out[8..].chunks_exact_mut(2).zip(own.into_iter().chain(self.buffer)) {
            at.copy_from_slice(&word.to_ne_bytes());
        }
        out[32..].copy_from_slice(&self.collections.to_ne_bytes());
        out
    }
}

/// A file that holds such a machine: addresses of [`SYMBOLS`], and of its code in the file and in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Java {
    symbols: [u64; SYMBOLS.len()],
    segment: (u64, u64),
}

/// Looks into a file; `None` if it is no such machine.
pub(crate) fn plan(image: &Image<'_>) -> Option<Java> {
    if !image.is_x86_64() {
        return None;
    }
    let found = image.exported(|name| SYMBOLS.iter().position(|s| s.as_bytes() == name));
    let mut symbols = [0; SYMBOLS.len()];
    for (place, which) in found {
        *symbols.get_mut(which)? = place.address;
    }
    (!symbols.contains(&0)).then_some(())?;
    Some(Java { symbols, segment: image.code()? })
}

impl Java {
    /// What the process says; `None` if it does not (yet). `mapping` is memory address and file offset of the file's code.
    pub(crate) fn learn(&self, pid: u32, (start, offset): (u64, u64)) -> Option<Machine> {
        let (at, address) = self.segment;
        let bias = start.wrapping_add(at.wrapping_sub(offset)).wrapping_sub(address);
        let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
        learn(&memory, &self.symbols.map(|s| s.wrapping_add(bias)))
    }
}

/// Memory of a process, which it changes meanwhile.
trait Memory {
    /// Fills the buffer, or says that not all of it can be read.
    fn read(&self, at: u64, into: &mut [u8]) -> Option<()>;

    fn word(&self, at: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes)?;
        Some(u64::from_ne_bytes(bytes))
    }

    /// Words, as many as are wanted.
    fn words(&self, at: u64, size: usize) -> Option<Vec<u64>> {
        let mut bytes = vec![0; size];
        self.read(at, &mut bytes)?;
        let words = bytes.chunks_exact(8);
        Some(words.filter_map(|w| w.try_into().ok()).map(u64::from_ne_bytes).collect())
    }

    /// A text of C; empty if it is too long.
    fn text(&self, at: u64) -> Option<String> {
        let mut bytes = [0; MAX_NAME];
        self.read(at, &mut bytes)?;
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(0);
        Some(String::from_utf8_lossy(bytes.get(..end)?).into_owned())
    }
}

impl Memory for File {
    fn read(&self, at: u64, into: &mut [u8]) -> Option<()> {
        self.read_exact_at(into, at).ok()
    }
}

/// What the table says of the fields that are wanted: offset, or address of a static one.
struct Fields(HashMap<(String, String), (u64, u64)>);

impl Fields {
    fn read(memory: &impl Memory, symbols: &[u64; SYMBOLS.len()]) -> Option<Self> {
        const OF: [&str; 8] =
            ["ThreadsSMRSupport", "ThreadsList", "Thread", "JavaThread", "OSThread", "Universe", HEAP, BUFFER];
        let [mut at, kind, field, offset, address, stride] =
            symbols.iter().map(|s| memory.word(*s)).collect::<Option<Vec<_>>>()?.try_into().ok()?;
        // The machine sets them as it is loaded.
        if at == 0 || !(8..=256).contains(&stride) || [kind, field, offset, address].iter().any(|o| *o >= stride) {
            return None;
        }
        let mut names: HashMap<u64, Option<String>> = HashMap::new();
        let mut fields = HashMap::new();
        for _ in 0..MAX_ENTRIES {
            let named = memory.word(at.checked_add(kind)?)?;
            if named == 0 {
                return Some(Fields(fields));
            }
            let name = match names.get(&named) {
                Some(name) => name.clone(),
                None => {
                    let text = memory.text(named)?;
                    let wanted = OF.contains(&text.as_str()).then_some(text);
                    names.insert(named, wanted.clone());
                    wanted
                }
            };
            if let Some(name) = name {
                let field = memory.text(memory.word(at + field)?)?;
                fields.insert((name, field), (memory.word(at + offset)?, memory.word(at + address)?));
            }
            at = at.checked_add(stride)?;
        }
        None
    }

    fn find(&self, of: &str, field: &str) -> Option<(u64, u64)> {
        self.0.get(&(of.to_string(), field.to_string())).copied()
    }

    fn offset(&self, of: &str, field: &str) -> Option<u16> {
        self.find(of, field)?.0.try_into().ok()
    }

    fn address(&self, of: &str, field: &str) -> Option<u64> {
        self.find(of, field).map(|f| f.1).filter(|a| *a != 0)
    }
}

const HEAP: &str = "CollectedHeap";
const BUFFER: &str = "ThreadLocalAllocBuffer";

/// What one thread says of where things are.
struct Seen {
    /// Offsets in the C library's structure at which its JavaThread stands.
    thread: BTreeSet<u16>,
    /// Where its object points back to it, and keeps its id.
    back: u16,
    id: u64,
}

fn learn(memory: &impl Memory, symbols: &[u64; SYMBOLS.len()]) -> Option<Machine> {
    let fields = Fields::read(memory, symbols)?;
    let mut machine = Machine {
        os_thread: fields.offset("Thread", "_osthread").or_else(|| fields.offset("JavaThread", "_osthread"))?,
        handle: fields.offset("OSThread", "_pthread_id")?,
        platform: fields.offset("JavaThread", "_threadObj")?,
        current: fields.offset("JavaThread", "_vthread")?,
        id: fields.offset("JavaThread", "_monitor_owner_id").unwrap_or(0),
        ..Machine::default()
    };
    let stopped = ["_is_stw_gc_active", "_is_gc_active"].iter().find_map(|f| fields.offset(HEAP, f))?;
    let heap = memory.word(fields.address("Universe", "_collectedHeap")?)?;
    machine.collecting = heap.checked_add(u64::from(stopped))?;
    let buffer = ["_start", "_top", "_end"].map(|f| fields.offset(BUFFER, f));
    if let (Some(tlab), [Some(start), Some(top), Some(end)]) = (fields.offset("Thread", "_tlab"), buffer) {
        machine.buffer = [tlab, start, top, end];
        machine.collections = fields.offset(HEAP, "_total_collections").map_or(0, |o| heap.wrapping_add(u64::from(o)));
    }
    let list = memory.word(fields.address("ThreadsSMRSupport", "_java_thread_list")?)?;
    let length = memory.word(list.checked_add(u64::from(fields.offset("ThreadsList", "_length")?))?)? & 0xffff_ffff;
    let threads = memory.word(list.checked_add(u64::from(fields.offset("ThreadsList", "_threads")?))?)?;
    let mut seen = Vec::new();
    for i in 0..length.min(MAX_THREADS) {
        let thread = memory.word(threads.checked_add(8 * i)?)?;
        // One that begins or ends has not all of it; a carrier says nothing while another thread is mounted.
        seen.extend(look(memory, &machine, thread));
        if seen.len() == LOOKED_AT {
            break;
        }
    }
    let first = seen.first().filter(|_| seen.len() >= ENOUGH)?;
    let mut common = first.thread.clone();
    seen.iter().for_each(|s| common.retain(|at| s.thread.contains(at)));
    machine.thread = *common.first()?;
    let ids: BTreeSet<u64> = seen.iter().map(|s| s.id).collect();
    let agree = seen.iter().all(|s| s.back == first.back && (1..MAX_ID).contains(&s.id)) && ids.len() == seen.len();
    machine.id_in_object = first.back.checked_add(8)?;
    agree.then_some(machine)
}

fn look(memory: &impl Memory, machine: &Machine, thread: u64) -> Option<Seen> {
    let field = |offset: u16| memory.word(thread.checked_add(u64::from(offset))?);
    let handle = memory.word(field(machine.os_thread)?.checked_add(u64::from(machine.handle))?)?;
    let object = memory.word(field(machine.platform)?)?;
    if memory.word(field(machine.current)?)? != object {
        return None;
    }
    let at = |words: Vec<u64>| {
        words.into_iter().zip((0..).step_by(8)).filter(|(w, _)| *w == thread).map(|(_, at)| at).collect()
    };
    let own: BTreeSet<u16> = at(memory.words(handle, THREAD_BYTES)?);
    let words = memory.words(object, OBJECT_BYTES)?;
    let back = words.iter().position(|w| *w == thread)?;
    // `eetop` and `tid` are the first fields of java.lang.Thread, and of one size.
    let id = *words.get(back + 1)?;
    if machine.id != 0 && field(machine.id)? != id {
        return None;
    }
    Some(Seen { thread: own, back: u16::try_from(8 * back).ok()?, id })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: u64 = 0x1000;
    const TEXTS: u64 = 0x8000;
    const TABLE_AT: u64 = 0x10000;
    const WORDS: u64 = 0x20000;

    /// Memory by words; texts stand eight bytes in a word.
    #[derive(Default)]
    struct Fake {
        words: HashMap<u64, u64>,
        texts: u64,
        entries: u64,
    }

    impl Memory for Fake {
        fn read(&self, at: u64, into: &mut [u8]) -> Option<()> {
            for (at, byte) in (at..).zip(into) {
                let word = self.words.get(&(at & !7))?;
                *byte = word.to_ne_bytes()[(at & 7) as usize];
            }
            Some(())
        }
    }

    impl Fake {
        fn put(&mut self, at: u64, words: &[u64]) {
            self.words.extend((at..).step_by(8).zip(words.iter().copied()));
        }

        fn name(&mut self, text: &str) -> u64 {
            let at = TEXTS + self.texts;
            self.texts += MAX_NAME as u64;
            let mut bytes = text.as_bytes().to_vec();
            bytes.resize(MAX_NAME, 0);
            let words: Vec<u64> =
                bytes.chunks(8).map(|b| u64::from_ne_bytes(b.try_into().expect("eight bytes"))).collect();
            self.put(at, &words);
            at
        }

        fn field(&mut self, of: &str, field: &str, offset: u64, address: u64) {
            let (of, field) = (self.name(of), self.name(field));
            self.put(TABLE_AT + 32 * self.entries, &[of, field, offset, address, 0]);
            self.entries += 1;
        }

        /// A machine with so many threads; before Java 24 without `_monitor_owner_id`.
        fn machine(threads: u64, with_ids: bool) -> Self {
            let mut m = Fake::default();
            m.put(CODE, &[TABLE_AT, 0, 8, 16, 24, 32]);
            m.field("Klass", "_name", 8, 0);
            m.field("ThreadsSMRSupport", "_java_thread_list", 0, WORDS);
            m.field("ThreadsList", "_length", 4, 0);
            m.field("ThreadsList", "_threads", 16, 0);
            m.field("Thread", "_osthread", 8, 0);
            m.field("JavaThread", "_threadObj", 16, 0);
            m.field("JavaThread", "_vthread", 24, 0);
            m.field("OSThread", "_pthread_id", 8, 0);
            m.field("Universe", "_collectedHeap", 0, WORDS + 8);
            m.field(HEAP, "_is_stw_gc_active", 64, 0);
            m.field(HEAP, "_total_collections", 80, 0);
            m.field("Thread", "_tlab", 48, 0);
            m.field(BUFFER, "_start", 0, 0);
            m.field(BUFFER, "_top", 8, 0);
            m.field(BUFFER, "_end", 24, 0);
            if with_ids {
                m.field("JavaThread", "_monitor_owner_id", 32, 0);
            }
            m.put(WORDS, &[WORDS + 0x100, 0x7000_0000]);
            m.put(WORDS + 0x100, &[threads << 32, 0, WORDS + 0x200]);
            (0..threads).for_each(|i| m.thread(i));
            m
        }

        fn at(i: u64) -> u64 {
            0x10_0000 * (i + 1)
        }

        fn thread(&mut self, i: u64) {
            let thread = Self::at(i);
            let (os, slots, handle, object) = (thread + 0x1000, thread + 0x2000, thread + 0x3000, thread + 0x8000);
            self.put(WORDS + 0x200 + 8 * i, &[thread]);
            self.put(thread, &[0, os, slots, slots + 8, 10 + i]);
            self.put(os, &[0, handle]);
            self.put(slots, &[object, object]);
            self.put(handle, &[0; THREAD_BYTES / 8]);
            self.put(handle + 792, &[thread]);
            if i % 2 == 1 {
                self.put(handle + 1600, &[thread]); // …its argument, if the machine started it
            }
            self.put(object, &[1, 7, thread, 10 + i, 0, 0, 0, 0]);
        }

        fn learn(&self) -> Option<Machine> {
            learn(self, &[0, 1, 2, 3, 4, 5].map(|i| CODE + 8 * i))
        }
    }

    #[test]
    fn a_machine_says_where_its_threads_are() {
        let machine = Machine {
            collecting: 0x7000_0040,
            thread: 792,
            os_thread: 8,
            handle: 8,
            platform: 16,
            current: 24,
            id: 32,
            id_in_object: 24,
            buffer: [48, 0, 8, 24],
            collections: 0x7000_0050,
        };
        assert_eq!(Fake::machine(6, true).learn(), Some(machine));
        assert_eq!(Fake::machine(6, false).learn(), Some(Machine { id: 0, ..machine }));
        assert_eq!(machine.bytes()[..14], [0x40, 0, 0, 0x70, 0, 0, 0, 0, 0x18, 3, 8, 0, 8, 0]);
        assert_eq!(machine.bytes()[22..34], [48, 0, 0, 0, 8, 0, 24, 0, 0, 0, 0x50, 0]);
        // A carrier that has a virtual thread mounted, and a thread that begins, say nothing, and do not contradict.
        let mut m = Fake::machine(7, true);
        m.put(Fake::at(5) + 0x2008, &[0x55_5555]);
        m.put(Fake::at(6), &[0; 5]);
        assert_eq!(m.learn(), Some(machine));
    }

    #[test]
    fn what_does_not_hold_for_all_is_not_believed() {
        assert_eq!(Fake::machine(ENOUGH as u64 - 1, true).learn(), None);
        let mut elsewhere = Fake::machine(6, true);
        let thread = Fake::at(2);
        elsewhere.put(thread + 0x3000 + 792, &[0, thread]);
        assert_eq!(elsewhere.learn(), None);
        let mut same_id = Fake::machine(6, false);
        same_id.put(Fake::at(2) + 0x8018, &[10]);
        assert_eq!(same_id.learn(), None);
        // References that are no addresses.
        let mut coloured = Fake::machine(6, true);
        (0..6).for_each(|i| coloured.put(Fake::at(i) + 0x2000, &[(Fake::at(i) + 0x8000) << 16; 2]));
        assert_eq!(coloured.learn(), None);
        // A table that another version fills in otherwise, one without an end, none yet.
        for (at, word) in [(CODE + 40, 0), (CODE + 40, 24), (TABLE_AT, 1), (CODE, 0), (CODE, u64::MAX - 4)] {
            let mut odd = Fake::machine(6, true);
            odd.put(at, &[word]);
            assert_eq!(odd.learn(), None, "{at:x} {word:x}");
        }
        let without = (0..16).filter(|entry| {
            let mut m = Fake::machine(6, true);
            let name = m.name("_other");
            m.put(TABLE_AT + 32 * entry + 8, &[name]);
            m.learn().is_none()
        });
        assert_eq!(
            without.collect::<Vec<_>>(),
            (1..10).collect::<Vec<_>>(),
            "but a field of another type, those for births, and the id"
        );
    }
}
