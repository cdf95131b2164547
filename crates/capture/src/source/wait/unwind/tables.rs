//! The tables of an ELF file that say where callers are: `.eh_frame`, or `.debug_frame`.

use framehop::ExplicitModuleSectionInfo;
use object::elf::PF_X;
use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSection as _, ReadRef};
use std::ops::Range;
use std::sync::Arc;

/// Larger tables are not read, bytes.
const LARGEST: u64 = 64 << 20;

/// A section: its place in the addresses of the file, and its bytes.
#[derive(Clone)]
struct Section {
    at: Range<u64>,
    bytes: Arc<[u8]>,
}

/// The tables of a file.
#[derive(Clone, Default)]
pub(super) struct Tables {
    /// Of each part of the code: offset in the file, size, and address.
    code: Vec<(u64, u64, u64)>,
    eh_frame: Option<Section>,
    /// An index of `eh_frame`.
    eh_frame_hdr: Option<Section>,
    debug_frame: Option<Section>,
}

impl Tables {
    /// Reads the tables of a file; `None` if it is not ELF. A file without tables has its callers found by frame
    /// pointers.
    pub(super) fn read<'a>(file: impl ReadRef<'a>) -> Option<Tables> {
        let elf = ElfFile64::<Endianness, _>::parse(file).ok()?;
        let endian = elf.endian();
        let code = elf.elf_program_headers().iter().filter(|p| p.p_flags(endian) & PF_X != 0);
        let section = |name: &str| {
            let section = elf.section_by_name(name)?;
            let range = section.compressed_file_range().ok()?;
            if range.format != object::CompressionFormat::None || range.uncompressed_size > LARGEST {
                return None;
            }
            let bytes = section.data().ok().filter(|bytes| !bytes.is_empty())?;
            Some(Section { at: section.address()..section.address().checked_add(section.size())?, bytes: bytes.into() })
        };
        let eh_frame = section(".eh_frame");
        Some(Tables {
            code: code.map(|p| (p.p_offset(endian), p.p_filesz(endian), p.p_vaddr(endian))).collect(),
            eh_frame_hdr: eh_frame.as_ref().and_then(|_| section(".eh_frame_hdr")),
            debug_frame: if eh_frame.is_none() { section(".debug_frame") } else { None },
            eh_frame,
        })
    }

    /// What to add to an address of the file to get the address in a process that has mapped this offset there.
    pub(super) fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        let holds = |(at, size, _): &&(u64, u64, u64)| offset < at.saturating_add(*size) && offset >> 12 >= at >> 12;
        let (at, _, address) = self.code.iter().find(holds).or(self.code.first())?;
        Some(start.wrapping_sub(offset).wrapping_sub(address.wrapping_sub(*at)))
    }

    /// Bytes that are kept.
    pub(super) fn size(&self) -> usize {
        let all = [&self.eh_frame, &self.eh_frame_hdr, &self.debug_frame];
        all.into_iter().flatten().map(|section| section.bytes.len()).sum()
    }

    /// The same for the unwinder.
    pub(super) fn sections(&self) -> ExplicitModuleSectionInfo<Arc<[u8]>> {
        let at = |section: &Option<Section>| section.as_ref().map(|s| s.at.clone());
        let bytes = |section: &Option<Section>| section.as_ref().map(|s| Arc::clone(&s.bytes));
        ExplicitModuleSectionInfo {
            eh_frame_svma: at(&self.eh_frame),
            eh_frame: bytes(&self.eh_frame),
            eh_frame_hdr_svma: at(&self.eh_frame_hdr),
            eh_frame_hdr: bytes(&self.eh_frame_hdr),
            debug_frame: bytes(&self.debug_frame),
            ..ExplicitModuleSectionInfo::default()
        }
    }
}

#[cfg(test)]
impl Tables {
    /// The same tables with changed bytes.
    pub(super) fn damaged(&self, random: &mut impl FnMut() -> u64) -> Tables {
        let mut tables = self.clone();
        let all = [&mut tables.eh_frame, &mut tables.eh_frame_hdr, &mut tables.debug_frame];
        for section in all.into_iter().flatten() {
            let mut bytes = section.bytes.to_vec();
            for _ in 0..bytes.len() / 64 {
                let at = random() as usize % bytes.len();
                bytes[at] = random() as u8;
            }
            section.bytes = bytes.into();
        }
        tables
    }
}
