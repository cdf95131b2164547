//! Large tables of the kernel programs that few hosts need: of runtimes, and of TLS. Each takes megabytes from the
//! start, so it is made when a process is met that needs it, before that process is probed.

use crate::boxes;
use libbpf_rs::{MapCore as _, MapHandle, Object, OpenObject};
use std::collections::HashMap;

/// Sizes of a table's key and value, bytes, by the table's name.
pub(crate) type Shapes = HashMap<String, (u32, u32)>;

/// Entries of each table but `actors`, which the user sizes. The kernel drops old entries if there are more.
const ENTRIES: [(&str, u32); 12] = [
    ("answers", 1_024),
    ("carriers", 65_536),
    ("first_tasks", 16_384),
    ("go_calls", 65_536),
    ("java_moved", 32_768),
    ("java_outer", 16_384),
    ("java_ran", 16_384),
    ("java_recycled", 4_096),
    ("node_rounds", 512),
    ("progress_of", 32_768),
    ("python_copies", 8_192),
    ("tls_conns", 32_768),
];
/// Fewest actors. In a smaller table nearly no entry is free: the kernel sets some aside for each processor.
const LEAST_ACTORS: u32 = 512;

/// What the shape of a table is called; such a map is never made.
const SHAPE: &str = "_shape";

/// The shapes of all tables in boxes (`WS_TABLE` in bpf/core/maps.h).
pub(crate) fn shapes(object: &mut OpenObject) -> libbpf_rs::Result<Shapes> {
    let mut shapes = HashMap::new();
    for mut map in object.maps_mut() {
        let Some(name) = map.name().to_str().and_then(|name| name.strip_suffix(SHAPE)).map(str::to_owned) else {
            continue;
        };
        shapes.insert(name, (map.key_size(), map.value_size()));
        map.set_autocreate(false)?;
    }
    Ok(shapes)
}

/// A table of which few entries do until a process has mapped a file that needs it, and these entries. The libraries
/// for TLS are probed in every new process, as it may load one: its first call must be seen.
const FEW: (&str, u32) = ("tls_conns", 4_096);

/// Tables that are made when they are needed.
#[derive(Debug, Default)]
pub(crate) struct Tables(HashMap<&'static str, Table>);

#[derive(Debug)]
struct Table {
    /// The map of one place into which the table is put.
    place: MapHandle,
    shape: (u32, u32),
    entries: u32,
    /// Kept open, so that the memory of the process can be told.
    made: Option<MapHandle>,
    /// Nothing is left to be made.
    is_whole: bool,
}

impl Tables {
    /// The tables of a loaded object.
    pub(crate) fn open(object: &Object, shapes: &Shapes, actors: u32) -> libbpf_rs::Result<Self> {
        let mut tables = HashMap::new();
        for (name, entries) in ENTRIES.into_iter().chain([("actors", actors.max(LEAST_ACTORS))]) {
            let (Some(map), Some(shape)) = (object.maps().find(|map| map.name() == name), shapes.get(name)) else {
                return Err(std::io::Error::other(format!("there is no table {name}")).into());
            };
            let place = MapHandle::try_from(&map)?;
            tables.insert(name, Table { place, shape: *shape, entries, made: None, is_whole: false });
        }
        Ok(Tables(tables))
    }

    /// Makes those of these tables that are not there yet. What needs a table that cannot be made does without it.
    /// `mapped`: a process has mapped the file that needs them.
    pub(super) fn make(&mut self, names: &[&'static str], mapped: bool) {
        for name in names {
            let Some(table) = self.0.get_mut(name) else { continue };
            if let Err(error) = table.make(name, mapped) {
                tracing::warn!(
                    table = name,
                    %error,
                    "no memory for a table of the kernel programs: causes in some runtimes are only inferred"
                );
            }
        }
    }
}

impl Table {
    fn make(&mut self, name: &str, mapped: bool) -> libbpf_rs::Result<()> {
        let has_few = !mapped && name == FEW.0;
        if self.is_whole || (has_few && self.made.is_some()) {
            return Ok(());
        }
        let entries = if has_few { FEW.1 } else { self.entries };
        self.is_whole = entries == self.entries; // also if there is no memory: it is not tried again
        let table = boxes::new_table(name, self.shape, entries)?;
        match &self.made {
            Some(few) => boxes::replace(few, &table, &self.place)?,
            None => boxes::put(&table, &self.place)?,
        }
        self.made = Some(table);
        Ok(())
    }
}
