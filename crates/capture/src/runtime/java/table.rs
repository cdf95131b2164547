//! Reads the table in which the Java machine describes its structures for debuggers, from the memory of a process.

use crate::memory::Memory;
use std::collections::HashMap;

const TABLE: &str = "gHotSpotVMStructs";
/// Symbols of the table, and of the offsets of the fields in its entries.
const TYPE: &str = "gHotSpotVMStructEntryTypeNameOffset";
const FIELD: &str = "gHotSpotVMStructEntryFieldNameOffset";
const OFFSET: &str = "gHotSpotVMStructEntryOffsetOffset";
const ADDRESS: &str = "gHotSpotVMStructEntryAddressOffset";
const STRIDE: &str = "gHotSpotVMStructEntryArrayStride";
pub(super) const SYMBOLS: [&str; 6] = [TABLE, TYPE, FIELD, OFFSET, ADDRESS, STRIDE];

/// More entries than any version has. Reading stops there, in case the table has no end.
const MAX_ENTRIES: u64 = 8192;
pub(super) const MAX_NAME: usize = 64;

/// A C string; empty if it is too long.
pub(super) fn text_at(memory: &impl Memory, at: u64) -> Option<String> {
    let mut bytes = [0; MAX_NAME];
    memory.read(at, &mut bytes)?;
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(0);
    Some(String::from_utf8_lossy(bytes.get(..end)?).into_owned())
}

/// Offset and address of each wanted field; a static field has an address, any other an offset.
pub(super) struct Fields(HashMap<(String, String), (u64, u64)>);

impl Fields {
    /// The fields of these types.
    pub(super) fn read(memory: &impl Memory, symbols: &[u64; SYMBOLS.len()], of: &[&str]) -> Option<Self> {
        let [mut at, kind, field, offset, address, stride] =
            symbols.iter().map(|s| memory.word(*s)).collect::<Option<Vec<_>>>()?.try_into().ok()?;
        // The machine fills these in while it is loaded, so they may not be set yet.
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
                    let text = text_at(memory, named)?;
                    let wanted = of.contains(&text.as_str()).then_some(text);
                    names.insert(named, wanted.clone());
                    wanted
                }
            };
            if let Some(name) = name {
                let field = text_at(memory, memory.word(at + field)?)?;
                fields.insert((name, field), (memory.word(at + offset)?, memory.word(at + address)?));
            }
            at = at.checked_add(stride)?;
        }
        None
    }

    fn find(&self, of: &str, field: &str) -> Option<(u64, u64)> {
        self.0.get(&(of.to_string(), field.to_string())).copied()
    }

    pub(super) fn offset(&self, of: &str, field: &str) -> Option<u16> {
        self.find(of, field)?.0.try_into().ok()
    }

    pub(super) fn address(&self, of: &str, field: &str) -> Option<u64> {
        self.find(of, field).map(|f| f.1).filter(|a| *a != 0)
    }
}

/// Types whose fields say where threads and their tasks are.
pub(super) const THREADS: [&str; 9] =
    ["ThreadsSMRSupport", "ThreadsList", "Thread", "JavaThread", "OSThread", "Universe", HEAP, BUFFER, STUBS];
pub(super) const HEAP: &str = "CollectedHeap";
pub(super) const BUFFER: &str = "ThreadLocalAllocBuffer";
pub(super) const STUBS: &str = "StubRoutines";
