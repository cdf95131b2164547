//! Large tables of the kernel programs that few hosts need: of runtimes, and of TLS. Each would take up to megabytes
//! from the start, so it is made when a process is met that needs it, before that process is probed.

use libbpf_rs::libbpf_sys::bpf_map_create_opts;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, MapType, Object, OpenObject};
use std::collections::HashMap;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::thread::JoinHandle;

/// Sizes of a table's key and value, bytes, by the table's name.
pub(crate) type Shapes = HashMap<String, (u32, u32)>;

/// Entries of each table but `actors`, which the user sizes. The kernel drops old entries if there are more.
const ENTRIES: [(&str, u32); 10] = [
    ("carriers", 65_536),
    ("first_tasks", 16_384),
    ("go_calls", 65_536),
    ("java_moved", 32_768),
    ("java_outer", 16_384),
    ("java_ran", 16_384),
    ("node_rounds", 512),
    ("progress_of", 32_768),
    ("python_copies", 8_192),
    (TLS_CONNS, 32_768),
];
/// The connections of TLS libraries. Until this table is there, the kernel programs have a small one for them.
const TLS_CONNS: &str = "tls_conns";
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

/// Tables that are made when they are needed.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    /// Those that were not made yet, by name.
    left: HashMap<&'static str, Table>,
    /// Whether the table of TLS connections is to be made.
    tls_is_due: bool,
    /// The thread that has made it, and keeps it open.
    tls: Option<JoinHandle<Option<MapHandle>>>,
    /// Kept open, so that the memory of the process can be told.
    made: Vec<MapHandle>,
}

#[derive(Debug)]
struct Table {
    /// The map of one place into which the table is put.
    place: MapHandle,
    shape: (u32, u32),
    entries: u32,
}

impl Tables {
    /// The tables of a loaded object.
    pub(crate) fn open(object: &Object, shapes: &Shapes, actors: u32) -> libbpf_rs::Result<Self> {
        let mut tables = HashMap::new();
        for (name, entries) in ENTRIES.into_iter().chain([("actors", actors.max(LEAST_ACTORS))]) {
            tables.insert(name, Table::open(object, shapes, name, entries)?);
        }
        Ok(Tables { left: tables, tls_is_due: false, tls: None, made: Vec::new() })
    }

    /// Makes those of these tables that are not there yet. What needs a table that cannot be made does without it. The
    /// kernel waits for its programs before a table is in place; side by side, the tables wait once.
    pub(super) fn make(&mut self, names: &[&'static str]) {
        self.tls_is_due |= names.contains(&TLS_CONNS);
        let now = names.iter().filter(|name| **name != TLS_CONNS);
        let due: Vec<_> = now.filter_map(|name| Some((*name, self.left.remove(name)?))).collect();
        let made: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                due.iter().map(|(name, table)| (name, scope.spawn(move || table.make(name)))).collect();
            threads.into_iter().filter_map(|(name, thread)| Some((name, thread.join().ok()?))).collect()
        });
        for (name, made) in made {
            match made {
                Ok(made) => self.made.push(made),
                Err(error) => no_memory(name, &error),
            }
        }
    }

    /// Makes what is due and not urgent, in a thread: probes of further processes do not wait for it.
    pub(super) fn make_due(&mut self) {
        if !std::mem::take(&mut self.tls_is_due) {
            return;
        }
        let Some(table) = self.left.remove(TLS_CONNS) else { return };
        let make = move || table.make(TLS_CONNS).map_err(|error| no_memory(TLS_CONNS, &error)).ok();
        self.tls = std::thread::Builder::new().name("table".into()).spawn(make).ok();
    }
}

fn no_memory(table: &str, error: &libbpf_rs::Error) {
    tracing::warn!(
        table,
        %error,
        "no memory for a table of the kernel programs: causes in some runtimes are only inferred, or TLS is not read"
    );
}

impl Table {
    fn open(object: &Object, shapes: &Shapes, name: &str, entries: u32) -> libbpf_rs::Result<Self> {
        let (Some(map), Some(shape)) = (object.maps().find(|map| map.name() == name), shapes.get(name)) else {
            return Err(std::io::Error::other(format!("there is no table {name}")).into());
        };
        Ok(Table { place: MapHandle::try_from(&map)?, shape: *shape, entries })
    }

    fn make(&self, name: &str) -> libbpf_rs::Result<MapHandle> {
        let opts = bpf_map_create_opts { sz: size_of::<bpf_map_create_opts>() as _, ..Default::default() };
        let (key, value) = self.shape;
        let table = MapHandle::create(MapType::LruHash, Some(name), key, value, self.entries, &opts)?;
        self.place.update(&0u32.to_ne_bytes(), &table.as_fd().as_raw_fd().to_ne_bytes(), MapFlags::ANY)?;
        Ok(table)
    }
}
