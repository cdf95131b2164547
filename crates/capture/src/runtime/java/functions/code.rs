//! Pieces of code that the machine has made: compiled methods, the interpreter, and stubs.

use super::layout::{Layout, Place};
use super::Object;
use crate::memory::Memory;
use rustc_hash::FxHashMap;

/// A machine has three code heaps, or one.
const MAX_HEAPS: u32 = 16;
/// Marks a segment in which no piece of code is.
const FREE: u8 = 0xff;
/// Steps to the segment in which a piece of code begins.
const MAX_STEPS: usize = 4096;
/// A larger frame is taken for an error, bytes.
const LARGEST_FRAME: u64 = 1 << 20;
/// Names of pieces of code that are longer are no names of methods.
const NAME: usize = 16;
/// Names that are kept.
const MOST_NAMES: usize = 4096;

/// The code heaps of a process.
pub(super) struct Heaps {
    heaps: Vec<Heap>,
    /// Where the interpreter is.
    pub(super) interpreter: (u64, u64),
    /// To where the first method of a stack returns.
    pub(super) entry: u64,
    /// By address of a name: what has it.
    kinds: FxHashMap<u64, Kind>,
}

struct Heap {
    low: u64,
    end: u64,
    segments: (u64, u64),
    bits: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Compiled,
    /// Made to call a native function of a class.
    Native,
    /// The interpreter, or a stub.
    Other,
}

/// A piece of code.
pub(super) struct Blob {
    pub(super) at: u64,
    pub(super) kind: Kind,
    pub(super) code: (u64, u64),
    /// Size of a frame, with the return address, bytes; 0 if it is not known.
    pub(super) frame_size: u64,
    /// The frame is not made before this address.
    pub(super) complete: u64,
    pub(super) fields: Object,
}

impl Heaps {
    /// `None` if the machine has none yet.
    pub(super) fn read(memory: &impl Memory, layout: &Layout, bias: u64) -> Option<Heaps> {
        let of_file = |at: u64| memory.word(at.wrapping_add(bias)).filter(|word| *word != 0);
        let list = of_file(layout.heaps_at)?;
        let head = Object::read(memory, list, 64)?;
        let first = head.word(layout.list)?;
        let heaps = (0..u64::from(head.half(layout.list_length)?.min(MAX_HEAPS)))
            .map(|n| heap(memory, layout, memory.word(first.checked_add(8 * n)?)?))
            .collect::<Option<Vec<_>>>()?;
        let queue = Object::read(memory, of_file(layout.interpreter_at)?, 64)?;
        let begin = queue.word(layout.queue_buffer)?;
        let interpreter = (begin, begin.checked_add(queue.half(layout.queue_size)?.into())?);
        let entry = of_file(layout.entry_at)?;
        (!heaps.is_empty()).then_some(Heaps { heaps, interpreter, entry, kinds: FxHashMap::default() })
    }

    pub(super) fn contains(&self, at: u64) -> bool {
        self.heaps.iter().any(|heap| (heap.low..heap.end).contains(&at))
    }

    pub(super) fn is_interpreter(&self, at: u64) -> bool {
        (self.interpreter.0..self.interpreter.1).contains(&at)
    }

    /// The piece of code at this address.
    pub(super) fn find(&mut self, memory: &impl Memory, layout: &Layout, at: u64) -> Option<Blob> {
        let heap = self.heaps.iter().find(|heap| (heap.low..heap.end).contains(&at))?;
        let start = heap.start(memory, at)?.checked_add(layout.block_size)?;
        // A stub may be so small that the rest of a compiled method would lie behind the heap.
        let fields = Object::read(memory, start, layout.compiled_size)
            .or_else(|| Object::read(memory, start, layout.blob_size))?;
        let kind = self.kind(memory, fields.word(layout.blob_name)?)?;
        let code = (resolve(layout.code_begin, start, &fields)?, resolve(layout.code_end, start, &fields)?);
        let complete = match layout.frame_complete_is_short {
            true => i64::from(fields.short(layout.frame_complete)? as i16),
            false => i64::from(fields.half(layout.frame_complete)? as i32),
        };
        let frame_size = u64::from(fields.half(layout.frame_size)?) * 8;
        let is_it = (code.0..code.1).contains(&at) && frame_size <= LARGEST_FRAME;
        // A stub may say -1: its frame is never complete, or nobody cares.
        let complete = code.0.saturating_add_signed(complete.max(0));
        is_it.then_some(Blob { at: start, kind, code, frame_size, complete, fields })
    }

    fn kind(&mut self, memory: &impl Memory, name: u64) -> Option<Kind> {
        if let Some(kind) = self.kinds.get(&name) {
            return Some(*kind);
        }
        let text = memory.bytes(name, NAME)?;
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let kind = match text {
            b"nmethod" => Kind::Compiled,
            b"native nmethod" => Kind::Native,
            _ => Kind::Other,
        };
        if self.kinds.len() >= MOST_NAMES {
            self.kinds.clear();
        }
        self.kinds.insert(name, kind);
        Some(kind)
    }
}

fn heap(memory: &impl Memory, layout: &Layout, at: u64) -> Option<Heap> {
    let word = |offset: u16| memory.word(at.checked_add(offset.into())?);
    let bits = (word(layout.segment_bits)? as u32).min(32);
    let segments = (word(layout.segments_low)?, word(layout.segments_end)?);
    Some(Heap { low: word(layout.heap_low)?, end: word(layout.heap_end)?, segments, bits })
}

impl Heap {
    /// Where the block begins that holds this address. The map has a byte for each segment: how many segments to go
    /// back, in several steps if there are many.
    fn start(&self, memory: &impl Memory, at: u64) -> Option<u64> {
        let mut segment = at.checked_sub(self.low)? >> self.bits;
        for _ in 0..MAX_STEPS {
            let byte = self.segments.0.checked_add(segment).filter(|byte| *byte < self.segments.1)?;
            let mut back = [FREE];
            memory.read(byte, &mut back)?;
            match back[0] {
                FREE => return None,
                0 => return self.low.checked_add(segment << self.bits),
                back => segment = segment.checked_sub(back.into())?,
            }
        }
        None
    }
}

/// The address that a field says.
pub(super) fn resolve(place: Place, blob: u64, fields: &Object) -> Option<u64> {
    let base = match place.base {
        Some(pointer) => fields.word(pointer)?,
        None => blob,
    };
    let offset = match place.offset {
        Some(number) => i64::from(fields.half(number)? as i32),
        None => 0,
    };
    base.checked_add_signed(offset)
}

/// How far the frame of the innermost function is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// The return address is on top of the stack.
    None,
    /// The caller's frame pointer is on top of it.
    Pushed,
    Whole,
}

/// The frame of a compiled function that is at this instruction: `before` are the bytes from the begin of the function
/// to it (at most some), `after` those from it on. `is_early`: the frame may not be complete.
pub(super) fn frame_at(before: &[u8], after: &[u8], is_early: bool) -> Frame {
    const PUSH: u8 = 0x55;
    const POP: u8 = 0x5d;
    const RETURN: u8 = 0xc3;
    /// `cmp rsp, [r15 + …]`, by which a method that returns looks whether the machine wants it to stop; with an offset
    /// of one byte, or of four. Then `ja`.
    const POLL: [(&[u8], usize); 2] = [(&[0x49, 0x3b, 0x67], 4), (&[0x49, 0x3b, 0xa7], 7)];
    const POLLED: [u8; 2] = [0x0f, 0x87];
    /// `sub rsp, …`, with a number of four bytes or of one.
    const MAKES: [([u8; 3], usize); 2] = [([0x48, 0x81, 0xec], 7), ([0x48, 0x83, 0xec], 4)];
    if is_early {
        let is_made = MAKES.iter().any(|(code, size)| {
            let ends = before.windows(3).enumerate().filter(|(_, window)| window == code).map(|(at, _)| at + size);
            ends.into_iter().any(|end| end <= before.len())
        });
        return match before.last() {
            _ if is_made => Frame::Whole,
            Some(&PUSH) => Frame::Pushed,
            _ => Frame::None,
        };
    }
    let is_poll = |code: &[u8]| POLL.iter().any(|(poll, _)| code.starts_with(poll));
    let was_poll = POLL.iter().any(|(poll, size)| {
        before.len().checked_sub(*size).is_some_and(|at| before.get(at..).is_some_and(|code| code.starts_with(poll)))
    });
    match after.first() {
        Some(&RETURN) => Frame::None,
        Some(&POP) => Frame::Pushed,
        _ if is_poll(after) || (was_poll && after.starts_with(&POLLED)) => Frame::None,
        _ => Frame::Whole,
    }
}

/// Whether a call ends with these bytes.
pub(super) fn ends_with_call(code: &[u8]) -> bool {
    const NEAR: u8 = 0xe8;
    const INDIRECT: u8 = 0xff;
    let at = |back: usize| code.len().checked_sub(back).and_then(|at| code.get(at)).copied();
    // The operation is in three bits of the second byte.
    let is_call = |modes: u8| modes >> 3 & 7 == 2;
    at(5) == Some(NEAR)
        || [2, 3, 4, 6, 7].iter().any(|back| at(*back) == Some(INDIRECT) && at(back - 1).is_some_and(is_call))
}
