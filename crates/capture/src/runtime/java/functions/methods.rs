//! Names of methods, and the lines of their instructions.

use super::layout::Layout;
use super::numbers::line;
use super::Object;
use crate::memory::Memory;
use rustc_hash::FxHashMap;
use wirespan_model::stack::Frame;
use wirespan_model::Text;

/// Longer names are cut.
const MAX_NAME: usize = 256;
/// Larger tables of lines are not read.
const MAX_LINES: u64 = 1 << 17;
/// Methods that are kept.
const MOST_KEPT: usize = 32_768;
/// A text, among the constants of a class.
const UTF8: u8 = 1;
/// The flag of a method that has a table of lines.
const HAS_LINES: u16 = 1;
/// From the table of tags to its first tag.
const FIRST_TAG: u64 = 4;
/// Of code that the machine itself makes to call a function object. It does not show in stack traces of Java either.
const HIDDEN: [&str; 3] = ["java.lang.invoke.LambdaForm", "java.lang.invoke.Invokers$Holder", "$$Lambda"];

/// A method.
#[derive(Clone)]
pub(super) struct Method {
    function: Text,
    file: Text,
    lines: Option<std::sync::Arc<[u8]>>,
    /// Address of its first instruction, and the size of all.
    pub(super) first: u64,
    pub(super) size: u16,
    /// What is compared before the method is believed to be the same.
    constant: u64,
    content: Vec<u8>,
}

impl Method {
    /// Stack traces of Java leave it out.
    pub(super) fn is_hidden(&self) -> bool {
        HIDDEN.iter().any(|hidden| self.function.contains(hidden))
    }

    /// The method in which each continuation of a virtual thread begins.
    pub(super) fn enters_virtual(&self) -> bool {
        &*self.function == "jdk.internal.vm.Continuation.enterSpecial"
    }

    /// The method as it is told. `instruction`: at which one it is, if that is known.
    pub(super) fn frame(&self, instruction: Option<u32>, without_zero: bool) -> Frame {
        let line = self.lines.as_deref().zip(instruction).map_or(0, |(table, at)| line(table, without_zero, at));
        Frame { function: self.function.clone(), file: self.file.clone(), line, module: Text::default() }
    }
}

/// The methods of one process.
#[derive(Default)]
pub(super) struct Methods {
    known: FxHashMap<u64, Method>,
}

impl Methods {
    /// The method at this address; `None` if there is none.
    pub(super) fn find(&mut self, memory: &impl Memory, layout: &Layout, at: u64) -> Option<Method> {
        let constant = memory.word(at.checked_add(layout.constant.into())?)?;
        let content = memory.bytes(constant, usize::try_from(layout.constant_size).ok()?)?;
        // A class may have been unloaded, and another one be there now.
        if let Some(known) = self.known.get(&at).filter(|known| known.constant == constant && known.content == content)
        {
            return Some(known.clone());
        }
        if self.known.len() >= MOST_KEPT {
            self.known.clear();
        }
        let method = read(memory, layout, constant, content)?;
        self.known.insert(at, method.clone());
        Some(method)
    }
}

fn read(memory: &impl Memory, layout: &Layout, constant: u64, content: Vec<u8>) -> Option<Method> {
    let own = Object(content);
    let pool = own.word(layout.constants)?;
    let constants = Object::read(memory, pool, layout.pool_size)?;
    let tags = constants.word(layout.pool_tags)?;
    let text = |index: u16| {
        (u32::from(index) < constants.half(layout.pool_length)?).then_some(())?;
        let mut tag = [0];
        memory.read(tags.checked_add(FIRST_TAG + u64::from(index))?, &mut tag)?;
        (tag == [UTF8]).then_some(())?;
        let symbol = memory.word(pool.checked_add(layout.pool_size + 8 * u64::from(index))?)?;
        symbol_at(memory, layout, symbol)
    };
    let class = constants.word(layout.holder)?.checked_add(layout.class_name.into())?;
    let class = symbol_at(memory, layout, memory.word(class)?)?.replace('/', ".");
    // What is behind a "+0x" is the address of a hidden class.
    let class = class.split("+0x").next().unwrap_or_default();
    let name = text(own.short(layout.name)?)?;
    let file = match constants.short(layout.source_file)? {
        0 => String::new(),
        index => text(index)?,
    };
    let size = own.short(layout.bytecodes)?;
    let first = constant.checked_add(layout.constant_size)?;
    let lines = if own.short(layout.flags)? & HAS_LINES == 0 {
        None
    } else {
        let from = first.checked_add(size.into())?;
        let to = constant.checked_add(u64::from(own.half(layout.constant_words)?) * 8)?;
        let length = to.checked_sub(from).filter(|length| *length <= MAX_LINES)?;
        Some(memory.bytes(from, usize::try_from(length).ok()?)?.into())
    };
    Some(Method {
        function: format!("{class}.{name}").as_str().into(),
        file: file.rsplit('/').next().unwrap_or_default().into(),
        lines,
        first,
        size,
        constant,
        content: own.0,
    })
}

/// A text of the machine. Its letters are those of UTF-8, except for 0 and those beyond 16 bits.
fn symbol_at(memory: &impl Memory, layout: &Layout, at: u64) -> Option<String> {
    let mut length = [0; 2];
    memory.read(at.checked_add(layout.text_length.into())?, &mut length)?;
    let length = usize::from(u16::from_le_bytes(length));
    let bytes = memory.bytes(at.checked_add(layout.text.into())?, length.min(MAX_NAME))?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
