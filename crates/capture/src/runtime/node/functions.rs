//! Names of JavaScript functions, as they lie in the memory of V8. V8 describes its objects for debuggers: each program
//! that contains it exports numbers whose names begin with `v8dbg_` (docs/decisions/0028).

use crate::memory::Memory;
use crate::uprobe::elf::Image;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use wirespan_model::stack::Frame;
use wirespan_model::Text;

/// Longer names are cut; longer sources are not read; deeper strings are not followed.
const MAX_NAME: u64 = 256;
const MAX_SOURCE: u64 = 8 << 20;
const MAX_PARTS: u32 = 16;
/// Fields of a scope that are looked at, and the most variables of one whose names it has itself.
const MAX_FIELDS: u64 = 256;
const MAX_VARIABLES: u64 = 75;
/// Types of functions beyond the first, where V8 does not say it.
const FUNCTION_TYPES: u16 = 16;
/// Functions that are kept.
const MOST_KEPT: usize = 16_384;

/// Where V8 keeps what is needed: offsets in objects, numbers of types. Of the names of V8's numbers, those of fields
/// end with a type that changes from version to version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// From a frame pointer: the function, and the context, in whose place other frames have their kind.
    function: i64,
    context: i64,
    shared: u64,
    name: u64,
    script: u64,
    script_name: u64,
    script_source: u64,
    instance_type: u64,
    length: u64,
    one_byte: u64,
    two_byte: u64,
    first: u64,
    second: u64,
    actual: u64,
    resource: u64,
    is_function: u16,
    /// The last type of functions: those of classes have one of their own.
    last_function: u16,
    is_shared: u16,
    is_script: u16,
    is_scope: u16,
}

impl Layout {
    /// The layout that a file describes; `None` if it holds no V8, or one with compressed pointers.
    pub(crate) fn of(image: &Image<'_>) -> Option<Layout> {
        let own = |name: &[u8]| Some(String::from_utf8_lossy(name.strip_prefix(b"v8dbg_")?).into_owned());
        let numbers: Vec<(String, i32)> = image
            .exported(own)
            .into_iter()
            // What is 0 lies behind the end of the file.
            .map(|(place, name)| {
                let bytes = image.data(place.address, 4).and_then(|bytes| bytes.try_into().ok());
                (name, bytes.map_or(0, i32::from_le_bytes))
            })
            .collect();
        Layout::read(&numbers)
    }

    fn read(numbers: &[(String, i32)]) -> Option<Layout> {
        let is = |name: &str, wanted: &str| name == wanted || (wanted.ends_with("__") && name.starts_with(wanted));
        let begins = |wanted: &str| numbers.iter().find(|(name, _)| is(name, wanted)).map(|(_, n)| *n);
        let at = |prefix: &str| u64::try_from(begins(prefix)?).ok();
        let is = |prefix: &str| u16::try_from(begins(prefix)?).ok();
        if begins("TaggedSize")? != 8 || begins("SmiValueShift")? + begins("SmiShiftSize")? != 32 {
            return None;
        }
        Some(Layout {
            function: begins("off_fp_function")?.into(),
            context: begins("off_fp_context")?.into(),
            shared: at("class_JSFunction__shared__")?,
            name: at("class_SharedFunctionInfo__name_or_scope_info__")?,
            script: at("class_SharedFunctionInfo__script_or_debug_info__")
                .or_else(|| at("class_SharedFunctionInfo__script__"))?,
            script_name: at("class_Script__name__")?,
            script_source: at("class_Script__source__")?,
            instance_type: at("class_Map__instance_type__")?,
            length: at("class_String__length__")?,
            one_byte: at("class_SeqOneByteString__chars__")?,
            two_byte: at("class_SeqTwoByteString__chars__")?,
            first: at("class_ConsString__first__")?,
            second: at("class_ConsString__second__")?,
            actual: at("class_ThinString__actual__")?,
            resource: at("class_ExternalString__resource__")?,
            is_function: is("type_JSFunction__")?,
            last_function: is("LastJSFunctionType").or(is("type_JSFunction__")?.checked_add(FUNCTION_TYPES))?,
            is_shared: is("type_SharedFunctionInfo__")?,
            is_script: is("type_Script__")?,
            is_scope: is("type_ScopeInfo__")?,
        })
    }
}

/// A field: a small number, or the address of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Number(i32),
    Object(u64),
}

/// The functions of one process. What was read is kept until this is dropped.
pub(crate) struct Functions<M> {
    memory: M,
    layout: Arc<Layout>,
    /// By the address of what all closures of a function share.
    known: FxHashMap<u64, Option<Frame>>,
    /// By the address of a script: positions at which its lines end.
    lines: FxHashMap<u64, Vec<u32>>,
}

impl<M: Memory> Functions<M> {
    pub(crate) fn new(memory: M, layout: Arc<Layout>) -> Self {
        Functions { memory, layout, known: FxHashMap::default(), lines: FxHashMap::default() }
    }

    /// The function of a frame, if it is one of JavaScript; `word` reads the stack.
    pub(crate) fn of_frame(&mut self, pointer: u64, word: impl Fn(u64) -> Option<u64>) -> Option<Frame> {
        let at = |offset: i64| value(word(pointer.checked_add_signed(offset)?)?);
        let (Value::Object(function), Value::Object(_)) = (at(self.layout.function)?, at(self.layout.context)?) else {
            return None;
        };
        self.function(function)
    }

    fn function(&mut self, function: u64) -> Option<Frame> {
        let kind = self.kind(function)?;
        (self.layout.is_function..=self.layout.last_function).contains(&kind).then_some(())?;
        let shared = self.object(function, self.layout.shared)?;
        if let Some(known) = self.known.get(&shared) {
            return known.clone();
        }
        if self.known.len() >= MOST_KEPT {
            self.known.clear();
        }
        let frame = self.read(shared);
        self.known.insert(shared, frame.clone());
        frame
    }

    fn read(&mut self, shared: u64) -> Option<Frame> {
        (self.kind(shared)? == self.layout.is_shared).then_some(())?;
        let script = self.object(shared, self.layout.script).filter(|at| self.kind(*at) == Some(self.layout.is_script));
        // What V8 itself brings along has no script.
        let file = script.and_then(|at| self.text(self.object(at, self.layout.script_name)?, MAX_NAME));
        let (mut name, mut start) = (String::new(), None);
        if let Some(at) = self.object(shared, self.layout.name) {
            if self.kind(at)? == self.layout.is_scope {
                (name, start) = self.scope(at);
            } else {
                name = self.text(at, MAX_NAME)?;
            }
        }
        let line = script.zip(start).and_then(|(script, start)| self.line(script, start)).unwrap_or(0);
        Some(Frame {
            function: if name.is_empty() { "(anonymous)".into() } else { name.as_str().into() },
            file: file.map(|path| Text::from(path.rsplit('/').next().unwrap_or_default())).unwrap_or_default(),
            line,
            module: Text::default(),
        })
    }

    /// Name of the function of a scope, and where it begins in its script. A scope has flags, the numbers of parameters
    /// and of variables, the names of the variables, numbers that describe them, and then, if it is a function's: its
    /// name, where it is kept, the name that V8 has guessed, begin and end.
    fn scope(&self, scope: u64) -> (String, Option<u32>) {
        let field = |n: u64| value(self.memory.word((scope - 1).checked_add(8 + 8 * n)?)?);
        let is_text = |at: u64| self.kind(at).is_some_and(|kind| kind < 128);
        let Some(Value::Number(variables)) = field(2) else { return Default::default() };
        let mut left = u64::try_from(variables).unwrap_or(0);
        let first = if left > MAX_VARIABLES { 4 } else { 3 };
        if left > MAX_VARIABLES {
            left = 0; // a table elsewhere has their names
        }
        for n in first..MAX_FIELDS {
            match field(n) {
                Some(Value::Object(at)) if is_text(at) && left > 0 => left -= 1,
                Some(Value::Object(at)) if is_text(at) => {
                    let guessed = || match field(n + 2) {
                        Some(Value::Object(at)) if is_text(at) => self.text(at, MAX_NAME),
                        _ => None,
                    };
                    let own = self.text(at, MAX_NAME).filter(|name| !name.is_empty());
                    // A function without a name of its own has a number in its place, and this is the guessed one.
                    let first = if matches!(field(n + 2), Some(Value::Number(_))) { n + 1 } else { n + 3 };
                    let start = match field(first) {
                        Some(Value::Number(start)) => u32::try_from(start).ok(),
                        _ => None,
                    };
                    return (own.or_else(guessed).unwrap_or_default(), start);
                }
                Some(Value::Number(_)) => {}
                _ => break,
            }
        }
        Default::default()
    }

    /// The line of a position in a script.
    fn line(&mut self, script: u64, position: u32) -> Option<u32> {
        if !self.lines.contains_key(&script) {
            let source = self.text(self.object(script, self.layout.script_source)?, MAX_SOURCE).unwrap_or_default();
            let ends = source.encode_utf16().zip(0..).filter(|(unit, _)| *unit == 10).map(|(_, at)| at).collect();
            self.lines.insert(script, ends);
        }
        let ends = self.lines.get(&script).filter(|ends| !ends.is_empty())?;
        u32::try_from(ends.partition_point(|end| *end < position) + 1).ok()
    }

    /// Number of the type of an object.
    fn kind(&self, object: u64) -> Option<u16> {
        let map = self.object(object, 0)?;
        let mut bytes = [0; 2];
        self.memory.read((map - 1).checked_add(self.layout.instance_type)?, &mut bytes)?;
        Some(u16::from_le_bytes(bytes))
    }

    /// The object in a field of an object.
    fn object(&self, object: u64, field: u64) -> Option<u64> {
        match value(self.memory.word((object - 1).checked_add(field)?)?)? {
            Value::Object(at) => Some(at),
            Value::Number(_) => None,
        }
    }

    /// The letters of a string; `None` if there are more than `most`, which cuts names off.
    fn text(&self, string: u64, most: u64) -> Option<String> {
        let mut text = String::new();
        self.append(string, most, &mut MAX_PARTS.clone(), &mut text)?;
        Some(text)
    }

    fn append(&self, string: u64, most: u64, parts: &mut u32, to: &mut String) -> Option<()> {
        *parts = parts.checked_sub(1)?;
        // The lowest bits of the type of a string say how it is kept, the next one that each letter is a byte.
        let kind = self.kind(string).filter(|kind| *kind < 128)?;
        let of = |offset: u64| (string - 1).checked_add(offset);
        let mut length = [0; 4];
        self.memory.read(of(self.layout.length)?, &mut length)?;
        let length = u64::from(u32::from_le_bytes(length));
        if length > most && most > MAX_NAME {
            return None;
        }
        let is_one_byte = kind & 8 != 0;
        let mut letters = |at: u64| {
            let length = length.min(most) as usize;
            let bytes = self.memory.bytes(at, if is_one_byte { length } else { 2 * length })?;
            if is_one_byte {
                to.extend(bytes.iter().map(|byte| char::from(*byte)));
            } else {
                let units = bytes.chunks_exact(2).filter_map(|unit| unit.try_into().ok()).map(u16::from_le_bytes);
                to.extend(char::decode_utf16(units).map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER)));
            }
            Some(())
        };
        match kind & 7 {
            0 => letters(of(if is_one_byte { self.layout.one_byte } else { self.layout.two_byte })?),
            1 => {
                self.append(self.object(string, self.layout.first)?, most, parts, to)?;
                self.append(self.object(string, self.layout.second)?, most, parts, to)
            }
            // The letters lie outside of V8's memory: their address follows that of what owns them.
            2 => letters(self.memory.word(of(self.layout.resource + 8)?)?),
            5 => self.append(self.object(string, self.layout.actual)?, most, parts, to),
            _ => None,
        }
    }
}

/// The lowest bit says that a word is the address of an object; else its upper half is a number.
fn value(word: u64) -> Option<Value> {
    match word & 3 {
        1 if word > 4096 => Some(Value::Object(word)),
        0 | 2 => Some(Value::Number((word >> 32) as i32)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
