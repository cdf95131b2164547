//! Symbols and code of an executable or library, read from the file that a process has mapped.

use object::elf::FileHeader64;
use object::elf::PF_X;
use object::read::elf::{ElfFile64, ProgramHeader as _, SectionHeader as _, Sym as _, SymbolTable};
use object::{Endianness, Object as _, ObjectSection as _, ReadCache};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

/// Where the number of a file's block of thread-local variables is. Each thread has a block for each loaded file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// The program itself has number 1.
    OfProgram,
    /// The loader writes the number to this address.
    NumberAt(u64),
}

/// How a thread-local variable is found from the structure of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadLocal {
    /// At this (negative) distance from it: of the program itself.
    Below(u64),
    /// The loader writes the distance to this address.
    DistanceAt(u64),
    /// The loader writes the number of the file's block to this address.
    NumberAt(u64),
    /// The loader writes a TLS descriptor to this address.
    DescriptorAt(u64),
}

/// A function's place in its file's address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) address: u64,
    pub(crate) size: u64,
}

type Symbols<'a> = SymbolTable<'a, FileHeader64<Endianness>, &'a ReadCache<File>>;
type Elf<'a> = ElfFile64<'a, Endianness, &'a ReadCache<File>>;

/// Runs `work` on an ELF file; `None` if the file is not ELF.
pub(crate) fn with<T>(path: &Path, work: impl FnOnce(&Image<'_>) -> Option<T>) -> Option<T> {
    of(File::open(path).ok()?, work)
}

/// The same for a file that is open.
pub(crate) fn of<T>(file: File, work: impl FnOnce(&Image<'_>) -> Option<T>) -> Option<T> {
    let cache = ReadCache::new(file);
    let elf = Elf::parse(&cache).ok()?;
    work(&Image { elf, cache: &cache, exported: OnceCell::new(), named: OnceCell::new() })
}

fn is_code(p: &object::elf::ProgramHeader64<Endianness>, endian: Endianness) -> bool {
    p.p_type(endian) == object::elf::PT_LOAD && p.p_flags(endian) & PF_X != 0
}

/// An ELF file.
pub(crate) struct Image<'a> {
    elf: Elf<'a>,
    cache: &'a ReadCache<File>,
    /// What each table of symbols defines, once it was asked for: each runtime looks for names of its own.
    exported: OnceCell<Vec<(&'a [u8], Place)>>,
    named: OnceCell<Vec<(&'a [u8], Place)>>,
}

impl<'a> Image<'a> {
    /// Whether its code is x86-64.
    pub(crate) fn is_x86_64(&self) -> bool {
        self.elf.architecture() == object::Architecture::X86_64
    }

    /// The wanted functions that the file defines.
    pub(crate) fn functions(&self, wanted: &[&'static str]) -> HashMap<&'static str, Place> {
        let mut found = HashMap::new();
        for (name, place) in self.exports().iter().chain(self.symbols()) {
            if let Some(name) = wanted.iter().find(|w| w.as_bytes() == *name) {
                found.entry(*name).or_insert(*place);
            }
        }
        found
    }

    fn exports(&self) -> &[(&'a [u8], Place)] {
        self.exported.get_or_init(|| self.defined(self.elf.elf_dynamic_symbol_table()))
    }

    fn symbols(&self) -> &[(&'a [u8], Place)] {
        self.named.get_or_init(|| self.defined(self.elf.elf_symbol_table()))
    }

    /// The definitions in a table of symbols, by name. All names are read at once: one by one, each would cost two
    /// system calls.
    fn defined(&self, table: &Symbols<'a>) -> Vec<(&'a [u8], Place)> {
        let endian = self.elf.endian();
        let names = self.elf.elf_section_table().section(table.string_section()).ok();
        let names = names.and_then(|section| section.data(endian, self.cache).ok()).unwrap_or_default();
        let named = table.iter().filter(|s| s.is_definition(endian) && s.st_value(endian) != 0).filter_map(|s| {
            let name = names.get(s.st_name(endian) as usize..)?;
            let name = name.get(..memchr::memchr(0, name)?)?;
            Some((name, Place { address: s.st_value(endian), size: s.st_size(endian) }))
        });
        named.collect()
    }

    /// Functions that the file defines and whose names `wanted` accepts, with its results.
    pub(crate) fn named<T>(&self, wanted: impl Fn(&[u8]) -> Option<T>) -> Vec<(Place, T)> {
        let symbols = self.symbols().iter().filter(|(_, place)| place.size != 0);
        symbols.filter_map(|(name, place)| Some((*place, wanted(name)?))).collect()
    }

    /// The same for functions that the file exports.
    pub(crate) fn exported<T>(&self, wanted: impl Fn(&[u8]) -> Option<T>) -> Vec<(Place, T)> {
        self.exports().iter().filter_map(|(name, place)| Some((*place, wanted(name)?))).collect()
    }

    /// File offset of an address in code.
    pub(crate) fn offset(&self, address: u64) -> Option<u64> {
        let endian = self.elf.endian();
        self.elf.elf_program_headers().iter().find_map(|p| {
            let (start, size) = (p.p_vaddr(endian), p.p_filesz(endian));
            (is_code(p, endian) && (start..start + size).contains(&address))
                .then(|| address - start + p.p_offset(endian))
        })
    }

    /// Where the code begins: file offset, and address.
    pub(crate) fn code(&self) -> Option<(u64, u64)> {
        let endian = self.elf.endian();
        self.elf
            .elf_program_headers()
            .iter()
            .find(|p| is_code(p, endian))
            .map(|p| (p.p_offset(endian), p.p_vaddr(endian)))
    }

    /// Offset of an exported thread-local variable of an x86-64 executable from the thread pointer (fs base). The
    /// variable lies below the thread pointer, so the offset is negative.
    pub(crate) fn thread_local(&self, name: &str) -> Option<u64> {
        let endian = self.elf.endian();
        let table = self.elf.elf_dynamic_symbol_table();
        let is_it = |s: &&object::elf::Sym64<Endianness>| {
            s.st_type() == object::elf::STT_TLS && table.symbol_name(endian, s).is_ok_and(|n| n == name.as_bytes())
        };
        let variable = table.iter().find(is_it)?;
        let block = self.elf.elf_program_headers().iter().find(|p| p.p_type(endian) == object::elf::PT_TLS)?;
        let size = block.p_memsz(endian).checked_next_multiple_of(block.p_align(endian).max(1))?;
        Some(variable.st_value(endian).wrapping_sub(size))
    }

    /// The block of the thread-local variables of an x86-64 file, and its size.
    pub(crate) fn thread_block(&self) -> Option<(Block, u64)> {
        let endian = self.elf.endian();
        let header = |kind| self.elf.elf_program_headers().iter().find(|p| p.p_type(endian) == kind);
        let size = header(object::elf::PT_TLS)?.p_memsz(endian);
        if header(object::elf::PT_INTERP).is_some() {
            return Some((Block::OfProgram, size));
        }
        // The number of this file is asked for without a symbol, or with one that the file defines.
        let table = self.elf.elf_dynamic_symbol_table();
        let is_own = |r: &object::Relocation| match r.target() {
            object::RelocationTarget::Symbol(index) => {
                table.symbol(index).is_ok_and(|s| s.st_shndx(endian) != object::elf::SHN_UNDEF)
            }
            _ => true,
        };
        let number = object::RelocationFlags::Elf { r_type: object::elf::R_X86_64_DTPMOD64 };
        let (at, _) = self.elf.dynamic_relocations()?.find(|(_, r)| r.flags() == number && is_own(r))?;
        Some((Block::NumberAt(at), size))
    }

    /// Offset of an exported thread-local variable in the block of the file.
    pub(crate) fn in_thread_block(&self, name: &str) -> Option<u64> {
        let endian = self.elf.endian();
        let table = self.elf.elf_dynamic_symbol_table();
        let is_it = |s: &&object::elf::Sym64<Endianness>| {
            s.st_type() == object::elf::STT_TLS
                && s.st_shndx(endian) != object::elf::SHN_UNDEF
                && table.symbol_name(endian, s).is_ok_and(|n| n == name.as_bytes())
        };
        table.iter().find(is_it).map(|s| s.st_value(endian))
    }

    /// Where the thread-local variable of this name lies for each thread. `offset`: in the block of the file.
    pub(crate) fn thread_local_place(&self, name: &str, offset: u64) -> Option<ThreadLocal> {
        let endian = self.elf.endian();
        if self.elf.elf_program_headers().iter().any(|p| p.p_type(endian) == object::elf::PT_INTERP) {
            return self.thread_local(name).map(ThreadLocal::Below);
        }
        let table = self.elf.elf_dynamic_symbol_table();
        let is_it = |r: &object::Relocation| match r.target() {
            object::RelocationTarget::Symbol(index) => {
                table.symbol(index).and_then(|s| table.symbol_name(endian, s)).is_ok_and(|n| n == name.as_bytes())
            }
            _ => r.addend().cast_unsigned() == offset,
        };
        let direct = |(at, r): (u64, object::Relocation)| match r.flags() {
            object::RelocationFlags::Elf { r_type: object::elf::R_X86_64_TPOFF64 } => Some(ThreadLocal::DistanceAt(at)),
            object::RelocationFlags::Elf { r_type: object::elf::R_X86_64_TLSDESC } => {
                Some(ThreadLocal::DescriptorAt(at))
            }
            _ => None,
        };
        let found = self.elf.dynamic_relocations()?.filter(|(_, r)| is_it(r)).find_map(direct);
        found.or_else(|| match self.thread_block()? {
            (Block::NumberAt(at), _) => Some(ThreadLocal::NumberAt(at)),
            (Block::OfProgram, _) => None,
        })
    }

    /// Whether it needs the GNU C library.
    pub(crate) fn uses_glibc(&self) -> bool {
        const LIBRARY: &[u8] = b"\0libc.so.6\0";
        self.section(".dynstr").is_some_and(|(_, names)| memchr::memmem::find(names, LIBRARY).is_some())
    }

    /// Address and size of its data that may be written.
    pub(crate) fn writable(&self) -> Option<(u64, u64)> {
        let endian = self.elf.endian();
        let is_data = |p: &&object::elf::ProgramHeader64<Endianness>| {
            p.p_type(endian) == object::elf::PT_LOAD && p.p_flags(endian) & object::elf::PF_W != 0
        };
        let data = self.elf.elf_program_headers().iter().find(is_data)?;
        Some((data.p_vaddr(endian), data.p_memsz(endian)))
    }

    /// Bytes of the file that lie at this address in memory, which must be code.
    pub(crate) fn bytes(&self, address: u64, size: u64) -> Option<&[u8]> {
        use object::ReadRef as _;
        self.cache.read_bytes_at(self.offset(address)?, size).ok()
    }

    /// Bytes of the file that lie at this address in memory, code or not.
    pub(crate) fn data(&self, address: u64, size: u64) -> Option<&[u8]> {
        use object::ReadRef as _;
        let endian = self.elf.endian();
        let offset = self.elf.elf_program_headers().iter().find_map(|p| {
            let (start, length) = (p.p_vaddr(endian), p.p_filesz(endian));
            let inside = p.p_type(endian) == object::elf::PT_LOAD && (start..start + length).contains(&address);
            inside.then(|| address - start + p.p_offset(endian))
        })?;
        self.cache.read_bytes_at(offset, size).ok()
    }

    /// Places of pointers, and the addresses in this file to which they point. They are the relative relocations. A
    /// file that is not relocated has none, and one with packed relocations (`.relr.dyn`) shows only some: then each
    /// word of its data counts as well.
    pub(crate) fn pointers(&self) -> Vec<(u64, u64)> {
        const RELATIVE: object::RelocationFlags =
            object::RelocationFlags::Elf { r_type: object::elf::R_X86_64_RELATIVE };
        let all = self.elf.dynamic_relocations().into_iter().flatten();
        let written = all.filter(|(_, r)| r.flags() == RELATIVE).map(|(at, r)| (at, r.addend() as u64));
        let mut found: Vec<(u64, u64)> = Vec::new();
        if self.elf.kind() == object::ObjectKind::Executable || self.elf.section_by_name(".relr.dyn").is_some() {
            let sections = [".data", ".data.rel.ro"].into_iter().filter_map(|name| self.section(name));
            for (address, data) in sections {
                let words = data.chunks_exact(8).map(|w| w.iter().rev().fold(0, |sum, b| sum << 8 | u64::from(*b)));
                found.extend((address..).step_by(8).zip(words).filter(|(_, word)| *word != 0));
            }
        }
        found.extend(written);
        found
    }

    /// Addresses of this text among the constants, as a whole string or as the end of a longer one.
    pub(crate) fn strings(&self, text: &str) -> Vec<u64> {
        let wanted = [text.as_bytes(), &[0]].concat();
        let Some((address, data)) = self.section(".rodata") else { return Vec::new() };
        let first = text.as_bytes().first().copied();
        let starts = (0..data.len()).filter(|at| data.get(*at).copied() == first);
        starts
            .filter(|at| data.get(*at..).is_some_and(|d| d.starts_with(&wanted)))
            .map(|at| address + at as u64)
            .collect()
    }

    /// File offset and size of a section.
    pub(crate) fn file_range(&self, name: &str) -> Option<(u64, u64)> {
        self.elf.section_by_name(name)?.file_range()
    }

    /// Address and bytes of a section.
    pub(crate) fn section(&self, name: &str) -> Option<(u64, &[u8])> {
        let section = self.elf.section_by_name(name)?;
        Some((section.address(), section.data().ok()?))
    }
}
