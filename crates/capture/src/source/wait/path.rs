//! Paths of files in which threads waited, masked: names that look as if they were a person's are not shown.

use rustc_hash::FxHashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use wirespan_model::Text;

/// Most files whose paths are remembered.
const MOST: usize = 4_096;
/// Longest name of a directory or file that is shown.
const LONGEST_NAME: usize = 40;

/// A file as the kernel knew it when a thread waited in it.
pub(crate) struct FilePath<'a> {
    pub(crate) fd: i32,
    pub(crate) inode: u64,
    /// End of its path, perhaps cut.
    pub(crate) name: &'a str,
}

/// Masked paths of files, by process and inode.
#[derive(Default)]
pub(crate) struct Paths {
    known: FxHashMap<(u32, u64), Text>,
}

impl Paths {
    /// The path of a file, if its process still has it open; else the end of its path.
    pub(crate) fn find(&mut self, pid: u32, file: &FilePath<'_>) -> Text {
        if let Some(known) = self.known.get(&(pid, file.inode)) {
            return known.clone();
        }
        let link = format!("/proc/{pid}/fd/{}", file.fd);
        let is_same = std::fs::metadata(&link).is_ok_and(|m| m.ino() == file.inode);
        let Some(path) = std::fs::read_link(&link).ok().filter(|_| is_same) else { return masked(file.name) };
        let path = masked(&Path::new(&path).to_string_lossy());
        if self.known.len() >= MOST {
            self.known.clear();
        }
        self.known.insert((pid, file.inode), path.clone());
        path
    }
}

/// A path in which names with digits, with other characters than those of programs, and names of people's directories
/// are `*`.
fn masked(path: &str) -> Text {
    let mut out = String::with_capacity(path.len());
    let mut before = "";
    for (at, name) in path.trim_end_matches(" (deleted)").split('/').enumerate() {
        if at > 0 {
            out.push('/');
        }
        let plain = |c: char| c.is_ascii_alphabetic() || matches!(c, '.' | '-' | '_');
        let hidden = matches!(before, "home" | "Users") || name.len() > LONGEST_NAME || !name.chars().all(plain);
        out.push_str(if hidden { "*" } else { name });
        before = name;
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_programs_stay_and_names_of_people_go() {
        for (path, shown) in [
            ("/var/log/app.log", "/var/log/app.log"),
            ("/home/alice/notes.txt", "/home/*/notes.txt"),
            ("/data/base/16384/2619", "/data/base/*/*"),
            ("/uploads/alice@example.org", "/uploads/*"),
            ("/tmp/app.log (deleted)", "/tmp/app.log"),
            ("orders.ibd", "orders.ibd"),
        ] {
            assert_eq!(masked(path), shown, "{path}");
        }
    }

    #[test]
    fn a_file_that_is_closed_is_known_by_its_name() {
        let file = FilePath { fd: 12_345, inode: 1, name: "app.log" };
        assert_eq!(Paths::default().find(std::process::id(), &file), "app.log");
    }
}
