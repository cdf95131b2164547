//! The file of a packet program, which may change while the program runs.

use std::fs::Metadata;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The file of a program, which the user may change.
pub(super) struct ProgramFile<'a> {
    path: &'a Path,
    /// That of the program which runs.
    changed: Option<SystemTime>,
    /// That of the last look.
    last: Option<SystemTime>,
    looked: Instant,
}

impl<'a> ProgramFile<'a> {
    pub(super) fn of(path: &'a Path) -> Self {
        let changed = changed_at(path);
        ProgramFile { path, changed, last: changed, looked: Instant::now() }
    }

    /// Whether there is another program. A file that is just being written is not looked into.
    pub(super) fn was_changed(&mut self) -> bool {
        if self.looked.elapsed() < LOOK_EVERY {
            return false;
        }
        self.looked = Instant::now();
        // An editor may put a new file in its place: for a moment there is none.
        let now = changed_at(self.path).or(self.changed);
        let rests = std::mem::replace(&mut self.last, now) == now;
        rests && std::mem::replace(&mut self.changed, now) != now
    }
}

/// `None` for what is no file, such as a pipe: it cannot be read again.
fn changed_at(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).ok().filter(Metadata::is_file)?.modified().ok()
}
