//! The store of a pipeline: opening it, and what it could not take.

use crate::config::{store_options, Config, OutputArgs};
use anyhow::{Context as _, Result};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use wirespan_store::{Embedded, Store, StoreError, StoreStatus};

/// Failures of the store to take spans.
#[derive(Default)]
pub(super) struct Failures {
    /// Lost: nobody else has them.
    pub(super) spans: u64,
    pub(super) flows: u64,
    /// Their senders were told to keep them.
    pub(super) deferred: u64,
}

impl Failures {
    /// The counters of the store, with these.
    pub(super) fn counters(&self, status: StoreStatus) -> Vec<(String, u64)> {
        let own = [
            ("spans", status.spans),
            ("disk_bytes", status.disk_bytes),
            ("memory_bytes", status.memory_bytes),
            ("spans_dropped", self.spans),
            ("flows_dropped", self.flows),
            ("deferred", self.deferred),
            ("damaged_files", status.damaged.len() as u64),
        ];
        let dropped = status.dropped.into_iter().map(|(reason, n)| (format!("dropped_{reason}"), n));
        own.into_iter().map(|(name, n)| (name.to_string(), n)).chain(dropped).collect()
    }
}

/// MiB of memory that a store without a directory may take.
fn memory_mib(args: &OutputArgs, config: &Config) -> u64 {
    args.memory_mib.unwrap_or(config.store.memory_mib)
}

/// Opens the store: in memory, or in the directory given. `patience`: how long it may wait for its own files before it
/// refuses spans.
pub(crate) fn open_store(args: &OutputArgs, config: &Config, patience: Duration) -> Result<Arc<dyn Store>> {
    let dir = args.store.as_deref().unwrap_or(&config.store.dir);
    let options = wirespan_store::Options { patience, ..store_options(config) };
    Ok(if dir == Path::new("") {
        let mib = memory_mib(args, config);
        eprintln!(
            "wirespan: spans are kept in {mib} MiB of memory, the oldest go first; --store DIR keeps them on disk, \
             --memory-mib N sets the room"
        );
        Arc::new(Embedded::memory(wirespan_store::Options { max_bytes: mib << 20, ..options })?)
    } else {
        Arc::new(Embedded::open(dir, options).with_context(|| format!("store {}", dir.display()))?)
    })
}

/// As [`open_store`], for a server: a directory that cannot be written is only looked at.
pub(crate) fn open_or_look(args: &OutputArgs, config: &Config) -> Result<Arc<dyn Store>> {
    // A sender that is told to wait keeps its spans. One that waits here keeps all others waiting, too.
    let opened = open_store(args, config, Duration::ZERO);
    let read_only = |e: &anyhow::Error| match e.downcast_ref() {
        Some(StoreError::Io { source, .. }) => {
            matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
        }
        _ => false,
    };
    match opened {
        Err(error) if read_only(&error) => {
            let dir = args.store.as_deref().unwrap_or(&config.store.dir);
            let looked = Embedded::look(dir).with_context(|| format!("store {}", dir.display()))?;
            eprintln!("wirespan: {} cannot be written: its spans are shown, and no span is taken", dir.display());
            Ok(Arc::new(looked))
        }
        opened => opened,
    }
}
