//! How this process uses memory: sparingly, because it runs beside the programs that it traces.

use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};
use std::sync::OnceLock;

/// Whether huge pages were disabled for this process when it started.
static HUGE_PAGES_WERE_DISABLED: OnceLock<bool> = OnceLock::new();

/// Saves memory in this process from now on. Transparent huge pages are off: they would double its memory, with no
/// measurable gain. Freed memory goes back to the system after 1 ms, not after 10 ms (100 ms for larger pieces), at no
/// measurable cost.
pub(crate) fn sparing() {
    let _ = HUGE_PAGES_WERE_DISABLED.set(transparent_huge_pages_are_disabled().unwrap_or(false));
    let _ = disable_transparent_huge_pages(true);
    give_back_soon();
}

#[allow(unsafe_code)]
fn give_back_soon() {
    use libmimalloc_sys::{mi_option_get, mi_option_set, mi_option_t};
    // `enum mi_option_e` of mimalloc 2.x; the crate does not name these two. Their default is 10: another value was
    // chosen by the user, or belongs to another option because the enum has changed. It is left alone.
    const PURGE_DELAY: mi_option_t = 15;
    const ARENA_PURGE_MULT: mi_option_t = 24;
    for option in [PURGE_DELAY, ARENA_PURGE_MULT] {
        // SAFETY: both functions read or set one number of the allocator; mimalloc allows that at any time.
        unsafe {
            if mi_option_get(option) == 10 {
                mi_option_set(option, 1);
            }
        }
    }
}

/// Starts a program with the setting of huge pages that this process was started with: a child inherits the setting.
pub(crate) fn spared<T>(start: impl FnOnce() -> T) -> T {
    let Some(before) = HUGE_PAGES_WERE_DISABLED.get() else { return start() };
    let _ = disable_transparent_huge_pages(*before);
    let started = start();
    let _ = disable_transparent_huge_pages(true);
    started
}
