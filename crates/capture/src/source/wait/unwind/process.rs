//! The code that a process has mapped, with the tables of its files.

use super::tables::Tables;
use crate::memory::{self, Memory as _};
use crate::runtime::{hotspot, v8};
use crate::uprobe::elf;
use crate::uprobe::maps::FileId;
use framehop::{MayAllocateDuringUnwind, Module, UnwindRegsNative, Unwinder as _, UnwinderNative};
use object::ReadCache;
use rustc_hash::FxHashMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wirespan_model::stack::Frame;

/// For how long a list of mappings is believed; and how long it is at least, if an address is not in it.
const BELIEVED: Duration = Duration::from_secs(10);
const BELIEVED_AT_LEAST: Duration = Duration::from_millis(200);
/// Files whose tables are kept, and their bytes; beyond it all are read again.
const MOST_FILES: usize = 2_048;
const MOST_BYTES: usize = 256 << 20;
/// Addresses of which is kept whether handlers of signals return to them.
const MOST_RETURNS: usize = 65_536;
/// Most mappings of code that are looked at.
const MOST_MAPPINGS: usize = 8_192;

/// Ends of the names of libraries that are a Java machine: HotSpot, and OpenJ9, which is not read.
const JAVA: [&str; 2] = ["/libjvm.so", "/libj9vm29.so"];

pub(super) type Unwinder = UnwinderNative<Arc<[u8]>, MayAllocateDuringUnwind>;

/// What is known of a file with code.
#[derive(Clone)]
struct Code {
    tables: Tables,
    /// Where V8 has its functions, if the file holds it.
    v8: Option<Arc<v8::Layout>>,
    /// What says where Java's machine has them, if it is its library.
    java: Option<Arc<hotspot::Library>>,
}

/// Files that were read; `None` if one is not ELF.
#[derive(Default)]
pub(super) struct Files {
    known: FxHashMap<FileId, Option<Code>>,
    bytes: usize,
    /// The code that the kernel itself gives to each process.
    vdso: Option<Code>,
}

impl Files {
    /// `name`: of the file, as the process sees it.
    fn of(&mut self, path: &Path, name: &str) -> Option<Code> {
        let id = FileId::of(path)?;
        if let Some(known) = self.known.get(&id) {
            return known.clone();
        }
        if self.known.len() >= MOST_FILES || self.bytes >= MOST_BYTES {
            self.known.clear();
            self.bytes = 0;
        }
        let (tables, image) = (id.open(path)?, id.open(path)?);
        let tables = Tables::read(&ReadCache::new(tables));
        let machines = || elf::of(image, |image| Some((v8::Layout::of(image), hotspot::Library::of(image))));
        let code = tables.map(|tables| {
            let (v8, java) = machines().unwrap_or_default();
            if java.is_none() && JAVA.iter().any(|library| name.ends_with(library)) {
                tracing::warn!(name, "functions of Java have no names: this machine does not describe itself");
            }
            Code { tables, v8: v8.map(Arc::new), java: java.map(Arc::new) }
        });
        self.bytes += code.as_ref().map_or(0, |code| code.tables.size());
        self.known.insert(id, code.clone());
        code
    }

    fn vdso(&mut self, pid: u32, at: &Range<u64>) -> Option<Code> {
        if self.vdso.is_none() {
            let image = memory::of(pid).ok()?.bytes(at.start, usize::try_from(at.end - at.start).ok()?)?;
            self.vdso = Tables::read(&*image).map(|tables| Code { tables, v8: None, java: None });
        }
        self.vdso.clone()
    }
}

/// A mapping of code.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    at: Range<u64>,
    offset: u64,
    /// As the process sees it; empty if no file is mapped there.
    name: String,
    inode: u64,
}

impl Mapping {
    fn read(line: &str) -> Option<Mapping> {
        let mut fields = line.split_ascii_whitespace();
        let (from, to) = fields.next()?.split_once('-')?;
        let mode = fields.next()?;
        let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
        let inode = fields.nth(1)?.parse().ok()?;
        let name = line.find(['/', '[']).map_or("", |at| line[at..].trim_end_matches(" (deleted)"));
        let at = u64::from_str_radix(from, 16).ok()?..u64::from_str_radix(to, 16).ok()?;
        (mode.as_bytes().get(2) == Some(&b'x')).then(|| Mapping { at, offset, name: name.into(), inode })
    }

    /// Where the file can be opened: it may be deleted, replaced, or lie in another mount namespace.
    fn files(&self, pid: u32) -> [PathBuf; 2] {
        let Range { start, end } = self.at;
        [format!("/proc/{pid}/map_files/{start:x}-{end:x}").into(), format!("/proc/{pid}/root{}", self.name).into()]
    }

    fn code(&self, pid: u32, files: &mut Files) -> Option<Code> {
        if self.name == "[vdso]" {
            return files.vdso(pid, &self.at);
        }
        if !self.name.starts_with('/') {
            return None;
        }
        let [mapped, named] = self.files(pid);
        // Without the privilege for the first path, the second one must lead to the same file.
        let is_same = |path: &PathBuf| {
            use std::os::unix::fs::MetadataExt as _;
            std::fs::metadata(path).is_ok_and(|file| file.ino() == self.inode)
        };
        let path = if mapped.exists() { Some(mapped) } else { Some(named).filter(is_same) };
        files.of(&path?, &self.name)
    }
}

/// The mappings of code that a process has, in the order of addresses; `None` if it has ended.
fn code_of(pid: u32) -> Option<Vec<Mapping>> {
    let text = std::fs::read(format!("/proc/{pid}/maps")).ok().filter(|text| !text.is_empty())?;
    Some(String::from_utf8_lossy(&text).lines().filter_map(Mapping::read).take(MOST_MAPPINGS).collect())
}

/// A process.
pub(super) struct Process {
    pub(super) unwinder: Unwinder,
    mappings: Vec<Mapping>,
    memory: File,
    /// Whether an address is that to which handlers of signals return.
    returns: FxHashMap<u64, bool>,
    /// Its functions of JavaScript, if it has V8, and those of Java, if it has its machine.
    javascript: Option<v8::Functions<File>>,
    java: Option<hotspot::Functions<File>>,
    read: Instant,
}

impl Process {
    /// Reads what a process has mapped; `None` if it has ended.
    pub(super) fn read(pid: u32, files: &mut Files) -> Option<Process> {
        let mappings = code_of(pid)?;
        let (mut unwinder, mut layout, mut library) = (Unwinder::new(), None, None);
        for mapping in &mappings {
            if let Some(Code { tables, v8, java }) = mapping.code(pid, files) {
                if let Some(base) = tables.bias(mapping.at.start, mapping.offset) {
                    library = library.or(java.map(|java| (java, base)));
                    unwinder.add_module(Module::new(String::new(), mapping.at.clone(), base, tables.sections()));
                }
                layout = layout.or(v8);
            }
        }
        let memory = memory::of(pid).ok()?;
        let own = || memory.try_clone().ok();
        let javascript = layout.and_then(|layout| Some(v8::Functions::new(own()?, layout)));
        let java = library.and_then(|(library, bias)| Some(hotspot::Functions::new(own()?, library, bias)));
        let (returns, read) = (FxHashMap::default(), Instant::now());
        Some(Process { unwinder, mappings, memory, returns, javascript, java, read })
    }

    /// Whether code is mapped at this address.
    pub(super) fn has_code(&self, at: u64) -> bool {
        let next = self.mappings.partition_point(|mapping| mapping.at.end <= at);
        self.mappings.get(next).is_some_and(|mapping| mapping.at.contains(&at))
    }

    /// The function of JavaScript that has a frame here; `word` reads the stack.
    pub(super) fn function(&mut self, frame_pointer: u64, word: impl Fn(u64) -> Option<u64>) -> Option<Frame> {
        self.javascript.as_mut()?.of_frame(frame_pointer, word)
    }

    /// What is at these registers, if it is code that Java's machine has made; `word` reads the stack.
    pub(super) fn java(
        &mut self,
        at: hotspot::Registers,
        address: hotspot::Address,
        word: impl Fn(u64) -> Option<u64>,
    ) -> Option<hotspot::Made> {
        self.java.as_mut()?.step(at, address, word)
    }

    /// The instruction at which a signal came, with the registers there, if the code at this address is that to which
    /// handlers of signals return. The kernel puts the registers on the stack; the unwinder does not know that frame.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn interrupted(
        &mut self,
        address: u64,
        registers: &UnwindRegsNative,
        word: impl Fn(u64) -> Option<u64>,
    ) -> Option<(u64, UnwindRegsNative)> {
        /// `mov $__NR_rt_sigreturn, %rax; syscall`
        const RETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
        /// From `struct ucontext`, on which the stack pointer is then, to words of its `struct sigcontext`.
        const BP: u64 = 40 + 8 * 10;
        const SP: u64 = 40 + 8 * 15;
        const IP: u64 = 40 + 8 * 16;
        if self.returns.len() >= MOST_RETURNS {
            self.returns.clear();
        }
        let memory = &self.memory;
        let is_return = || memory.bytes(address, RETURN.len()).is_some_and(|code| code == RETURN);
        if !*self.returns.entry(address).or_insert_with(is_return) {
            return None;
        }
        let at = |offset: u64| word(registers.sp().checked_add(offset)?);
        let ip = at(IP)?;
        Some((ip, UnwindRegsNative::new(ip, at(SP)?, at(BP)?)))
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn interrupted(
        &mut self,
        _: u64,
        _: &UnwindRegsNative,
        _: impl Fn(u64) -> Option<u64>,
    ) -> Option<(u64, UnwindRegsNative)> {
        None
    }

    /// Whether the mappings must be read again before code at this address is looked at.
    pub(super) fn is_old(&self, at: u64) -> bool {
        let age = self.read.elapsed();
        age >= BELIEVED || (age >= BELIEVED_AT_LEAST && !self.has_code(at))
    }

    /// Whether the process has mapped the same files as when they were read, or has ended: then what was read is
    /// believed for some time more.
    pub(super) fn is_unchanged(&mut self, pid: u32) -> bool {
        let is_same = code_of(pid).is_none_or(|mappings| mappings == self.mappings);
        if is_same {
            self.read = Instant::now();
        }
        is_same
    }

    /// Number of files of which tables were found.
    pub(super) fn modules(&self) -> usize {
        self.mappings.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_code_are_read_with_their_names() {
        let read = |line: &str| Mapping::read(line);
        let library = read("7f0000001000-7f0000002000 r-xp 00001000 fd:00 12    /usr/lib/a b.so (deleted)");
        let at = 0x7f00_0000_1000..0x7f00_0000_2000;
        assert_eq!(library, Some(Mapping { at, offset: 0x1000, name: "/usr/lib/a b.so".into(), inode: 12 }));
        assert_eq!(read("7f0000001000-7f0000002000 rw-p 00001000 fd:00 12 /usr/lib/a.so"), None);
        assert_eq!(read("1000-2000 r-xp 00000000 00:00 0 ").map(|m| m.name), Some(String::new()));
        assert_eq!(read("1000-2000 r-xp 00000000 00:00 0  [vdso]").map(|m| m.name), Some("[vdso]".into()));
        assert!(["", "1000", "x-y r-xp 0 0 0", "1000-2000 r-xp zz 00:00 0"].iter().all(|line| read(line).is_none()));
    }
}
