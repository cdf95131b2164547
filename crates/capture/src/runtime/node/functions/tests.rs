#![allow(clippy::unwrap_used)]

use super::*;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Memory in which objects are made, as Node 20 lays them out.
#[derive(Default)]
struct Heap(RefCell<BTreeMap<u64, u64>>);

impl Memory for &Heap {
    fn read(&self, at: u64, into: &mut [u8]) -> Option<()> {
        let words = self.0.borrow();
        for (n, byte) in into.iter_mut().enumerate() {
            let at = at + n as u64;
            *byte = words.get(&(at & !7))?.to_le_bytes()[(at & 7) as usize];
        }
        Some(())
    }
}

impl Heap {
    /// Makes an object of these words; the first says what it is.
    fn object(&self, kind: u16, fields: &[u64]) -> u64 {
        let mut words = self.0.borrow_mut();
        let at = words.last_key_value().map_or(0x10000, |(last, _)| last + 64);
        words.insert(at, 0);
        words.insert(at + 8, u64::from(kind) << 32);
        let own = at + 64;
        words.insert(own, at + 1);
        words.extend((1..).zip(fields).map(|(n, word)| (own + 8 * n, *word)));
        own + 1
    }

    fn text(&self, text: &str) -> u64 {
        let words = text.as_bytes().chunks(8).map(|c| c.iter().rev().fold(0, |sum, b| sum << 8 | u64::from(*b)));
        let length = (text.len() as u64) << 32;
        self.object(8, &[&[length][..], &words.collect::<Vec<_>>()].concat())
    }

    fn wide(&self, text: &str) -> u64 {
        let units: Vec<u16> = text.encode_utf16().collect();
        let words = units.chunks(4).map(|c| c.iter().rev().fold(0, |sum, u| sum << 16 | u64::from(*u)));
        self.object(0, &[&[(units.len() as u64) << 32][..], &words.collect::<Vec<_>>()].concat())
    }

    fn joined(&self, first: u64, second: u64) -> u64 {
        self.object(1 + 8, &[4 << 32, first, second])
    }

    /// A function with this name or scope, and its script.
    fn function(&self, name: u64, script: u64) -> u64 {
        let shared = self.object(262, &[0, name, 0, script]);
        self.object(2066, &[0, 0, shared])
    }

    fn named(&self, function: u64) -> Option<Frame> {
        Functions::new(self, Arc::new(layout())).function(function)
    }
}

fn numbers() -> Vec<(String, i32)> {
    let all = "TaggedSizeLog2 3,TaggedSize 8,SmiValueShift 1,SmiShiftSize 31,off_fp_function -16,off_fp_context -8,\
        class_JSFunction__shared__S 24,class_SharedFunctionInfo__name_or_scope_info__Object 16,\
        class_SharedFunctionInfo__script_or_debug_info__H 32,class_Script__name__Object 16,\
        class_Script__source__Object 8,class_Map__instance_type__uint16_t 12,class_String__length__int32_t 12,\
        class_SeqOneByteString__chars__char 16,class_SeqTwoByteString__chars__char 16,class_ConsString__first__S 16,\
        class_ConsString__second__S 24,class_ThinString__actual__S 16,class_ExternalString__resource__Object 16,\
        type_JSFunction__J 2066,type_SharedFunctionInfo__S 262,type_Script__S 167,type_ScopeInfo__S 261";
    let read = |one: &str| one.trim().split_once(' ').map(|(name, n)| (name.to_string(), n.parse().unwrap()));
    all.split(',').filter_map(read).collect()
}

fn layout() -> Layout {
    Layout::read(&numbers()).unwrap()
}

const fn number(n: i32) -> u64 {
    (n as u64) << 32
}

#[test]
fn a_layout_needs_all_its_numbers_and_pointers_of_eight_bytes() {
    assert_eq!((layout().function, layout().is_scope), (-16, 261));
    for n in 1..numbers().len() {
        let mut some = numbers();
        some.remove(n);
        assert_eq!(Layout::read(&some), None, "without {:?}", numbers()[n]);
    }
    let compressed = numbers().into_iter().map(|(name, n)| if n == 8 { (name, 4) } else { (name, n) });
    assert_eq!(Layout::read(&compressed.collect::<Vec<_>>()), None);
}

#[test]
fn a_function_is_told_with_its_file_and_the_line_at_which_it_begins() {
    let heap = Heap::default();
    let source = heap.text("let a = 1;\nfunction price() {\n}\n");
    let script = heap.object(167, &[source, heap.text("/srv/alice/shop/cart.js")]);
    let undefined = heap.object(131, &[]);
    let scope = |variables: &[u64], own: u64, guessed: u64| {
        let n = variables.len();
        let head = [number(7), number(1), number(n as i32)];
        let about = vec![number(18); n];
        let tail = [own, number(-1), guessed, number(25), number(28), heap.object(261, &[])];
        heap.object(261, &[&head[..], variables, &about, &tail].concat())
    };
    let told = |scope| heap.named(heap.function(scope, script)).unwrap().to_string();
    let name = heap.text("price");
    assert_eq!(told(scope(&[], name, undefined)), "price (cart.js:2)");
    assert_eq!(told(scope(&[heap.text("a"), heap.text("b")], name, undefined)), "price (cart.js:2)");
    assert_eq!(told(scope(&[], heap.text(""), heap.text("Shop.price"))), "Shop.price (cart.js:2)");
    assert_eq!(told(scope(&[], heap.text(""), undefined)), "(anonymous) (cart.js:2)");
    // The name is made while the program runs: V8 has guessed one.
    assert_eq!(told(scope(&[], number(0), name)), "price (cart.js:2)");
    // A function that was not compiled yet has a name only.
    assert_eq!(told(name), "price (cart.js)");
}

#[test]
fn names_are_read_in_each_way_in_which_strings_are_kept() {
    let heap = Heap::default();
    let told = |name| heap.named(heap.function(name, 0)).map(|frame| frame.function.to_string());
    assert_eq!(told(heap.wide("größe")).as_deref(), Some("größe"));
    assert_eq!(told(heap.joined(heap.text("ge"), heap.wide("t"))).as_deref(), Some("get"));
    assert_eq!(told(heap.object(5 + 8, &[4 << 32, heap.text("thin")])).as_deref(), Some("thin"));
    let outside = heap.object(8, &[0, 0x7465_6b72_616d]);
    let outside = heap.object(2 + 8, &[6 << 32, 0, outside - 1 + 16]);
    assert_eq!(told(outside).as_deref(), Some("market"));
    assert_eq!(told(heap.text(&"x".repeat(1_000))).map(|name| name.len()), Some(MAX_NAME as usize));
}

#[test]
fn what_is_no_function_has_no_name_and_ends_nothing() {
    let heap = Heap::default();
    let name = heap.text("price");
    assert_eq!(heap.named(name), None);
    assert_eq!(heap.named(u64::MAX), None);
    // A string that consists of itself.
    let own = heap.joined(name, name);
    heap.0.borrow_mut().insert(own - 1 + 16, own);
    assert_eq!(heap.named(heap.function(own, 0)), None);
    let scope = heap.object(261, &[0, 0, number(i32::MAX), own, name]);
    assert_eq!(&*heap.named(heap.function(scope, 0)).unwrap().function, "price");
    let mut functions = Functions::new(&heap, Arc::new(layout()));
    let function = heap.function(name, 0);
    // A frame of JavaScript has a context; in its place other frames have a number.
    let frame = |context: u64| move |at: u64| Some(if at == 0x1000 - 8 { context } else { function });
    assert!(functions.of_frame(0x1000, frame(number(9))).is_none());
    assert!(functions.of_frame(0x1000, frame(name)).is_some());
    assert!(functions.of_frame(3, |_| None).is_none());
}
