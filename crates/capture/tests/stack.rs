//! Before Linux 6.13 all functions that are under way have 512 bytes of stack together, each rounded up to 32. The
//! kernel here is newer and says nothing, so the compiled programs are asked: the deepest way through their calls must
//! fit.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SymbolKind};
use std::collections::{BTreeMap, HashMap};

const OBJECT: &str = concat!(env!("OUT_DIR"), "/wirespan.bpf.o");
const PACKETS: &str = concat!(env!("OUT_DIR"), "/packet.bpf.o");
const LIMIT: u64 = 512;
const ROUND: u64 = 32;
const FRAME_POINTER: u8 = 10;

/// Section and first byte of a function.
type Place = (usize, u64);

#[derive(Default)]
struct Function {
    name: String,
    stack: u64,
    calls: Vec<Place>,
}

struct Instruction {
    code: u8,
    to: u8,
    from: u8,
    offset: i16,
    value: i32,
}

impl Instruction {
    fn read(bytes: &[u8]) -> Self {
        Self {
            code: bytes[0],
            to: bytes[1] & 15,
            from: bytes[1] >> 4,
            offset: i16::from_le_bytes([bytes[2], bytes[3]]),
            value: i32::from_le_bytes(bytes[4..8].try_into().unwrap()),
        }
    }

    /// Loads and stores with a frame address of their own.
    fn accesses(&self) -> bool {
        match self.code & 7 {
            1 => self.from == FRAME_POINTER,
            2 | 3 => self.to == FRAME_POINTER,
            _ => false,
        }
    }

    /// Whether it makes a copy of the frame pointer.
    fn copies_frame(&self) -> bool {
        self.code == 0xbf && self.from == FRAME_POINTER
    }

    /// A call of a function of ours, or one that is handed to a helper.
    fn names_function(&self) -> bool {
        self.code == 0x85 && self.from == 1 || self.code == 0x18 && self.from == 4
    }
}

/// The lowest byte of the frame that the code gets at, as a depth.
fn stack_of(code: &[Instruction]) -> u64 {
    let mut deepest = 0i64;
    for (i, at) in code.iter().enumerate() {
        if at.accesses() {
            deepest = deepest.min(at.offset.into());
        } else if at.copies_frame() {
            // What is added to the copy next; the compiler makes no others.
            let added = code[i + 1..].iter().find(|next| next.code & 7 == 7 && next.to == at.to);
            if let Some(added) = added.filter(|next| next.code == 0x07) {
                deepest = deepest.min(added.value.into());
            }
        }
    }
    deepest.unsigned_abs()
}

fn functions(file: &object::File<'_>) -> BTreeMap<Place, Function> {
    let mut all = BTreeMap::new();
    for symbol in file.symbols().filter(|s| s.kind() == SymbolKind::Text && s.size() > 0) {
        let Some(index) = symbol.section_index() else { continue };
        let section = file.section_by_index(index).unwrap();
        let start = symbol.address();
        let bytes = section.data_range(start, symbol.size()).unwrap().unwrap();
        let code: Vec<Instruction> = bytes.chunks_exact(8).map(Instruction::read).collect();
        let moved: HashMap<u64, (SymbolKind, Option<Place>)> = section
            .relocations()
            .filter_map(|(at, relocation)| {
                let RelocationTarget::Symbol(of) = relocation.target() else { return None };
                let target = file.symbol_by_index(of).ok()?;
                Some((at, (target.kind(), target.section_index().map(|section| (section.0, target.address())))))
            })
            .collect();
        let calls = (0u64..).zip(&code).filter(|(_, at)| at.names_function()).filter_map(|(i, at)| {
            let offset = start + i * 8;
            match moved.get(&offset) {
                // Against a section the instruction says where in it: a call from the next instruction on, in
                // instructions.
                Some((SymbolKind::Section, Some((section, _)))) if at.code == 0x85 => {
                    Some((*section, (i64::from(at.value) + 1).unsigned_abs() * 8))
                }
                Some((SymbolKind::Section, Some((section, _)))) => Some((*section, u64::from(at.value.unsigned_abs()))),
                // The kernel's own functions have no place here.
                Some((_, place)) => *place,
                None => Some((index.0, offset.checked_add_signed((i64::from(at.value) + 1) * 8).unwrap())),
            }
        });
        let function = Function {
            name: symbol.name().unwrap_or_default().to_owned(),
            stack: stack_of(&code),
            calls: calls.collect(),
        };
        all.insert((index.0, start), function);
    }
    all
}

/// The deepest way from a function on, and what it takes.
fn deepest(all: &BTreeMap<Place, Function>, at: Place) -> (u64, String) {
    let function = all.get(&at).unwrap_or_else(|| panic!("a call of {at:?}, where no function begins"));
    let below = function.calls.iter().map(|next| deepest(all, *next)).max().unwrap_or_default();
    let own = function.stack.max(1).next_multiple_of(ROUND);
    let way = if below.1.is_empty() { String::new() } else { format!(" → {}", below.1) };
    (own + below.0, format!("{} {own}{way}", function.name))
}

#[test]
fn the_programs_fit_into_the_stack_of_kernels_before_6_13() {
    fit(OBJECT, 50);
    fit(PACKETS, 10);
}

/// `least`: so many functions and calls are in the object at least.
fn fit(object: &str, least: usize) {
    let bytes = std::fs::read(object).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let all = functions(&file);
    let called: usize = all.values().map(|f| f.calls.len()).sum();
    let read = all.len() > least && called > least;
    assert!(read, "{} functions, {called} calls: the object is not read rightly", all.len());
    let mut ways: Vec<(u64, String)> = all.keys().map(|at| deepest(&all, *at)).collect();
    ways.sort();
    let worst = ways.iter().rev().take(5).map(|(n, way)| format!("{n} bytes: {way}\n")).collect::<String>();
    println!("{worst}");
    assert!(ways.iter().all(|(n, _)| *n <= LIMIT), "more than {LIMIT} bytes of stack:\n{worst}");
}
