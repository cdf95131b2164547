//! The files that a machine opens: the library, and the pipe by which it learns that wirespan has ended. Both are
//! written into the root folder of the process, and removed once the machine has opened them.

use super::process::Machine;
use rustix::fd::OwnedFd;
use rustix::fs::{chownat, fchmod, fstat, mknodat, openat, openat2, unlinkat};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Result;
use std::io::Write as _;

/// Folders that are tried, as the process names them.
pub(super) const FOLDERS: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// Opens a folder of a process. No link in it leads out of its root.
pub(super) fn folder(machine: &Machine, path: &str) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(&machine.root, path.trim_start_matches('/'), flags, Mode::empty(), ResolveFlags::IN_ROOT)
}

/// The files in one folder. Dropping it removes them.
pub(super) struct Files {
    folder: OwnedFd,
    path: &'static str,
    name: String,
    /// Held open until the agent is to end.
    pipe: Option<OwnedFd>,
}

impl Files {
    /// Writes both files.
    pub(super) fn write(machine: &Machine, path: &'static str, library: &[u8]) -> std::io::Result<Self> {
        let folder = folder(machine, path)?;
        let name = format!(".wirespan-{}-{}", std::process::id(), machine.pid);
        let (library_name, pipe_name) = (format!("{name}.so"), format!("{name}.pipe"));
        let remove = |name: &str| {
            let _ = unlinkat(&folder, name, AtFlags::empty());
        };
        // Of an earlier run with the same numbers. Nothing but these two names is ever removed.
        remove(&library_name);
        remove(&pipe_name);
        let new = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(&folder, &library_name, new, Mode::from_raw_mode(0o600))?;
        let mut file = std::fs::File::from(file);
        let written = file.write_all(library).and_then(|()| Ok(fchmod(&file, Mode::from_raw_mode(0o555))?));
        let pipe = written.and_then(|()| Ok(make_pipe(&folder, &pipe_name, machine)?));
        match pipe {
            Ok(pipe) => Ok(Files { folder, path, name, pipe: Some(pipe) }),
            Err(error) => {
                remove(&library_name);
                remove(&pipe_name);
                Err(error)
            }
        }
    }

    /// The library, as the process names it.
    pub(super) fn library(&self) -> String {
        format!("{}/{}.so", self.path, self.name)
    }

    /// The pipe, as the process names it.
    pub(super) fn pipe(&self) -> String {
        format!("{}/{}.pipe", self.path, self.name)
    }

    /// Removes the files; the pipe stays open.
    pub(super) fn into_pipe(mut self) -> Option<OwnedFd> {
        self.pipe.take()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for name in [self.library(), self.pipe()] {
            let name = name.rsplit('/').next().unwrap_or_default();
            let _ = unlinkat(&self.folder, name, AtFlags::empty());
        }
    }
}

/// A pipe that only the user of the machine can open to read.
fn make_pipe(folder: &OwnedFd, name: &str, machine: &Machine) -> Result<OwnedFd> {
    mknodat(folder, name, FileType::Fifo, Mode::from_raw_mode(0o400), 0)?;
    // Opened to read and write: a pipe without a reader cannot be opened to write alone.
    let pipe =
        openat(folder, name, OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&pipe)?.st_mode) != FileType::Fifo {
        return Err(rustix::io::Errno::PERM);
    }
    let (uid, gid) = (Uid::from_raw(machine.uid), Gid::from_raw(machine.gid));
    chownat(folder, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(pipe)
}
