//! The pages of a row group are kept in a file without a name until the whole group is there. In memory, they would
//! take as much room as the uncompressed values for as long as a segment is being written.

use bytes::Bytes;
use parquet::column::page_store::{PageKey, PageStore, PageStoreArgs, PageStoreFactory};
use parquet::errors::{ParquetError, Result};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// The pages of one segment that wait. Clones share one file.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    file: Arc<File>,
    end: Arc<AtomicU64>,
}

impl Waiting {
    /// An empty list. The file lies in this directory.
    pub(crate) fn create(dir: &Path) -> io::Result<Waiting> {
        Ok(Waiting { file: Arc::new(unnamed(dir)?), end: Arc::new(AtomicU64::new(0)) })
    }
}

/// A file in this directory without a name; it is removed when its last reader closes it.
pub(crate) fn unnamed(dir: &Path) -> io::Result<File> {
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(dir, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
        Ok(file) => Ok(file.into()),
        // Not every file system supports such files.
        Err(_) => {
            let path = dir.join("pages.tmp");
            let file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
            std::fs::remove_file(&path)?;
            Ok(file)
        }
    }
}

impl PageStoreFactory for Waiting {
    fn create(&self, _: &PageStoreArgs<'_>) -> Result<Box<dyn PageStore>> {
        Ok(Box::new(Column { waiting: self.clone(), places: Vec::new() }))
    }
}

struct Column {
    waiting: Waiting,
    places: Vec<(u64, usize)>,
}

impl PageStore for Column {
    fn put(&mut self, page: Bytes) -> Result<PageKey> {
        let at = self.waiting.end.fetch_add(page.len() as u64, Ordering::Relaxed);
        self.waiting.file.write_all_at(&page, at).map_err(broken)?;
        self.places.push((at, page.len()));
        Ok(PageKey::new(self.places.len() as u64 - 1))
    }

    fn take(&mut self, key: PageKey) -> Result<Bytes> {
        let place = usize::try_from(key.get()).ok().and_then(|i| self.places.get(i));
        let (at, len) = *place.ok_or_else(|| ParquetError::General(format!("no page {}", key.get())))?;
        let mut page = vec![0; len];
        self.waiting.file.read_exact_at(&mut page, at).map_err(broken)?;
        Ok(page.into())
    }
}

fn broken(e: io::Error) -> ParquetError {
    ParquetError::External(Box::new(e))
}
