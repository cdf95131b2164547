//! Machines made of words, as a debugger would find them.

use super::table::MAX_NAME;
use super::*;
use std::collections::HashMap;

const CODE: u64 = 0x1000;
const TEXTS: u64 = 0x8000;
const TABLE_AT: u64 = 0x10000;
const WORDS: u64 = 0x20000;
const STUB: u64 = 0x7f00_1234;
const HEAP_AT: u64 = 0xe000_0000;

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
        let words: Vec<u64> = bytes.chunks(8).map(|b| u64::from_ne_bytes(b.try_into().expect("eight bytes"))).collect();
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
        m.field(HEAP, "_reserved", 32, 0);
        m.field(STUBS, "_call_stub_return_address", 0, WORDS + 16);
        m.field("JavaThread", "_stack_base", 56, 0);
        m.field("Thread", "_tlab", 48, 0);
        m.field(BUFFER, "_start", 0, 0);
        m.field(BUFFER, "_top", 8, 0);
        m.field(BUFFER, "_end", 24, 0);
        if with_ids {
            m.field("JavaThread", "_monitor_owner_id", 32, 0);
        }
        m.put(WORDS, &[WORDS + 0x100, 0x7000_0000, STUB]);
        m.put(0x7000_0020, &[HEAP_AT, 0x1000]);
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

    fn learn(&self) -> Option<JavaFacts> {
        learn(self, &[0, 1, 2, 3, 4, 5].map(|i| CODE + 8 * i))
    }
}

#[test]
fn a_machine_says_where_its_threads_are() {
    let machine = JavaFacts {
        collecting: 0x7000_0040,
        thread: 792,
        os_thread: 8,
        handle: 8,
        platform: 16,
        current: 24,
        id: 32,
        id_in_object: 24,
        buffer: 48,
        buffer_start: 0,
        buffer_top: 8,
        buffer_end: 24,
        stack: 56,
        collections: 0x7000_0050,
        entry: STUB,
        heap_from: HEAP_AT,
        heap_to: HEAP_AT + 0x8000,
    };
    assert_eq!(Fake::machine(6, true).learn(), Some(machine));
    assert_eq!(Fake::machine(6, false).learn(), Some(JavaFacts { id: 0, ..machine }));
    assert_eq!(machine.to_bytes()[..14], [0x40, 0, 0, 0x70, 0, 0, 0, 0, 0x18, 3, 8, 0, 8, 0]);
    assert_eq!(machine.to_bytes()[22..34], [48, 0, 0, 0, 8, 0, 24, 0, 56, 0, 0x50, 0]);
    assert_eq!(machine.to_bytes()[40..], [STUB, HEAP_AT, HEAP_AT + 0x8000].map(u64::to_ne_bytes).concat());
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
    let named_otherwise = |entry: u64| {
        let mut m = Fake::machine(6, true);
        let name = m.name("_other");
        m.put(TABLE_AT + 32 * entry + 8, &[name]);
        m.learn()
    };
    let without = (0..19).filter(|entry| named_otherwise(*entry).is_none());
    assert_eq!(
        without.collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 7, 8, 9],
        "but a field of another type, what virtual threads, births and tasks need, and the id"
    );
    let without = (0..19).filter(|entry| named_otherwise(*entry).is_some_and(|m| m.entry == 0));
    assert_eq!(without.collect::<Vec<_>>(), (10..18).collect::<Vec<_>>(), "tasks need where objects lie, as births do");
}

#[test]
fn a_machine_without_virtual_threads_has_workers_all_the_same() {
    let mut old = Fake::machine(6, false);
    let other = old.name("_other");
    old.put(TABLE_AT + 32 * 6 + 8, &[other]);
    (0..6).for_each(|i| old.put(Fake::at(i) + 0x8018, &[0])); // what follows is no id
    let machine = old.learn().expect("a machine");
    assert_eq!((machine.current, machine.id_in_object, machine.entry), (0, 0, STUB));
    // A heap that is nowhere, or without end.
    for reserved in [[0, 0x1000], [HEAP_AT, 0], [HEAP_AT, u64::MAX / 4]] {
        old.put(0x7000_0020, &reserved);
        assert_eq!(old.learn(), Some(JavaFacts { stack: 0, entry: 0, heap_from: 0, heap_to: 0, ..machine }));
    }
}
