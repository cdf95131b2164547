//! Programs that the kernel refused after the start. The table of features was made before, so they are told as notes.

use crate::features::{self, Program};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Sentences by program, shared by all who load programs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refused(Arc<Mutex<BTreeMap<&'static str, String>>>);

impl Refused {
    /// The kernel has refused this program.
    pub(crate) fn add(&self, name: &str, error: &io::Error) {
        let Some(&Program { name, feature, lost, .. }) = features::programs().find(|program| program.name == name)
        else {
            return tracing::warn!(program = name, %error, "the kernel refused it");
        };
        tracing::warn!(program = name, %error, feature, lost, "the kernel refused it");
        let note = format!("{feature}: {lost} (the kernel refused {name}: {error}; wirespan check says more)");
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name, note);
    }

    /// What is lost, a sentence for each program.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}
