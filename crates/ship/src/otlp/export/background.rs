//! A thread that exports, and that can be given a deadline at which to stop.

use std::future::Future;
use std::io;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The deadline, once the exporter is closed.
pub(super) type Closing = watch::Receiver<Option<Instant>>;

/// Dropping it ends the thread at once.
pub(super) struct Background {
    close: watch::Sender<Option<Instant>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts a thread that runs this task. Errors: the thread cannot be created.
    pub(super) fn start<F: Future<Output = ()>>(
        name: &str,
        work: impl FnOnce(Closing) -> F + Send + 'static,
    ) -> io::Result<Background> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (close, closing) = watch::channel(None);
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            runtime.block_on(work(closing));
            // Do not wait for blocking work: a look-up of a name may hang for longer than any caller waits.
            runtime.shutdown_background();
        })?;
        Ok(Background { close, thread: Some(thread) })
    }

    /// Lets the task finish, for at most `timeout`.
    pub(super) fn finish(&mut self, timeout: Duration) {
        self.close.send_if_modified(|deadline| {
            let first = deadline.is_none();
            deadline.get_or_insert_with(|| Instant::now() + timeout);
            first
        });
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.finish(Duration::ZERO);
    }
}

/// Returns when the exporter is closed and its deadline has passed.
pub(super) async fn closed(closing: &mut Closing) {
    loop {
        let deadline = *closing.borrow_and_update();
        match deadline {
            Some(deadline) => return tokio::time::sleep_until(deadline).await,
            None if closing.changed().await.is_err() => return,
            None => {}
        }
    }
}
