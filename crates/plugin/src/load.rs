//! A file → a plug-in.

use crate::instance::{engine, Instance};
use crate::limits::{Limits, MAX_MODULE};
use crate::protocol::Plugin;
use std::path::{Path, PathBuf};
use wasmi::Module;
use wirespan_decode::REGISTRY;

/// The user's settings of a plug-in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The module: WebAssembly, binary or as text.
    pub path: PathBuf,
    /// Name of the protocol; empty takes the file's name.
    pub name: String,
    /// Ports of servers; if there are any, it is asked about connections to these only.
    pub ports: Vec<u16>,
    /// Its limits.
    pub limits: Limits,
}

/// Why a plug-in cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("plug-in {path}: {source}")]
    File {
        /// Of the module.
        path: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The module does not meet the interface.
    #[error("plug-in {path}: {why}")]
    Unfit {
        /// Of the module.
        path: String,
        /// In words.
        why: String,
    },
}

impl Plugin {
    /// Reads, checks and starts a module.
    pub fn load(settings: &Settings) -> Result<Plugin, LoadError> {
        let path = settings.path.display().to_string();
        let unfit = |why: String| LoadError::Unfit { path: path.clone(), why };
        let name = name(settings).map_err(&unfit)?;
        let bytes = read(&settings.path).map_err(|source| LoadError::File { path: path.clone(), source })?;
        let engine = engine();
        let module = Module::new(&engine, &bytes).map_err(|e| unfit(format!("no WebAssembly module: {e}")))?;
        let started = Instance::start(&engine, &module, settings.limits);
        let instance = started.map_err(|e| unfit(format!("{e}; docs/plugins.md says what a plug-in exports")))?;
        Ok(Plugin::new(name, path, settings, engine, module, instance))
    }
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let size = std::fs::metadata(path)?.len();
    if size > MAX_MODULE {
        return Err(std::io::Error::other(format!("{size} bytes: a module may have {MAX_MODULE}")));
    }
    std::fs::read(path)
}

fn name(settings: &Settings) -> Result<String, String> {
    let of_file = || settings.path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let name = if settings.name.is_empty() { of_file() } else { settings.name.clone() };
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-');
    if name.is_empty() || name.len() > 32 || !name.bytes().all(fits) {
        return Err(format!("name `{name}`: 1 to 32 lower-case letters, digits, `_` and `-`"));
    }
    if REGISTRY.iter().any(|p| p.name() == name) {
        return Err(format!("name `{name}` is a built-in protocol's"));
    }
    Ok(name)
}
