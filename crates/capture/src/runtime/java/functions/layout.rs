//! Where the machine keeps its code and what its methods are called, as its library describes it for debuggers.

use super::super::table::{text_at, Fields, STUBS, SYMBOLS};
use crate::memory::Memory;
use crate::uprobe::elf::Image;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Symbols of the table of types: the table, and in its entries the name and the size.
const TYPES: [&str; 4] = [
    "gHotSpotVMTypes",
    "gHotSpotVMTypeEntryTypeNameOffset",
    "gHotSpotVMTypeEntrySizeOffset",
    "gHotSpotVMTypeEntryArrayStride",
];
/// More types than any version has.
const MAX_TYPES: u64 = 8192;
/// Types whose fields are needed.
const OF: [&str; 17] = [
    "CodeCache",
    "CodeHeap",
    "VirtualSpace",
    "GrowableArrayBase",
    "GrowableArray<int>",
    "AbstractInterpreter",
    "StubQueue",
    STUBS,
    BLOB,
    "CompiledMethod",
    COMPILED,
    "Method",
    CONST_METHOD,
    POOL,
    "Klass",
    "Symbol",
    "Abstract_VM_Version",
];
const BLOB: &str = "CodeBlob";
const COMPILED: &str = "nmethod";
const CONST_METHOD: &str = "ConstMethod";
const POOL: &str = "ConstantPool";
/// The first version in which no byte of a compressed number is 0.
const WITHOUT_ZERO: u32 = 20;

/// The library of a machine: addresses of what describes it, and the layout once a process has told it.
#[derive(Debug)]
pub(crate) struct Library {
    structs: [u64; SYMBOLS.len()],
    types: [u64; TYPES.len()],
    layout: OnceLock<Layout>,
}

impl Library {
    /// `None` if the file is not the library of a Java machine that describes itself.
    pub(crate) fn of(image: &Image<'_>) -> Option<Library> {
        if !image.is_x86_64() {
            return None;
        }
        Some(Library {
            structs: addresses(image, &SYMBOLS)?,
            types: addresses(image, &TYPES)?,
            layout: OnceLock::new(),
        })
    }

    /// The layout; `None` if the process has not loaded the library yet, or it is of a version that has other fields.
    pub(super) fn layout(&self, memory: &impl Memory, bias: u64) -> Option<&Layout> {
        if self.layout.get().is_none() {
            let fields = Fields::read(memory, &self.structs.map(|at| at.wrapping_add(bias)), &OF)?;
            let sizes = sizes(memory, &self.types.map(|at| at.wrapping_add(bias)))?;
            let _ = self.layout.set(Layout::read(memory, &fields, &sizes, bias)?);
        }
        self.layout.get()
    }
}

fn addresses<const N: usize>(image: &Image<'_>, symbols: &[&str; N]) -> Option<[u64; N]> {
    let mut addresses = [0; N];
    for (place, which) in image.exported(|name| symbols.iter().position(|s| s.as_bytes() == name)) {
        *addresses.get_mut(which)? = place.address;
    }
    (!addresses.contains(&0)).then_some(addresses)
}

/// Sizes of types.
fn sizes(memory: &impl Memory, symbols: &[u64; TYPES.len()]) -> Option<HashMap<String, u64>> {
    let [mut at, name, size, stride] =
        symbols.iter().map(|s| memory.word(*s)).collect::<Option<Vec<_>>>()?.try_into().ok()?;
    if at == 0 || !(8..=256).contains(&stride) || [name, size].iter().any(|o| *o >= stride) {
        return None;
    }
    let mut sizes = HashMap::new();
    for _ in 0..MAX_TYPES {
        let named = memory.word(at.checked_add(name)?)?;
        if named == 0 {
            return Some(sizes);
        }
        sizes.insert(text_at(memory, named)?, memory.word(at.checked_add(size)?)?);
        at = at.checked_add(stride)?;
    }
    None
}

/// An address that a field of a piece of code says: it is what the pointer `base` points to, else the piece itself, and
/// the number `offset` further on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) base: Option<u16>,
    pub(super) offset: Option<u16>,
}

/// Offsets of fields, sizes of types. `*_at` are addresses in the file of the library.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The list of code heaps, the interpreter's code, and to where the first method of a stack returns.
    pub(super) heaps_at: u64,
    pub(super) interpreter_at: u64,
    pub(super) entry_at: u64,
    pub(super) list_length: u16,
    pub(super) list: u16,
    pub(super) queue_buffer: u16,
    pub(super) queue_size: u16,
    /// Of a code heap: its memory, the map of its segments, their size.
    pub(super) heap_low: u16,
    pub(super) heap_end: u16,
    pub(super) segments_low: u16,
    pub(super) segments_end: u16,
    pub(super) segment_bits: u16,
    pub(super) block_size: u64,
    /// Of a piece of code.
    pub(super) blob_size: u64,
    pub(super) blob_name: u16,
    pub(super) frame_size: u16,
    pub(super) frame_complete: u16,
    pub(super) frame_complete_is_short: bool,
    pub(super) code_begin: Place,
    pub(super) code_end: Place,
    /// Of a compiled method.
    pub(super) compiled_size: u64,
    pub(super) method: u16,
    pub(super) compile_id: u16,
    pub(super) original_pc: u16,
    pub(super) handlers: [Place; 2],
    pub(super) metadata: Place,
    pub(super) scopes: Place,
    pub(super) places_begin: Place,
    pub(super) places_end: Place,
    pub(super) numbers_without_zero: bool,
    /// Of a method.
    pub(super) constant: u16,
    pub(super) constant_size: u64,
    pub(super) constants: u16,
    pub(super) constant_words: u16,
    pub(super) flags: u16,
    pub(super) bytecodes: u16,
    pub(super) name: u16,
    pub(super) pool_size: u64,
    pub(super) pool_tags: u16,
    pub(super) pool_length: u16,
    pub(super) holder: u16,
    pub(super) source_file: u16,
    pub(super) class_name: u16,
    pub(super) text_length: u16,
    pub(super) text: u16,
}

impl Layout {
    fn read(memory: &impl Memory, fields: &Fields, sizes: &HashMap<String, u64>, bias: u64) -> Option<Layout> {
        let at = |of: &str, field: &str| fields.offset(of, field);
        let static_at = |of: &str, field: &str| Some(fields.address(of, field)?.wrapping_sub(bias));
        let size = |of: &str| sizes.get(of).copied().filter(|size| (1..4096).contains(size));
        let in_heap = |part: &str, field: &str| at("CodeHeap", part)?.checked_add(at("VirtualSpace", field)?);
        let pointer = |of: &str, field: &str| Some(Place { base: Some(at(of, field)?), offset: None });
        let offset = |of: &str, field: &str| Some(Place { base: None, offset: Some(at(of, field)?) });
        let both = |base: u16, field: &str| Some(Place { base: Some(base), offset: Some(at(COMPILED, field)?) });
        let version = memory.word(fields.address("Abstract_VM_Version", "_vm_major_version")?)? as u32;
        // Since Java 25 (in part since 23), tables of compiled methods lie outside of the code heaps.
        let outside = at(COMPILED, "_immutable_data");
        let inside = outside.is_none();
        let of_compiled = if inside { "CompiledMethod" } else { COMPILED };
        Some(Layout {
            heaps_at: static_at("CodeCache", "_heaps")?,
            interpreter_at: static_at("AbstractInterpreter", "_code")?,
            entry_at: static_at(STUBS, "_call_stub_return_address")?,
            list_length: at("GrowableArrayBase", "_len")?,
            list: at("GrowableArray<int>", "_data")?,
            queue_buffer: at("StubQueue", "_stub_buffer")?,
            queue_size: at("StubQueue", "_buffer_limit")?,
            heap_low: in_heap("_memory", "_low")?,
            heap_end: in_heap("_memory", "_high_boundary")?,
            segments_low: in_heap("_segmap", "_low")?,
            segments_end: in_heap("_segmap", "_high_boundary")?,
            segment_bits: at("CodeHeap", "_log2_segment_size")?,
            block_size: size("HeapBlock")?,
            blob_size: size(BLOB)?,
            blob_name: at(BLOB, "_name")?,
            frame_size: at(BLOB, "_frame_size")?,
            frame_complete: at(BLOB, "_frame_complete_offset")?,
            frame_complete_is_short: !inside,
            code_begin: if inside { pointer(BLOB, "_code_begin") } else { offset(BLOB, "_code_offset") }?,
            code_end: if inside { pointer(BLOB, "_code_end") } else { offset(BLOB, "_data_offset") }?,
            compiled_size: size(COMPILED)?,
            method: at(of_compiled, "_method")?,
            compile_id: at(COMPILED, "_compile_id")?,
            original_pc: at(COMPILED, "_orig_pc_offset")?,
            handlers: if inside {
                [pointer(of_compiled, "_deopt_handler_begin")?, pointer(of_compiled, "_deopt_mh_handler_begin")?]
            } else {
                let handler = offset(COMPILED, "_deopt_handler_offset")?;
                [handler, offset(COMPILED, "_deopt_mh_handler_offset").unwrap_or(handler)]
            },
            metadata: match outside {
                None => offset(COMPILED, "_metadata_offset")?,
                Some(_) => {
                    Place { base: Some(at(BLOB, "_mutable_data")?), offset: Some(at(BLOB, "_relocation_size")?) }
                }
            },
            scopes: match outside {
                None => pointer(of_compiled, "_scopes_data_begin")?,
                Some(base) => both(base, "_scopes_data_offset")?,
            },
            places_begin: match outside {
                None => offset(COMPILED, "_scopes_pcs_offset")?,
                Some(base) => both(base, "_scopes_pcs_offset")?,
            },
            places_end: match outside {
                None => offset(COMPILED, "_dependencies_offset")?,
                Some(base) => both(base, "_immutable_data_size")?,
            },
            numbers_without_zero: version >= WITHOUT_ZERO,
            constant: at("Method", "_constMethod")?,
            constant_size: size(CONST_METHOD)?,
            constants: at(CONST_METHOD, "_constants")?,
            constant_words: at(CONST_METHOD, "_constMethod_size")?,
            flags: at(CONST_METHOD, "_flags").or_else(|| at(CONST_METHOD, "_flags._flags"))?,
            bytecodes: at(CONST_METHOD, "_code_size")?,
            name: at(CONST_METHOD, "_name_index")?,
            pool_size: size(POOL)?,
            pool_tags: at(POOL, "_tags")?,
            pool_length: at(POOL, "_length")?,
            holder: at(POOL, "_pool_holder")?,
            source_file: at(POOL, "_source_file_name_index")?,
            class_name: at("Klass", "_name")?,
            text_length: at("Symbol", "_length")?,
            text: at("Symbol", "_body[0]").or_else(|| at("Symbol", "_body"))?,
        })
    }
}

#[cfg(test)]
impl Library {
    pub(super) fn with(layout: Layout) -> std::sync::Arc<Library> {
        let library = Library { structs: [0; 6], types: [0; 4], layout: OnceLock::new() };
        let _ = library.layout.set(layout);
        std::sync::Arc::new(library)
    }
}
