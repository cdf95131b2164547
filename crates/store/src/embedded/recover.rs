//! Opening: from the files of a directory to a state. A file that is missing or damaged costs what it held.

use super::damage::{is_damage, Damage};
use super::io;
use super::log::Log;
use super::manifest::Manifest;
use super::memory::Memory;
use super::open::Open;
use super::segment::{self, Segment};
use super::state::{log_path, parse_name, Frozen, State};
use crate::StoreError;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Numbers of the files of a directory.
#[derive(Default)]
struct Found {
    logs: BTreeSet<u64>,
    segments: BTreeSet<u64>,
}

impl Found {
    fn list(dir: &Path) -> Result<Found, StoreError> {
        let mut found = Found::default();
        for entry in std::fs::read_dir(dir).map_err(|e| io("list", dir, e))? {
            let name = entry.map_err(|e| io("list", dir, e))?.file_name();
            match parse_name(&name.to_string_lossy()) {
                Some(("log", id)) => drop(found.logs.insert(id)),
                Some((_, id)) => drop(found.segments.insert(id)),
                None => {}
            }
        }
        Ok(found)
    }
}

/// The state that a directory describes. If it is only `looked` at, no file is changed; otherwise leftovers of a crash
/// are removed and a new log is begun.
pub(crate) fn recover(dir: &Path, damage: &Arc<Damage>, looked: bool) -> Result<State, StoreError> {
    let found = Found::list(dir)?;
    let path = dir.join("manifest.json");
    let mut manifest = match Manifest::load(dir)? {
        Ok(manifest) => manifest,
        Err(why) if found.segments.is_empty() && found.logs.is_empty() && looked => {
            return Err(super::corrupt(&path, format!("{why}; is this the directory of a store?")));
        }
        Err(_) if found.segments.is_empty() && found.logs.is_empty() && !path.exists() => Manifest::new(),
        Err(why) => {
            damage.report(&path, &format!("{why}; the list of files is made anew from what is there"));
            rebuild(dir, &found, damage)
        }
    };
    let last = found.logs.iter().chain(&found.segments).max();
    manifest.next = manifest.next.max(last.map_or(0, |id| id + 1));
    let known: BTreeSet<u64> = manifest.segments.iter().map(|s| s.id).collect();
    if !looked {
        let leftover = |id: &&u64| !known.contains(*id);
        found.segments.iter().filter(leftover).for_each(|id| segment::remove(dir, *id));
        let done = |id: &&u64| **id < manifest.first_log;
        found.logs.iter().filter(done).for_each(|id| drop(std::fs::remove_file(log_path(dir, *id))));
    }
    manifest.segments.iter().for_each(|s| check_length(dir, s, damage));
    let mut state = State::new(Memory::new(None)?);
    for id in found.logs.iter().filter(|id| **id >= manifest.first_log) {
        state.frozen.extend(replay(dir, *id, damage, looked)?.map(Arc::new));
    }
    if !looked {
        let id = manifest.next;
        manifest.next += 1;
        state.active = Memory::new(Some(Log::create(&log_path(dir, id))?))?;
        state.active_id = id;
        manifest.save(dir)?;
    }
    state.segments = Arc::new(manifest.segments.clone());
    state.manifest = manifest;
    Ok(state)
}

/// Says at the start which files of a segment are missing or have another length.
fn check_length(dir: &Path, s: &Segment, damage: &Damage) {
    let mut paths = vec![segment::data_path(dir, s.id), segment::keys_path(dir, s.id)];
    if s.sums {
        paths.push(segment::sums_path(dir, s.id));
    }
    let lengths: Vec<_> = paths.iter().map(|path| path.metadata().map(|m| m.len())).collect();
    for (path, length) in paths.iter().zip(&lengths) {
        if let Err(e) = length {
            damage.report(path, e);
        }
    }
    let total: u64 = lengths.iter().flatten().sum();
    if total != s.bytes && lengths.iter().all(Result::is_ok) {
        damage
            .report(&paths[0], &format!("the files of this segment have {total} bytes, and {} were written", s.bytes));
    }
}

/// A log that the last process left behind, as a memory segment that waits to become a file. `None`: it is empty, or
/// cannot be read and was set aside.
fn replay(dir: &Path, id: u64, damage: &Damage, looked: bool) -> Result<Option<Frozen>, StoreError> {
    let path = log_path(dir, id);
    let (view, wrong) = match Memory::replay(&path) {
        Ok(replayed) => replayed,
        Err(e) if is_damage(&e) => {
            damage.report(&path, &e);
            if !looked {
                let aside = path.with_extension("arrows.unreadable");
                std::fs::rename(&path, &aside).map_err(|e| io("rename", &path, e))?;
            }
            return Ok(None);
        }
        Err(e) => return Err(e),
    };
    if wrong.places > 0 {
        let lost = format!("{} bytes at {} places are damaged and left out", wrong.inside, wrong.places);
        damage.report(&path, &lost);
    }
    if wrong.torn > 0 {
        let torn = format!("its last {} bytes were being written when the process stopped, or are damaged", wrong.torn);
        damage.report(&path, &torn);
    }
    let rows = view.rows();
    if rows == 0 {
        if !looked && wrong.places == 0 {
            std::fs::remove_file(&path).map_err(|e| io("remove", &path, e))?;
        }
        return Ok(None);
    }
    let data_bytes = path.metadata().map_err(|e| io("read", &path, e))?.len();
    let file = Arc::new(File::open(&path).map_err(|e| io("open", &path, e))?);
    Ok(Some(Frozen { view, rows, data_bytes, log_id: id, log: Some((path, file)) }))
}

/// A manifest of every segment that can be opened. Segments that were merged a moment before the manifest was lost are
/// there twice.
fn rebuild(dir: &Path, found: &Found, damage: &Arc<Damage>) -> Manifest {
    let mut manifest = Manifest::new();
    for id in &found.segments {
        let sums = segment::sums_path(dir, *id).exists();
        let paths = [segment::data_path(dir, *id), segment::keys_path(dir, *id), segment::sums_path(dir, *id)];
        let bytes = paths.iter().filter_map(|p| p.metadata().ok()).map(|m| m.len()).sum();
        let blank = Segment { id: *id, rows: 0, first_ns: 0, last_ns: u64::MAX, longest_ns: u64::MAX, bytes, sums };
        match Open::new(dir, &blank, damage.clone()) {
            Ok(open) => manifest.segments.push(open.describe(blank)),
            // It stays listed, so that it is not taken for a leftover and removed.
            Err(e) => {
                damage.report(&paths[0], &e);
                manifest.segments.push(Segment { last_ns: 0, longest_ns: 0, ..blank });
            }
        }
    }
    manifest
}
