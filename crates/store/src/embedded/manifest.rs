//! The list of the files that belong to the store: one small JSON file, replaced as a whole.

use super::segment::Segment;
use crate::StoreError;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

/// Version of the format of all files of the directory.
const FORMAT: u32 = 3;

/// The parts of the store. A file that is not listed is left over from a crash, and is removed at the next start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Manifest {
    format: u32,
    /// Next number for a segment or log.
    pub(crate) next: u64,
    /// Logs below this number are in segments.
    pub(crate) first_log: u64,
    /// Segments, in no order.
    pub(crate) segments: Vec<Segment>,
    /// Length of the file, bytes.
    #[serde(skip)]
    pub(crate) bytes: u64,
}

impl Manifest {
    /// The manifest of a store without any file.
    pub(crate) fn new() -> Manifest {
        Manifest { format: FORMAT, next: 1, ..Manifest::default() }
    }

    /// Reads the manifest of a directory. `Ok(Err(why))`: it is missing or damaged.
    pub(crate) fn load(dir: &Path) -> Result<Result<Manifest, String>, StoreError> {
        let path = dir.join("manifest.json");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Err("it is missing".into())),
            Err(e) if e.kind() == std::io::ErrorKind::InvalidData => return Ok(Err(e.to_string())),
            Err(e) => return Err(super::io("read", &path, e)),
        };
        // Check the version first: a newer manifest may have other members.
        let value: serde_json::Value = match serde_json::from_str(&text) {
            Ok(value) => value,
            Err(e) => return Ok(Err(e.to_string())),
        };
        match value.get("format").and_then(serde_json::Value::as_u64) {
            Some(f) if f == u64::from(FORMAT) => {}
            Some(f) => {
                return Err(super::corrupt(
                    &path,
                    format!(
                        "format {f}, and this wirespan reads only {FORMAT}; use the version that wrote it, or \
                        another directory"
                    ),
                ));
            }
            None => return Ok(Err("no format version".into())),
        }
        let manifest: Result<Manifest, _> = serde_json::from_value(value);
        Ok(manifest.map(|m| Manifest { bytes: text.len() as u64, ..m }).map_err(|e| e.to_string()))
    }

    /// Replaces the manifest of a directory; durable when this returns.
    pub(crate) fn save(&mut self, dir: &Path) -> Result<(), StoreError> {
        let (path, tmp) = (dir.join("manifest.json"), dir.join("manifest.json.tmp"));
        let text = serde_json::to_vec(self).map_err(|e| super::corrupt(&path, e))?;
        let mut file = File::create(&tmp).map_err(|e| super::io("create", &tmp, e))?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(|e| super::io("write", &tmp, e))?;
        std::fs::rename(&tmp, &path).map_err(|e| super::io("rename", &tmp, e))?;
        self.bytes = text.len() as u64;
        sync_dir(dir)
    }
}

/// Makes renames in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    File::open(dir).and_then(|d| d.sync_all()).map_err(|e| super::io("sync", dir, e))
}

/// A forked child of the last writer holds the lock until it executes its own program, at most this long.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

fn try_lock(file: &File, how: FlockOperation) -> rustix::io::Result<()> {
    for _ in 0..LOCK_TRIES {
        match rustix::fs::flock(file, how) {
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(LOCK_PAUSE),
            other => return other,
        }
    }
    Err(rustix::io::Errno::WOULDBLOCK)
}

/// Locks the directory against writers, for a process that only reads. `None`: there is no lock file.
pub(crate) fn lock_to_look(dir: &Path) -> Result<Option<File>, StoreError> {
    let path = dir.join("lock");
    match File::open(&path) {
        Ok(mut file) => held(&mut file, FlockOperation::NonBlockingLockShared, &path).map(|()| Some(file)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(super::io("open", &path, e)),
    }
}

/// Locks the directory for this process. The lock is released with the returned file.
pub(crate) fn lock(dir: &Path) -> Result<File, StoreError> {
    let path = dir.join("lock");
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|e| super::io("open", &path, e))?;
    held(&mut file, FlockOperation::NonBlockingLockExclusive, &path)?;
    // The number is only for the message of another process.
    let _ = file.set_len(0);
    let _ = write!(file, "{}", std::process::id());
    Ok(file)
}

/// Takes the lock. Errors: another process has it, and which.
fn held(file: &mut File, how: FlockOperation, path: &Path) -> Result<(), StoreError> {
    if let Err(e) = try_lock(file, how) {
        if e != rustix::io::Errno::WOULDBLOCK {
            return Err(super::io("lock", path, e.into()));
        }
        let mut owner = String::new();
        let _ = file.read_to_string(&mut owner);
        let source = std::io::Error::new(
            std::io::ErrorKind::ResourceBusy,
            format!("process {} is writing to this store; stop it or use another directory", owner.trim()),
        );
        return Err(super::io("lock", path, source));
    }
    Ok(())
}
