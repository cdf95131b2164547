//! Files of the store that are missing or damaged. Each is said once, loudly, and shown in the status; it costs what it
//! held and nothing else.

use crate::StoreError;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Most files that are remembered.
const MAX_FILES: usize = 1000;

/// Damaged files by name, with what is wrong.
#[derive(Default)]
pub(crate) struct Damage(Mutex<BTreeMap<String, String>>);

impl Damage {
    /// Notes that something is wrong with a file. Only the first report of a file is said.
    pub(crate) fn report(&self, file: &Path, what: &dyn Display) {
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() < MAX_FILES && !files.contains_key(&name) {
            tracing::error!("the store is damaged: {}: {what}; everything else can still be read", file.display());
            files.insert(name, what.to_string());
        }
    }

    /// Whether something is wrong with a file.
    pub(crate) fn has(&self, file: &Path) -> bool {
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&*name)
    }

    /// Forgets a file that was removed.
    pub(crate) fn forget(&self, file: &Path) {
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&*name);
    }

    /// A line for each file.
    pub(crate) fn list(&self) -> Vec<String> {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.iter().map(|(file, what)| format!("{file}: {what}")).collect()
    }
}

/// Whether an error means that a file is missing or damaged, and not that the process lacks something (descriptors,
/// memory, permission).
pub(crate) fn is_damage(e: &StoreError) -> bool {
    match e {
        StoreError::Corrupt { .. } => true,
        StoreError::Io { source, .. } => {
            matches!(source.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof | ErrorKind::InvalidData)
                || source.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
        }
        _ => false,
    }
}
