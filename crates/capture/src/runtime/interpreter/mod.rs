//! Functions that an interpreter runs: where each language keeps them, and their names (docs/decisions/0027).
//!
//! The kernel programs follow the interpreter's own frames by a layout of the process; the same code follows those of
//! each language. What a place in a program is called is read later from the memory of the process.

mod php;
mod python;
mod ruby;

pub(super) use php::Php;
pub(super) use python::Python;
pub(super) use ruby::Ruby;

use crate::memory;
#[allow(clippy::wildcard_imports)] // what an interpreter is, in full
use crate::wire::contract::*;
use libbpf_rs::skel::Skel as _;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use rustc_hash::FxHashMap;
use std::fs::File;
use std::sync::Arc;
use wirespan_model::stack::Frame;
use wirespan_model::Text;

/// Layouts by process.
const LAYOUTS: &str = "interpreter_layouts";
/// Longer names are cut.
const MAX_NAME: u64 = 256;

/// A layout that says nothing.
const NOTHING: InterpreterLayout = InterpreterLayout {
    from: 0,
    known: 0,
    language: 0,
    steps: 0,
    unit_bits: 0,
    pad: 0,
    path: [0; INTERPRETER_PATH as usize],
    code: 0,
    instruction: 0,
    caller: 0,
    environment: 0,
    row: 0,
    row_begin: 0,
    body: 0,
    instructions: 0,
    name: 0,
    file: 0,
    lines: 0,
    first_line: 0,
    line_bytes: 0,
    text: 0,
    suspended: 0,
    values: 0,
    top: 0,
    spare: 0,
};

/// A function, as an interpreter describes it.
#[derive(Default)]
struct Function {
    /// Empty: the interpreter's own, which no program has written.
    name: Text,
    /// Without directories.
    file: Text,
    /// `None` if it is in C.
    code: Option<Code>,
}

/// The instructions of a function.
struct Code {
    /// Number of the first one, as in [`instruction`].
    first: u64,
    /// How many there are, if that is known.
    count: Option<u32>,
    /// The line of an instruction.
    line: Box<dyn Fn(u32) -> Option<u32> + Send + Sync>,
}

impl Function {
    fn new(name: &str, path: &str) -> Function {
        Function { name: name.into(), file: path.rsplit('/').next().unwrap_or_default().into(), code: None }
    }

    /// The function at this instruction; `None` if it has no such instruction: it is not the one that ran there.
    fn frame(&self, instruction: u16) -> Option<Frame> {
        let mut line = 0;
        if let Some(code) = &self.code {
            let number = u32::from(instruction.wrapping_sub(code.first as u16));
            code.count.is_none_or(|count| number < count).then_some(())?;
            line = (code.line)(number).unwrap_or(0);
        }
        Some(Frame { function: self.name.clone(), file: self.file.clone(), line, module: Text::default() })
    }
}

/// The lowest bits of the number of an instruction.
fn instruction(place: u64) -> u16 {
    (place >> INTERPRETER_CODE_BITS) as u16
}

/// The address of the code.
fn code(place: u64) -> u64 {
    place & ((1 << INTERPRETER_CODE_BITS) - 1)
}

fn read(memory: &File, layout: &InterpreterLayout, at: u64) -> Option<Function> {
    match layout.language.into() {
        INTERPRETER_PYTHON => python::read(memory, layout, at),
        INTERPRETER_RUBY => ruby::read(memory, layout, at),
        INTERPRETER_PHP => php::read(memory, layout, at),
        _ => None,
    }
}

/// Names functions of processes. What was read is kept until [`Functions::forget`].
pub(crate) struct Functions {
    layouts: MapHandle,
    processes: FxHashMap<u32, Option<(File, InterpreterLayout)>>,
    known: FxHashMap<(u32, u64), Option<Arc<Function>>>,
}

impl Functions {
    /// Opens the map of layouts.
    pub(crate) fn open(skel: &crate::object::WirespanSkel<'static>) -> Option<Functions> {
        let map = skel.object().maps().find(|map| map.name() == LAYOUTS)?;
        Some(Functions {
            layouts: MapHandle::try_from(&map).ok()?,
            processes: FxHashMap::default(),
            known: FxHashMap::default(),
        })
    }

    /// Forgets what was read: a process may end, and other code may come to the same place.
    pub(crate) fn forget(&mut self) {
        self.processes.clear();
        self.known.clear();
    }

    /// Functions that a thread runs, as interpreter_frames() told them. The interpreter's own are left out; one that
    /// cannot be read has no name.
    pub(crate) fn name(&mut self, pid: u32, places: &[u64]) -> Vec<Frame> {
        let Functions { layouts, processes, known } = self;
        let process = processes.entry(pid).or_insert_with(|| {
            let bytes = layouts.lookup(&pid.to_ne_bytes(), MapFlags::ANY).ok().flatten()?;
            Some((memory::of(pid).ok()?, InterpreterLayout::read(&bytes)?))
        });
        let mut frames = Vec::new();
        for place in places.iter().copied().filter(|place| code(*place) != 0) {
            let key = (pid, code(place));
            let read = || process.as_ref().and_then(|(memory, layout)| read(memory, layout, key.1)).map(Arc::new);
            let of = |function: &Arc<Function>| function.frame(instruction(place));
            let mut frame = known.get(&key).and_then(|function| of(function.as_ref()?));
            // Other code may have come there since.
            if frame.is_none() {
                let function = read();
                frame = function.as_ref().and_then(of);
                known.insert(key, function);
            }
            let is_own = frame.as_ref().is_some_and(|frame| frame.function.is_empty());
            if !is_own {
                frames.push(frame.unwrap_or_default());
            }
        }
        place_native(&mut frames);
        frames
    }
}

/// A function in C has the file and the line of the function that called it, as the languages themselves tell it.
fn place_native(frames: &mut [Frame]) {
    let mut caller = Frame::default();
    for frame in frames.iter_mut().rev() {
        if frame.file.is_empty() && !frame.function.is_empty() {
            frame.file.clone_from(&caller.file);
            frame.line = caller.line;
        } else {
            caller.clone_from(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_in_c_stand_where_they_are_called() {
        let frame = |name: &str, file: &str, line| Frame {
            function: name.into(),
            file: file.into(),
            line,
            module: Text::default(),
        };
        let mut frames = [frame("sleep", "", 0), frame("price", "shop.rb", 7), frame("map", "", 0), frame("x", "", 0)];
        place_native(&mut frames);
        assert_eq!(frames.each_ref().map(|f| f.line), [7, 7, 0, 0]);
        assert_eq!(frames[0].to_string(), "sleep (shop.rb:7)");
        // Its caller is not known.
        let mut frames = [frame("map", "", 0), Frame::default(), frame("price", "shop.rb", 7)];
        place_native(&mut frames);
        assert_eq!(frames.map(|frame| frame.to_string()), ["map", "?", "price (shop.rb:7)"]);
    }

    #[test]
    fn a_function_is_told_only_at_its_own_instructions() {
        let line: Box<dyn Fn(u32) -> Option<u32> + Send + Sync> = Box::new(|n| Some(n + 10));
        let code = Code { first: 0x7f00_fffe, count: Some(8), line };
        let function = Function { code: Some(code), ..Function::new("price", "/srv/shop.rb") };
        let told = |instruction| function.frame(instruction).map(|frame| frame.to_string());
        assert_eq!(told(1).as_deref(), Some("price (shop.rb:13)"));
        assert_eq!(told(0xfffe).as_deref(), Some("price (shop.rb:10)"));
        assert_eq!((told(6), told(0xfffd)), (None, None));
    }
}
