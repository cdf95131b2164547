//! Detaches uprobes in the background.
//!
//! The kernel returns from detaching only when no processor runs the program any more, on a busy machine after up to a
//! second. A thread of its own does this, so that new processes need not wait. It closes many links at once, each in a
//! thread, because such waits overlap.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Links that are closed at the same time.
const AT_ONCE: usize = 64;

#[derive(Default)]
struct Waiting {
    links: Vec<OwnedFd>,
    stop: bool,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    more: Condvar,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes links in the background. Dropping it waits until all are closed.
pub(crate) struct Detacher {
    shared: Arc<Shared>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Detacher {
    pub(crate) fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("tls-detach".into()).spawn(move || run(&theirs))?;
        Ok(Detacher { shared, thread: Some(thread) })
    }

    /// Closes these links later.
    pub(crate) fn close(&self, links: Vec<OwnedFd>) {
        if !links.is_empty() {
            self.shared.waiting().links.extend(links);
            self.shared.more.notify_one();
        }
    }
}

impl Drop for Detacher {
    fn drop(&mut self) {
        self.shared.waiting().stop = true;
        self.shared.more.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared) {
    loop {
        let mut waiting = shared.waiting();
        while waiting.links.is_empty() && !waiting.stop {
            waiting = shared.more.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        let mut links = std::mem::take(&mut waiting.links);
        drop(waiting);
        if links.is_empty() {
            return;
        }
        while !links.is_empty() {
            let some = links.split_off(links.len().saturating_sub(AT_ONCE));
            std::thread::scope(|scope| {
                for link in some {
                    scope.spawn(move || drop(link));
                }
            });
        }
    }
}
