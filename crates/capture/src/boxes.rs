//! Boxes: maps of one place, for a table that is made when the kernel programs need it (`WS_TABLE` in bpf/core/maps.h).

use libbpf_rs::libbpf_sys::{bpf_map_create_opts, BPF_F_INNER_MAP};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use std::os::fd::{AsFd as _, AsRawFd as _};

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
    make(of, MapType::Array, name, (4, size), entries, BPF_F_INNER_MAP)
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
