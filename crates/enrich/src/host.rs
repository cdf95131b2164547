//! The host: its name, and an id that makes numbers of its kernel (socket cookies, exchange ids) unique over hosts.

use std::fs;
use std::path::{Path, PathBuf};
use wirespan_model::key::hash64;

/// Directories from which facts about processes and the host are read. Tests use directories of their own.
#[derive(Clone, Debug)]
pub struct Roots {
    /// The proc file system of the root pid namespace (`/proc`, or `/host/proc` inside a container).
    pub proc: PathBuf,
    /// The directory with `machine-id` (`/etc`).
    pub etc: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Roots { proc: "/proc".into(), etc: "/etc".into() }
    }
}

/// Facts of the host, read once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// `host.name`.
    pub name: Box<str>,
    /// Hash of machine id and boot id; never 0. Socket cookies start anew at each boot, and so does this id.
    pub boot_hash: u64,
    /// Hash of the machine id alone, 16 hex digits (`host.id`); machine-id(5) asks not to publish the id itself.
    pub stable_id: Box<str>,
}

impl Host {
    /// Reads host name, machine id and boot id. A missing one is left out of the hash.
    pub fn read(roots: &Roots) -> Host {
        let name = trimmed(&roots.proc.join("sys/kernel/hostname")).unwrap_or_else(|| "unknown".into());
        let machine = trimmed(&roots.etc.join("machine-id")).unwrap_or_default();
        let boot = trimmed(&roots.proc.join("sys/kernel/random/boot_id")).unwrap_or_default();
        // Machine images are cloned with their machine id. The host name tells such hosts apart.
        let stable = hash64(&[b"host", machine.as_bytes(), name.as_bytes()]);
        let boot_hash = hash64(&[b"boot", machine.as_bytes(), name.as_bytes(), boot.as_bytes()]).max(1);
        Host { name, boot_hash, stable_id: format!("{stable:016x}").into() }
    }
}

fn trimmed(path: &Path) -> Option<Box<str>> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.into())
}
