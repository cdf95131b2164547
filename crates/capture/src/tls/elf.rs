//! Symbols and code of an executable or library, read from the file that a process has mapped.

use object::elf::PF_X;
use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, ReadCache};
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

/// A function's place in its file's address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) address: u64,
    pub(crate) size: u64,
}

type Elf<'a> = ElfFile64<'a, Endianness, &'a ReadCache<File>>;

/// Runs `work` on an ELF file; `None` if it is none.
pub(crate) fn with<T>(path: &Path, work: impl FnOnce(&Image<'_>) -> Option<T>) -> Option<T> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let elf = Elf::parse(&cache).ok()?;
    work(&Image { elf, cache: &cache })
}

fn is_code(p: &object::elf::ProgramHeader64<Endianness>, endian: Endianness) -> bool {
    p.p_type(endian) == object::elf::PT_LOAD && p.p_flags(endian) & PF_X != 0
}

/// An ELF file.
pub(crate) struct Image<'a> {
    elf: Elf<'a>,
    cache: &'a ReadCache<File>,
}

impl Image<'_> {
    /// Whether its code is x86-64.
    pub(crate) fn is_x86_64(&self) -> bool {
        self.elf.architecture() == object::Architecture::X86_64
    }

    /// Those of the wanted functions that it defines.
    pub(crate) fn functions(&self, wanted: &[&'static str]) -> HashMap<&'static str, Place> {
        let mut found = HashMap::new();
        for symbol in self.elf.dynamic_symbols().chain(self.elf.symbols()) {
            if !symbol.is_definition() || symbol.address() == 0 {
                continue;
            }
            let Ok(name) = symbol.name_bytes() else { continue };
            if let Some(name) = wanted.iter().find(|w| w.as_bytes() == name) {
                found.entry(*name).or_insert(Place { address: symbol.address(), size: symbol.size() });
            }
        }
        found
    }

    /// Functions that it defines, for which `wanted` finds something in their names.
    pub(crate) fn named<T>(&self, wanted: impl Fn(&[u8]) -> Option<T>) -> Vec<(Place, T)> {
        let symbols = self.elf.symbols().filter(|s| s.is_definition() && s.address() != 0 && s.size() != 0);
        symbols
            .filter_map(|s| {
                let found = wanted(s.name_bytes().ok()?)?;
                Some((Place { address: s.address(), size: s.size() }, found))
            })
            .collect()
    }

    /// Offset in the file of an address in code.
    pub(crate) fn offset(&self, address: u64) -> Option<u64> {
        let endian = self.elf.endian();
        self.elf.elf_program_headers().iter().find_map(|p| {
            let (start, size) = (p.p_vaddr(endian), p.p_filesz(endian));
            (is_code(p, endian) && (start..start + size).contains(&address))
                .then(|| address - start + p.p_offset(endian))
        })
    }

    /// Where the code begins: offset in the file, and address.
    pub(crate) fn code(&self) -> Option<(u64, u64)> {
        let endian = self.elf.endian();
        self.elf
            .elf_program_headers()
            .iter()
            .find(|p| is_code(p, endian))
            .map(|p| (p.p_offset(endian), p.p_vaddr(endian)))
    }

    /// Bytes of the file from an address on, as many as there are.
    pub(crate) fn bytes(&self, address: u64, size: u64) -> Option<&[u8]> {
        use object::ReadRef as _;
        self.cache.read_bytes_at(self.offset(address)?, size).ok()
    }

    /// A section by name.
    pub(crate) fn section(&self, name: &str) -> Option<(u64, &[u8])> {
        let section = self.elf.section_by_name(name)?;
        Some((section.address(), section.data().ok()?))
    }
}
