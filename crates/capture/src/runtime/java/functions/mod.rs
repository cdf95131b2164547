//! Functions of Java on a stack, read from outside: the machine describes its own structures for debuggers, so no
//! version is named here but for two facts (docs/decisions/0030).
//!
//! The frames of compiled methods have no frame pointer and no table in a file. The machine keeps for each piece of its
//! code how large its frame is, and which methods the compiler has put together at which place. The interpreter has a
//! frame pointer, and the method beside it.

mod code;
mod layout;
mod methods;
mod numbers;
mod scopes;
#[cfg(test)]
mod tests;

pub(crate) use layout::Library;

use crate::memory::Memory;
use code::{ends_with_call, frame_at, resolve, Blob, Heaps, Kind};
use layout::Layout;
use methods::Methods;
use rustc_hash::FxHashMap;
use scopes::scopes;
use std::sync::Arc;
use wirespan_model::stack::Frame;

/// From the frame pointer of the interpreter, on x86-64: the caller's stack pointer, the method, and the address of the
/// instruction that it is at.
const SENDER: i64 = -8;
const METHOD: i64 = -24;
const INSTRUCTION: i64 = -64;
/// A frame that is larger is taken for an error, bytes.
const LARGEST_FRAME: u64 = 1 << 20;
/// Bytes of code that are looked at around an instruction.
const BEFORE: u64 = 64;
const AFTER: usize = 8;
/// The longest call.
const CALL: u64 = 7;
/// Places that are kept.
const MOST_KEPT: usize = 65_536;

/// An object of the machine, copied.
#[derive(Clone, PartialEq, Eq)]
struct Object(Vec<u8>);

impl Object {
    fn read(memory: &impl Memory, at: u64, size: u64) -> Option<Object> {
        Some(Object(memory.bytes(at, usize::try_from(size).ok()?)?))
    }

    fn part<const N: usize>(&self, at: u16) -> Option<[u8; N]> {
        self.0.get(at.into()..)?.first_chunk().copied()
    }

    fn word(&self, at: u16) -> Option<u64> {
        self.part(at).map(u64::from_le_bytes)
    }

    fn half(&self, at: u16) -> Option<u32> {
        self.part(at).map(u32::from_le_bytes)
    }

    fn short(&self, at: u16) -> Option<u16> {
        self.part(at).map(u16::from_le_bytes)
    }
}

/// The registers at an instruction, or at a return address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registers {
    pub(crate) ip: u64,
    pub(crate) sp: u64,
    pub(crate) fp: u64,
}

/// What an address on a stack is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// The thread is there.
    Runs,
    /// A call to code that the machine has made returns there.
    CalledMade,
    /// A call to a function of a library returns there.
    CalledLibrary,
}

/// What is on the stack at an address of the machine's own code.
#[derive(Debug, PartialEq)]
pub(crate) struct Made {
    /// Functions of Java, innermost first; none if it is a stub.
    pub(crate) functions: Vec<Frame>,
    pub(crate) caller: Caller,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    At(Registers),
    /// The stack of a virtual thread ends here. What follows is of the thread that carries it.
    Outermost,
    /// The callers are not on the stack: a virtual thread that has waited comes back with its innermost functions only.
    Away,
    Unknown,
}

/// What is at a return address in a compiled method: believed for as long as the same method is there.
struct Known {
    blob: u64,
    compile_id: u32,
    method: u64,
    functions: Vec<Frame>,
}

/// The functions of one process. What was read is kept until this is dropped.
pub(crate) struct Functions<M> {
    memory: M,
    library: Arc<Library>,
    bias: u64,
    heaps: Option<Heaps>,
    methods: Methods,
    known: FxHashMap<u64, Known>,
}

impl<M: Memory> Functions<M> {
    /// `bias`: what to add to an address of the library's file.
    pub(crate) fn new(memory: M, library: Arc<Library>, bias: u64) -> Self {
        let (methods, known) = (Methods::default(), FxHashMap::default());
        Functions { memory, library, bias, heaps: None, methods, known }
    }

    /// What is at these registers, and its caller; `None` if that is no code of the machine. `word` reads the stack.
    pub(crate) fn step(&mut self, at: Registers, address: Address, word: impl Fn(u64) -> Option<u64>) -> Option<Made> {
        let Functions { memory, library, bias, heaps, methods, known } = self;
        let layout = library.layout(memory, *bias)?;
        if heaps.is_none() {
            *heaps = Heaps::read(memory, layout, *bias);
        }
        let heaps = heaps.as_mut().filter(|heaps| heaps.contains(at.ip))?;
        let mut walk = Walk { memory, layout, heaps, methods, known, word, address };
        Some(walk.step(at).unwrap_or(Made { functions: Vec::new(), caller: Caller::Unknown }))
    }
}

/// One step.
struct Walk<'a, M, W> {
    memory: &'a M,
    layout: &'a Layout,
    heaps: &'a mut Heaps,
    methods: &'a mut Methods,
    known: &'a mut FxHashMap<u64, Known>,
    word: W,
    address: Address,
}

impl<M: Memory, W: Fn(u64) -> Option<u64>> Walk<'_, M, W> {
    fn is_call(&self) -> bool {
        self.address != Address::Runs
    }

    fn step(&mut self, at: Registers) -> Option<Made> {
        if at.ip == self.heaps.entry {
            // Its caller is a function of the machine in C++.
            return Some(Made { functions: Vec::new(), caller: self.by_pointer(at)? });
        }
        if self.heaps.is_interpreter(at.ip) {
            return self.interpreted(at);
        }
        let blob = self.heaps.find(self.memory, self.layout, at.ip)?;
        match blob.kind {
            Kind::Other if blob.frame_size == 0 => self.stub(at),
            Kind::Other => Some(Made { functions: Vec::new(), caller: self.by_size(at, &blob)? }),
            Kind::Compiled | Kind::Native => self.compiled(at, &blob),
        }
    }

    fn at(&self, base: u64, offset: i64) -> Option<u64> {
        (self.word)(base.checked_add_signed(offset)?)
    }

    /// The caller of a frame that begins with the caller's frame pointer and the return address.
    fn by_pointer(&self, at: Registers) -> Option<Caller> {
        let (fp, ip) = (self.at(at.fp, 0)?, self.at(at.fp, 8)?);
        Some(Caller::At(Registers { ip, sp: at.fp.checked_add(16)?, fp }))
    }

    fn interpreted(&mut self, at: Registers) -> Option<Made> {
        let (method, instruction) = (self.at(at.fp, METHOD)?, self.at(at.fp, INSTRUCTION)?);
        let found = self.methods.find(self.memory, self.layout, method)?;
        let instruction = instruction.checked_sub(found.first).filter(|n| *n < found.size.into());
        // A native method has no instructions. Of a method that runs, the slot may be older.
        let instruction = instruction.filter(|_| self.is_call()).map(|n| n as u32);
        let sp = self.at(at.fp, SENDER)?;
        (sp > at.fp && sp - at.fp <= LARGEST_FRAME).then_some(())?;
        let (fp, ip) = (self.at(at.fp, 0)?, self.at(at.fp, 8)?);
        let functions = if found.is_hidden() {
            Vec::new()
        } else {
            vec![found.frame(instruction, self.layout.numbers_without_zero)]
        };
        Some(Made { functions, caller: Caller::At(Registers { ip, sp, fp }) })
    }

    fn compiled(&mut self, at: Registers, blob: &Blob) -> Option<Made> {
        // A frame that was optimized under false assumptions returns to a handler; the real address is in the frame.
        let mut at = at;
        for handler in self.layout.handlers {
            if self.is_call() && resolve(handler, blob.at, &blob.fields) == Some(at.ip) {
                let slot = i64::from(blob.fields.half(self.layout.original_pc)? as i32);
                at.ip = self.at(at.sp, slot).filter(|ip| (blob.code.0..blob.code.1).contains(ip))?;
            }
        }
        let (functions, is_end) = self.functions(at, blob)?;
        let caller = if is_end { Caller::Outermost } else { self.by_size(at, blob)? };
        Some(Made { functions, caller })
    }

    /// The functions at a place in a compiled method, and whether a virtual thread ends there.
    fn functions(&mut self, at: Registers, blob: &Blob) -> Option<(Vec<Frame>, bool)> {
        let method = blob.fields.word(self.layout.method)?;
        let compile_id = blob.fields.half(self.layout.compile_id)?;
        let is_same = |known: &&Known| (known.blob, known.compile_id, known.method) == (blob.at, compile_id, method);
        if let Some(known) = self.known.get(&at.ip).filter(|_| self.is_call()).filter(is_same) {
            return Some((known.functions.clone(), false));
        }
        let without_zero = self.layout.numbers_without_zero;
        let mut functions = Vec::new();
        let mut is_exact = self.is_call();
        if blob.kind == Kind::Native {
            let found = self.methods.find(self.memory, self.layout, method)?;
            if found.enters_virtual() {
                return Some((functions, true));
            }
            functions.extend((!found.is_hidden()).then(|| found.frame(None, without_zero)));
        } else {
            // Before its frame is complete, a method is at its begin, with nothing put into it.
            let is_early = !self.is_call() && at.ip < blob.complete;
            let find = |is_exact| scopes(self.memory, self.layout, blob, at.ip, is_exact);
            let mut all = match is_early {
                true => Some(vec![scopes::Scope { method, instruction: 0 }]),
                false => find(is_exact),
            };
            // Of a call to a library at which the machine never stops a thread, the compiler describes no place.
            if all.is_none() && self.address == Address::CalledLibrary && self.is_return(at.ip) {
                (is_exact, all) = (false, find(false));
            }
            for scope in all? {
                let found = self.methods.find(self.memory, self.layout, scope.method)?;
                let instruction = Some(scope.instruction).filter(|_| is_exact);
                functions.extend((!found.is_hidden()).then(|| found.frame(instruction, without_zero)));
            }
        }
        // Another method may have been put there while this one was read.
        let now = self.heaps.find(self.memory, self.layout, at.ip)?;
        let is_same = now.at == blob.at
            && now.fields.half(self.layout.compile_id)? == compile_id
            && now.fields.word(self.layout.method)? == method;
        is_same.then_some(())?;
        if is_exact {
            if self.known.len() >= MOST_KEPT {
                self.known.clear();
            }
            self.known.insert(at.ip, Known { blob: blob.at, compile_id, method, functions: functions.clone() });
        }
        Some((functions, false))
    }

    /// The caller of a function whose frame has a known size.
    fn by_size(&self, at: Registers, blob: &Blob) -> Option<Caller> {
        let frame = if self.is_call() { code::Frame::Whole } else { self.made(at.ip, blob)? };
        let (returns_at, fp) = match frame {
            code::Frame::None => (at.sp, at.fp),
            code::Frame::Pushed => (at.sp.checked_add(8)?, self.at(at.sp, 0)?),
            code::Frame::Whole => {
                let end = at.sp.checked_add(blob.frame_size.checked_sub(8)?)?;
                (end, self.at(end, -8)?)
            }
        };
        let ip = self.at(returns_at, 0)?;
        self.heaps.contains(ip).then_some(())?;
        Some(Caller::At(Registers { ip, sp: returns_at.checked_add(8)?, fp }))
    }

    fn made(&self, ip: u64, blob: &Blob) -> Option<code::Frame> {
        let from = blob.code.0.max(ip.saturating_sub(BEFORE));
        let before = usize::try_from(ip - from).ok()?;
        let code = self.memory.bytes(from, before + AFTER)?;
        let (before, after) = code.split_at_checked(before)?;
        Some(frame_at(before, after, ip < blob.complete))
    }

    /// The caller of a stub of which no frame is known. Some make one that begins with the caller's frame pointer.
    fn stub(&self, at: Registers) -> Option<Made> {
        // Only one stub is ever the caller of a method: the one to which a virtual thread returns, and which copies its
        // next frames from the heap back onto the stack.
        if self.address == Address::CalledMade {
            return Some(Made { functions: Vec::new(), caller: Caller::Away });
        }
        let top = self.at(at.sp, 0).filter(|ip| !self.is_call() && self.is_return(*ip));
        let caller = match top {
            Some(ip) => Caller::At(Registers { ip, sp: at.sp.checked_add(8)?, fp: at.fp }),
            None => {
                (at.fp >= at.sp && at.fp - at.sp <= LARGEST_FRAME).then_some(())?;
                let caller = self.by_pointer(at)?;
                let Caller::At(Registers { ip, .. }) = caller else { return None };
                self.is_return(ip).then_some(caller)?
            }
        };
        Some(Made { functions: Vec::new(), caller })
    }

    /// Whether a call in the machine's code returns to this address.
    fn is_return(&self, ip: u64) -> bool {
        let code = || self.memory.bytes(ip.checked_sub(CALL)?, CALL as usize);
        ip == self.heaps.entry
            || self.heaps.contains(ip) && (self.heaps.is_interpreter(ip) || code().is_some_and(|c| ends_with_call(&c)))
    }
}
