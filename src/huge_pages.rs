//! Transparent huge pages would double the memory of the agent, for nothing that could be measured.

use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};
use std::sync::OnceLock;

/// As it was when we were started.
static WERE_DISABLED: OnceLock<bool> = OnceLock::new();

/// For this process, from now on.
pub(crate) fn do_without() {
    let _ = WERE_DISABLED.set(transparent_huge_pages_are_disabled().unwrap_or(false));
    let _ = disable_transparent_huge_pages(true);
}

/// Starts something that is not to inherit this: it runs as it would without us.
pub(crate) fn spared<T>(start: impl FnOnce() -> T) -> T {
    let Some(before) = WERE_DISABLED.get() else { return start() };
    let _ = disable_transparent_huge_pages(*before);
    let started = start();
    let _ = disable_transparent_huge_pages(true);
    started
}
