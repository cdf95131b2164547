//! Boxes: maps of one place, for a table that is made when the kernel programs need it (`WS_TABLE` in bpf/core/maps.h).

use crate::ring::Mapping;
use libbpf_rs::libbpf_sys::{bpf_map_create_opts, BPF_F_INNER_MAP, BPF_F_MMAPABLE};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use rustix::mm::ProtFlags;
use rustix::param::page_size;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::sync::atomic::{fence, Ordering};

/// The one place of a box.
pub(crate) const PLACE: [u8; 4] = 0u32.to_ne_bytes();

/// Puts a table into a box, in place of the one that is there.
pub(crate) fn put(table: &MapHandle, of: &impl MapCore) -> libbpf_rs::Result<()> {
    of.update(&PLACE, &table.as_fd().as_raw_fd().to_ne_bytes(), MapFlags::ANY)
}

/// Makes a table in a box; `sizes`: of its keys and values, bytes.
pub(crate) fn make(
    of: &impl MapCore,
    kind: MapType,
    name: &str,
    sizes: (u32, u32),
    entries: u32,
    flags: u32,
) -> libbpf_rs::Result<MapHandle> {
    let table = new(kind, name, sizes, entries, flags)?;
    put(&table, of)?;
    Ok(table)
}

fn new(kind: MapType, name: &str, sizes: (u32, u32), entries: u32, flags: u32) -> libbpf_rs::Result<MapHandle> {
    let sz = size_of::<bpf_map_create_opts>() as _;
    let opts = bpf_map_create_opts { sz, map_flags: flags, ..Default::default() };
    MapHandle::create(kind, Some(name), sizes.0, sizes.1, entries, &opts)
}

/// Makes a table for a box (`WS_TABLE`). The kernel drops old entries if there are more.
pub(crate) fn new_table(name: &str, sizes: (u32, u32), entries: u32) -> libbpf_rs::Result<MapHandle> {
    new(MapType::LruHash, name, sizes, entries, 0)
}

/// Makes a table and puts it into its box.
pub(crate) fn make_table(
    of: &impl MapCore,
    name: &str,
    sizes: (u32, u32),
    entries: u32,
) -> libbpf_rs::Result<MapHandle> {
    make(of, MapType::LruHash, name, sizes, entries, 0)
}

/// Makes an array in a box (`WS_BOXED_ARRAY`); `size`: of a value, bytes.
pub(crate) fn make_array(of: &impl MapCore, name: &str, size: u32, entries: u32) -> libbpf_rs::Result<MapHandle> {
    make(of, MapType::Array, name, (4, size), entries, BPF_F_INNER_MAP | BPF_F_MMAPABLE)
}

/// An array that is read in place. Its entries begin with a number by which they take turns: entry `number % entries`
/// has it, and 0 while the kernel writes.
pub(crate) struct Shown {
    mapping: Mapping,
    size: usize,
    entries: u32,
}

impl Shown {
    /// Maps a table of [`make_array`]; `size`: of a value, bytes.
    pub(crate) fn of(table: BorrowedFd<'_>, size: u32, entries: u32) -> io::Result<Shown> {
        let size = size.next_multiple_of(8) as usize;
        let length = (size * entries as usize).next_multiple_of(page_size());
        Ok(Shown { mapping: Mapping::new(table, ProtFlags::READ, 0, length)?, size, entries })
    }

    /// Appends these bytes of the entry that has this number. Appends nothing, and returns false, if it has another one
    /// by now.
    pub(crate) fn read(&self, number: u64, part: Range<usize>, into: &mut Vec<u8>) -> bool {
        let entry = (number % u64::from(self.entries)) as usize * self.size;
        let before = into.len();
        if self.mapping.position(entry).load(Ordering::Acquire) == number {
            self.mapping.copy(entry + part.start, part.len(), into);
            // What was copied was read before the number is read again.
            fence(Ordering::Acquire);
            if self.mapping.position(entry).load(Ordering::Relaxed) == number {
                return true;
            }
        }
        into.truncate(before);
        false
    }
}

/// Puts a table into a box in place of another one, with the entries of that.
pub(crate) fn replace(old: &MapHandle, new: &MapHandle, of: &impl MapCore) -> libbpf_rs::Result<()> {
    copy(old, new, MapFlags::ANY);
    put(new, of)?;
    // No program uses the old table any more: the kernel waits for those that run. What came meanwhile is copied.
    copy(old, new, MapFlags::NO_EXIST);
    Ok(())
}

/// Copies entries. One that is gone meanwhile, or is there already, is left out.
fn copy(from: &MapHandle, to: &MapHandle, flags: MapFlags) {
    for key in from.keys() {
        if let Ok(Some(value)) = from.lookup(&key, MapFlags::ANY) {
            let _ = to.update(&key, &value, flags);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;

    #[test]
    fn an_entry_that_is_being_written_or_was_given_to_another_number_is_not_read() {
        let table = rustix::fs::memfd_create("table", rustix::fs::MemfdFlags::CLOEXEC).map(File::from).expect("memory");
        table.set_len(page_size() as u64).expect("room");
        let shown = Shown::of(table.as_fd(), 20, 4).expect("mapped");
        let write = |entry: u64, number: u64, bytes: &[u8]| {
            table.write_all_at(&number.to_ne_bytes(), entry * 24).expect("written");
            table.write_all_at(bytes, entry * 24 + 8).expect("written");
        };
        write(1, 5, b"five");
        write(2, 0, b"none");
        let mut all = b"before ".to_vec();
        assert!(shown.read(5, 8..12, &mut all));
        assert_eq!(all, b"before five");
        assert!([1, 2, 6, 9].iter().all(|number| !shown.read(*number, 8..12, &mut all)), "none has these");
        assert_eq!(all, b"before five");
    }
}
