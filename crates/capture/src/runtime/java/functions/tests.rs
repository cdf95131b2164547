#![allow(clippy::unwrap_used)]

use super::code::{ends_with_call, frame_at, Frame as Made_};
use super::layout::Place;
use super::numbers::{line, Numbers};
use super::*;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Memory of a machine whose structures are simple: each field is a word wide, or a half if it is a number.
#[derive(Default)]
struct Fake(RefCell<BTreeMap<u64, u8>>);

impl Memory for &Fake {
    fn read(&self, at: u64, into: &mut [u8]) -> Option<()> {
        let bytes = self.0.borrow();
        for (at, byte) in (at..).zip(into) {
            *byte = *bytes.get(&at)?;
        }
        Some(())
    }
}

impl Fake {
    fn put(&self, at: u64, bytes: &[u8]) {
        self.0.borrow_mut().extend((at..).zip(bytes.iter().copied()));
    }

    fn words(&self, at: u64, words: &[u64]) {
        words.iter().zip((at..).step_by(8)).for_each(|(word, at)| self.put(at, &word.to_le_bytes()));
    }

    fn text(&self, at: u64, text: &str) {
        self.put(at, &(text.len() as u16).to_le_bytes());
        self.put(at + 2, text.as_bytes());
        self.put(at + 2 + text.len() as u64, &[0; 256]);
    }

    /// A method of a class `shop/Cart`, with this number of instructions, one line each, from line 10 on.
    fn method(&self, at: u64, name: &str, instructions: u16) {
        let (constant, pool, tags, texts) = (at + 0x100, at + 0x200, at + 0x300, at + 0x400);
        self.words(at, &[constant]);
        self.words(constant, &[pool, 32]);
        self.put(constant + 16, &[1_u16, instructions, 1, 0].map(u16::to_le_bytes).concat());
        // One pair for each instruction: the next one, the next line.
        let lines = [&[0xff, 1, 21][..], &vec![1 << 3 | 1; usize::from(instructions) - 1], &[0; 256]].concat();
        self.put(constant + 24 + u64::from(instructions), &lines);
        self.words(pool, &[tags, texts + 0x300, 3, 2, 0, texts, texts + 0x600]);
        self.put(tags, &[3, 0, 0, 0, 0, 1, 1]);
        self.text(texts, name);
        self.text(texts + 0x600, "src/Cart.java");
        self.words(texts + 0x300, &[texts + 0x900]);
        self.text(texts + 0x900, "shop/Cart");
    }
}

const HEAP: u64 = 0x10_0000;
const INTERPRETER: u64 = HEAP + 0x8000;
const ENTRY: u64 = HEAP + 0x9000;
const STACK: u64 = 0x7000_0000;
/// A compiled method of two functions, `price` in `pay`: at one place both, at another one `pay` only.
const COMPILED: u64 = HEAP + 8;
const CODE: u64 = COMPILED + 0x100;
const PRICE: u64 = 0x20_0000;
const PAY: u64 = 0x21_0000;
const CALL: Address = Address::CalledMade;

fn library() -> Arc<Library> {
    let field = |base, offset| Place { base, offset };
    Library::with(Layout {
        heaps_at: 0x1000,
        interpreter_at: 0x1008,
        entry_at: 0x1010,
        list_length: 0,
        list: 8,
        queue_buffer: 0,
        queue_size: 8,
        heap_low: 0,
        heap_end: 8,
        segments_low: 16,
        segments_end: 24,
        segment_bits: 32,
        block_size: 8,
        blob_size: 40,
        blob_name: 0,
        frame_size: 8,
        frame_complete: 12,
        frame_complete_is_short: false,
        code_begin: field(None, Some(16)),
        code_end: field(None, Some(20)),
        compiled_size: 96,
        method: 24,
        compile_id: 32,
        original_pc: 36,
        handlers: [field(None, Some(40)); 2],
        metadata: field(Some(48), None),
        scopes: field(Some(56), None),
        places_begin: field(Some(64), None),
        places_end: field(Some(72), None),
        numbers_without_zero: true,
        constant: 0,
        constant_size: 24,
        constants: 0,
        constant_words: 8,
        flags: 16,
        bytecodes: 18,
        name: 20,
        pool_size: 32,
        pool_tags: 0,
        pool_length: 16,
        holder: 8,
        source_file: 24,
        class_name: 0,
        text_length: 0,
        text: 2,
    })
}

fn machine() -> Fake {
    let fake = Fake::default();
    fake.put(0x1000, &[0; 0x1000]);
    fake.words(0x1000, &[0x1100, 0x1200, ENTRY]);
    fake.words(0x1100, &[1, 0x1180]);
    fake.words(0x1180, &[0x1300]);
    fake.words(0x1200, &[INTERPRETER, 0x800]);
    fake.words(0x1300, &[HEAP, HEAP + 0x10000, 0x1400, 0x1500, 8]);
    // Segments of 256 bytes: the compiled method has sixteen, the others are free.
    fake.put(0x1400, &[0xff; 0x100]);
    fake.put(0x1400, &(0..16).collect::<Vec<u8>>());
    fake.put(0x1500, b"nmethod\0\0\0\0\0\0\0\0\0");
    fake.put(COMPILED, &[0; 0x1000]);
    fake.words(COMPILED, &[0x1500, 4 | 16 << 32, 0x100 | 0xf00 << 32, PAY, 77]);
    fake.words(COMPILED + 48, &[0x1600, 0x1700, 0x1800, 0x1800 + 5 * 16]);
    fake.words(0x1600, &[PAY, PRICE]);
    // At 1 the scope of `pay` at its instruction 2; at 8 that of `price` at its instruction 1, in it.
    fake.put(0x1701, &[1, 2, 4]);
    fake.put(0x1708, &[2, 3, 3]);
    let place = |offset: i32, scope: i32| [offset, scope, 0, 0].map(i32::to_le_bytes).concat();
    fake.put(0x1800, &[place(-1, 0), place(0x40, 8), place(0x80, 1), place(i32::MAX, 0)].concat());
    fake.method(PRICE, "price", 3);
    fake.method(PAY, "pay", 4);
    fake
}

fn stack(words: &[(u64, u64)]) -> impl Fn(u64) -> Option<u64> + '_ {
    move |at| words.iter().find(|(own, _)| STACK + own == at).map(|(_, word)| *word)
}

fn told(made: &Made) -> Vec<String> {
    made.functions.iter().map(ToString::to_string).collect()
}

fn at(ip: u64) -> Registers {
    Registers { ip, sp: STACK, fp: STACK + 0x100 }
}

#[test]
fn a_compiled_method_is_told_with_what_was_put_into_it_and_its_caller_by_the_size_of_its_frame() {
    let fake = machine();
    let mut functions = Functions::new(&fake, library(), 0);
    let words = [(16, 0x1234), (24, INTERPRETER + 8)];
    // Twice: the second time it is known.
    for _ in 0..2 {
        let made = functions.step(at(CODE + 0x40), CALL, stack(&words)).unwrap();
        assert_eq!(told(&made), ["shop.Cart.price (Cart.java:11)", "shop.Cart.pay (Cart.java:12)"]);
        assert_eq!(made.caller, Caller::At(Registers { ip: INTERPRETER + 8, sp: STACK + 32, fp: 0x1234 }));
    }
    let made = functions.step(at(CODE + 0x80), CALL, stack(&words)).unwrap();
    assert_eq!(told(&made), ["shop.Cart.pay (Cart.java:12)"]);
    // Where a thread runs, the next place that the compiler describes is taken, and no line.
    let made = functions.step(at(CODE + 0x50), Address::Runs, stack(&words)).unwrap();
    assert_eq!(told(&made), ["shop.Cart.pay (Cart.java)"]);
    // The same holds for a call to a library, but not for anything that is no call.
    let library = Address::CalledLibrary;
    assert_eq!(told(&functions.step(at(CODE + 0x50), library, stack(&words)).unwrap()), Vec::<String>::new());
    fake.put(CODE + 0x4b, &[0xe8]);
    let made = functions.step(at(CODE + 0x50), library, stack(&words)).unwrap();
    assert_eq!(told(&made), ["shop.Cart.pay (Cart.java)"]);
    assert_eq!(told(&functions.step(at(CODE + 0x50), CALL, stack(&words)).unwrap()), Vec::<String>::new());
}

#[test]
fn what_is_no_call_in_the_method_that_is_there_now_has_no_name() {
    let fake = machine();
    let mut functions = Functions::new(&fake, library(), 0);
    let words = [(16, 0x1234), (24, INTERPRETER + 8)];
    let nothing = Made { functions: Vec::new(), caller: Caller::Unknown };
    assert_eq!(functions.step(at(CODE + 0x41), CALL, stack(&words)).unwrap(), nothing);
    assert!(functions.step(at(CODE + 0x40), CALL, stack(&words)).is_some_and(|made| made.functions.len() == 2));
    // Another method is compiled to the same place: what is known of the old one does not count.
    fake.words(COMPILED + 24, &[PRICE, 78]);
    fake.put(0x1800 + 16, &0x48_i32.to_le_bytes());
    assert_eq!(functions.step(at(CODE + 0x40), CALL, stack(&words)).unwrap(), nothing);
    // A caller that is no code of the machine.
    let wrong = [(16, 0x1234), (24, 0x7f00_0000)];
    assert_eq!(functions.step(at(CODE + 0x80), CALL, stack(&wrong)).unwrap(), nothing);
    assert_eq!(functions.step(at(CODE + 0x80), CALL, |_| None).unwrap(), nothing);
    assert!(functions.step(at(0x7f00_0000), CALL, stack(&words)).is_none());
    // A free segment, and the class of a method that was unloaded.
    assert_eq!(functions.step(at(HEAP + 0x7000), CALL, stack(&words)).unwrap(), nothing);
    fake.put(PAY + 0x300, &[0; 8]);
    fake.put(PAY + 0x100 + 16, &[0; 2]);
    assert_eq!(functions.step(at(CODE + 0x80), Address::Runs, stack(&words)).unwrap(), nothing);
}

#[test]
fn a_stack_of_a_virtual_thread_ends_where_its_other_functions_are_not_on_the_stack() {
    let fake = machine();
    // The piece of code is a stub without a frame of a known size.
    fake.put(0x1500, b"stubs\0");
    fake.put(COMPILED + 8, &[0; 4]);
    fake.put(CODE + 0x3b, &[0xe8]);
    let mut functions = Functions::new(&fake, library(), 0);
    let words = [(0, 7), (0x100, STACK + 0x200), (0x108, CODE + 0x40)];
    let caller =
        |functions: &mut Functions<_>, address| functions.step(at(CODE + 0x80), address, stack(&words)).unwrap().caller;
    assert_eq!(caller(&mut functions, CALL), Caller::Away);
    let by_pointer = Caller::At(Registers { ip: CODE + 0x40, sp: STACK + 0x110, fp: STACK + 0x200 });
    assert_eq!(caller(&mut functions, Address::CalledLibrary), by_pointer);
    assert_eq!(caller(&mut functions, Address::Runs), by_pointer);
    // A stub that runs and has made no frame.
    let words = [(0, CODE + 0x40)];
    let made = functions.step(at(CODE + 0x80), Address::Runs, stack(&words)).unwrap();
    assert_eq!(made.caller, Caller::At(Registers { ip: CODE + 0x40, sp: STACK + 8, fp: STACK + 0x100 }));
}

#[test]
fn the_interpreter_is_followed_by_its_frame_pointer() {
    let fake = machine();
    let mut functions = Functions::new(&fake, library(), 0);
    let first = PRICE + 0x100 + 24;
    let mut words = [
        (0x100, STACK + 0x200),
        (0x108, ENTRY),
        (0x100 - 8, STACK + 0x118),
        (0x100 - 24, PRICE),
        (0x100 - 64, first + 2),
    ];
    let made = functions.step(at(INTERPRETER + 8), CALL, stack(&words)).unwrap();
    assert_eq!(told(&made), ["shop.Cart.price (Cart.java:12)"]);
    assert_eq!(made.caller, Caller::At(Registers { ip: ENTRY, sp: STACK + 0x118, fp: STACK + 0x200 }));
    // The first method was called by the machine.
    let entry = Registers { ip: ENTRY, sp: STACK, fp: STACK + 0x100 };
    let made = functions.step(entry, CALL, stack(&words)).unwrap();
    assert_eq!(made.caller, Caller::At(Registers { ip: ENTRY, sp: STACK + 0x110, fp: STACK + 0x200 }));
    // Of a native method no instruction is known.
    words[4].1 = 0;
    let made = functions.step(at(INTERPRETER + 8), CALL, stack(&words)).unwrap();
    assert_eq!(told(&made), ["shop.Cart.price (Cart.java)"]);
    words[3].1 = PRICE + 8;
    let made = functions.step(at(INTERPRETER + 8), CALL, stack(&words)).unwrap();
    assert_eq!((made.functions.len(), made.caller), (0, Caller::Unknown));
}

#[test]
fn a_machine_of_random_bytes_gives_no_panic() {
    let mut seed = 7_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let whole: Vec<u64> = machine().0.borrow().keys().copied().collect();
    for _ in 0..60 {
        let fake = machine();
        for _ in 0..40 {
            let place = whole[random() as usize % whole.len()];
            fake.put(place, &[random() as u8]);
        }
        let mut functions = Functions::new(&fake, library(), 0);
        for ip in [CODE + 0x40, CODE + 0x50, INTERPRETER + 8, ENTRY, HEAP + 0x3000] {
            for address in [Address::Runs, Address::CalledMade, Address::CalledLibrary] {
                let word = random();
                functions.step(at(ip), address, |at| Some(word.rotate_left(at as u32 & 63)));
            }
        }
    }
}

#[test]
fn numbers_are_read_in_both_ways_in_which_they_are_kept() {
    let read = |bytes: &[u8], without_zero| Numbers::new(bytes, without_zero).unsigned();
    assert_eq!([read(&[0], false), read(&[191], false), read(&[192, 1], false)], [Some(0), Some(191), Some(192 + 64)]);
    assert_eq!([read(&[1], true), read(&[191], true), read(&[192, 1], true)], [Some(0), Some(190), Some(191)]);
    assert_eq!([read(&[0], true), read(&[], false), read(&[200], false)], [None, None, None]);
    assert_eq!(read(&[255; 9], false), read(&[255; 5], false));
    let signed = |bytes: &[u8]| Numbers::new(bytes, false).signed();
    assert_eq!([signed(&[0]), signed(&[1]), signed(&[2]), signed(&[3])], [Some(0), Some(-1), Some(1), Some(-2)]);
    // Instructions 0, 3 and 40 are of lines 5, 7 and 6.
    let table = [5, 3 << 3 | 2, 0xff, 74, 1, 0];
    let lines: Vec<u32> = [0, 2, 3, 39, 40, 99].iter().map(|at| line(&table, false, *at)).collect();
    assert_eq!(lines, [5, 5, 7, 7, 6, 6]);
    assert_eq!(line(&[], false, 3), 0);
}

#[test]
fn a_frame_is_known_at_the_begin_and_at_the_end_of_a_method() {
    // mov [rsp-0x14000], eax; push rbp; sub rsp, 0x20; …; add rsp, 0x20; pop rbp; cmp rsp, [r15+0x448]; ja …; ret
    let code = [
        &[0x89, 0x84, 0x24, 0x00, 0xc0, 0xfe, 0xff][..],
        &[0x55],
        &[0x48, 0x83, 0xec, 0x20],
        &[0x90],
        &[0x48, 0x83, 0xc4, 0x20],
        &[0x5d],
        &[0x49, 0x3b, 0xa7, 0x48, 0x04, 0x00, 0x00],
        &[0x0f, 0x87, 1, 0, 0, 0],
        &[0xc3],
    ];
    let whole = code.concat();
    let starts = code.iter().scan(0, |sum, part| Some(std::mem::replace(sum, *sum + part.len())));
    let frames: Vec<Made_> =
        starts.map(|at| frame_at(&whole[..at], &whole[at..], at < code[..3].concat().len())).collect();
    use Made_::{None, Pushed, Whole};
    assert_eq!(frames, [None, None, Pushed, Whole, Whole, Pushed, None, None, None]);
}

#[test]
fn a_call_is_known_by_its_bytes() {
    assert!(ends_with_call(&[0, 0, 0xe8, 1, 2, 3, 4]));
    // call r10; call rax; call [rax+8]
    assert!(ends_with_call(&[0, 0, 0, 0, 0x41, 0xff, 0xd2]));
    assert!(ends_with_call(&[0, 0, 0, 0, 0, 0xff, 0xd0]));
    assert!(ends_with_call(&[0, 0, 0, 0, 0xff, 0x50, 8]));
    // jmp rax; nothing.
    assert!(!ends_with_call(&[0, 0, 0, 0, 0, 0xff, 0xe0]));
    assert!(!ends_with_call(&[]));
}
