//! The files that a process has mapped.

use super::plan::Mapped;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Identity of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
    /// Tells a file from a later one that got the same inode number. The change time (ctime) would not do: it changes
    /// when a file is unlinked, and the file is still the same.
    modified_ns: i128,
    size: u64,
}

impl FileId {
    /// Identity of the file at this path; symbolic links are followed.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        FileId::by(&fs::metadata(path).ok()?)
    }

    fn by(m: &fs::Metadata) -> Option<Self> {
        let modified_ns = i128::from(m.mtime()) * 1_000_000_000 + i128::from(m.mtime_nsec());
        m.is_file().then(|| FileId { device: m.dev(), inode: m.ino(), modified_ns, size: m.size() })
    }

    /// Opens this file at its path; `None` if it cannot be opened, or another file is there by now: paths below
    /// `/proc/PID` go when the process ends or becomes another program. Then nothing is known of the file.
    pub(crate) fn open(self, path: &Path) -> Option<fs::File> {
        let file = fs::File::open(path).ok()?;
        (FileId::by(&file.metadata().ok()?) == Some(self)).then_some(file)
    }
}

/// An executable mapping of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// A path in `/proc/PID/map_files`. It leads to the mapped file itself, also from another mount namespace and after
    /// the file was replaced or deleted.
    pub(crate) file: PathBuf,
    /// Where the mapping begins in memory, and in the file.
    pub(crate) start: u64,
    pub(crate) offset: u64,
    /// The name of the file as the process sees it, without ` (deleted)`.
    pub(crate) name: String,
}

/// Executable mappings of a process, each file once; `None` if the process is gone.
pub(crate) fn executable(pid: u32) -> Option<Vec<Mapping>> {
    let text = fs::read(format!("/proc/{pid}/maps")).ok()?;
    Some(parse(pid, &String::from_utf8_lossy(&text)))
}

/// The files of which a process has mapped code, and where; `None` if the process is gone.
pub(super) fn code(pid: u32) -> Option<Vec<(FileId, PathBuf, Mapped)>> {
    let place = |m: Mapping| {
        let mapped = Mapped { start: m.start, offset: m.offset };
        FileId::of(&m.file).map(|id| (id, m.file, mapped))
    };
    Some(executable(pid)?.into_iter().filter_map(place).collect())
}

fn parse(pid: u32, text: &str) -> Vec<Mapping> {
    let mut found: Vec<Mapping> = Vec::new();
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace();
        let (Some(range), Some(mode), Some(offset)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let Some(at) = line.find('/').filter(|_| mode.as_bytes().get(2) == Some(&b'x')) else { continue };
        let name = line[at..].trim_end_matches(" (deleted)");
        // `maps` pads the numbers with zeros, `map_files` does not.
        let Some((from, to)) = range.split_once('-') else { continue };
        let (from, to) = (from.trim_start_matches('0'), to.trim_start_matches('0'));
        if found.last().is_none_or(|m| m.name != name) {
            let number = |hex| u64::from_str_radix(hex, 16).unwrap_or(0);
            found.push(Mapping {
                file: format!("/proc/{pid}/map_files/{from}-{to}").into(),
                start: number(from),
                offset: number(offset),
                name: name.to_string(),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_mappings_with_their_files() {
        let text = "7f0000000000-7f0000001000 r--p 00000000 fd:00 12 /usr/lib/libssl.so.3\n\
                    7f0000001000-7f0000002000 r-xp 00001000 fd:00 12 /usr/lib/libssl.so.3 (deleted)\n\
                    7f0000003000-7f0000004000 r-xp 00000000 00:00 0 [vdso]\n\
                    7f0000005000-7f0000006000 rw-p 00000000 00:00 0\n\
                    00b6f000-00b71000 r-xp 0076f000 fe:00 24 /usr/bin/node\n";
        let mapping =
            |file: &str, start, offset, name: &str| Mapping { file: file.into(), start, offset, name: name.into() };
        let library =
            mapping("/proc/7/map_files/7f0000001000-7f0000002000", 0x7f0000001000, 0x1000, "/usr/lib/libssl.so.3");
        assert_eq!(
            parse(7, text),
            [library, mapping("/proc/7/map_files/b6f000-b71000", 0xb6f000, 0x76f000, "/usr/bin/node")]
        );
    }

    #[test]
    fn a_file_is_opened_only_as_long_as_it_is_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        fs::write(&one, "one").expect("written");
        fs::write(&other, "other").expect("written");
        let id = FileId::of(&one).expect("a file");
        assert!(id.open(&one).is_some() && id.open(&other).is_none());
        fs::rename(&other, &one).expect("renamed");
        assert!(id.open(&one).is_none(), "another file is there");
        fs::remove_file(&one).expect("removed");
        assert!(id.open(&one).is_none());
    }

    #[test]
    fn the_test_itself_has_itself_mapped() {
        let mapped = executable(std::process::id()).expect("this process lives");
        let exe = FileId::of(Path::new("/proc/self/exe"));
        assert!(mapped.iter().any(|m| FileId::of(&m.file) == exe), "{mapped:?}");
        assert_eq!(executable(u32::MAX), None);
    }
}
