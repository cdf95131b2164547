//! How this process uses memory: little that it does not need, because it runs beside what it watches.

use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};
use std::sync::OnceLock;

/// As it was when we were started.
static HUGE_PAGES_WERE_DISABLED: OnceLock<bool> = OnceLock::new();

/// For this process, from now on: no transparent huge pages, which would double its memory for nothing that could be
/// measured; and what is freed goes back to the system after a millisecond, not after ten (a hundred for larger
/// pieces), which costs nothing that could be measured either.
pub(crate) fn sparing() {
    let _ = HUGE_PAGES_WERE_DISABLED.set(transparent_huge_pages_are_disabled().unwrap_or(false));
    let _ = disable_transparent_huge_pages(true);
    give_back_soon();
}

#[allow(unsafe_code)]
fn give_back_soon() {
    use libmimalloc_sys::{mi_option_get, mi_option_set, mi_option_t};
    // `enum mi_option_e` of mimalloc 2.x; the crate does not name these two. Both are 10 unless somebody chose
    // otherwise (or the numbers became others).
    const PURGE_DELAY: mi_option_t = 15;
    const ARENA_PURGE_MULT: mi_option_t = 24;
    for option in [PURGE_DELAY, ARENA_PURGE_MULT] {
        // SAFETY: these read and set a number of the allocator, which may be done at any time.
        unsafe {
            if mi_option_get(option) == 10 {
                mi_option_set(option, 1);
            }
        }
    }
}

/// Starts something that is not to inherit what was forbidden: it runs as it would without us.
pub(crate) fn spared<T>(start: impl FnOnce() -> T) -> T {
    let Some(before) = HUGE_PAGES_WERE_DISABLED.get() else { return start() };
    let _ = disable_transparent_huge_pages(*before);
    let started = start();
    let _ = disable_transparent_huge_pages(true);
    started
}
