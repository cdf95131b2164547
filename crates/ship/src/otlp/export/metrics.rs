//! Exports metrics to a collector at intervals. The values are counts since the start, so the next export makes up for
//! a lost one: no export is queued, and a repetition is given up when newer values are due.

use super::background::{closed, Background, Closing};
use super::client::{Client, Failure};
use super::{rejected, ExportConfig, LAST_BACKOFF};
use crate::metrics::Writer;
use crate::otlp::metrics::Encoder;
use crate::{lock, now_ns};
use hyper::body::Bytes;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// Counts since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricsStatus {
    /// Points that the collector took.
    pub points: u64,
    /// Points that it did not take.
    pub dropped: u64,
    /// Requests repeated.
    pub retries: u64,
    /// The last error, if the last request failed.
    pub error: Option<String>,
}

/// Exports from a thread of its own.
pub struct MetricsExporter {
    status: Arc<Mutex<MetricsStatus>>,
    background: Background,
}

impl MetricsExporter {
    /// Starts the thread, which calls `source` for the values at each interval. `host` may be empty. Errors: the thread
    /// cannot be created. An absent collector is not an error.
    pub fn start(
        config: ExportConfig,
        interval: Duration,
        host: &str,
        source: impl Fn(&mut Writer) + Send + 'static,
    ) -> std::io::Result<MetricsExporter> {
        let status = Arc::new(Mutex::new(MetricsStatus::default()));
        let (client, first_backoff) = (Client::new(&config), config.first_backoff);
        let (encoder, told) = (Encoder::new("wirespan", host, now_ns()), status.clone());
        let background = Background::start("otlp-metrics", move |closing| {
            Worker { client, first_backoff, encoder, source, status: told, closing }.run(interval)
        })?;
        Ok(MetricsExporter { status, background })
    }

    /// State and counts.
    pub fn status(&self) -> MetricsStatus {
        lock(&self.status).clone()
    }

    /// Exports the last values, for at most `timeout`; returns the final counts.
    pub fn close(mut self, timeout: Duration) -> MetricsStatus {
        self.background.finish(timeout);
        self.status()
    }
}

struct Worker<S> {
    client: Client,
    first_backoff: Duration,
    encoder: Encoder,
    source: S,
    status: Arc<Mutex<MetricsStatus>>,
    closing: Closing,
}

impl<S: Fn(&mut Writer)> Worker<S> {
    async fn run(mut self, interval: Duration) {
        let mut due = Instant::now() + interval;
        loop {
            let mut closing = self.closing.clone();
            tokio::select! {
                () = tokio::time::sleep_until(due) => {}
                // The other end is only gone when this thread is no longer waited for.
                _ = closing.wait_for(Option::is_some) => {}
            }
            let deadline = *self.closing.borrow();
            due = (due + interval).max(Instant::now());
            self.export(deadline.unwrap_or(due)).await;
            if deadline.is_some() {
                return;
            }
        }
    }

    /// Exports the current values, for at most this long.
    async fn export(&mut self, until: Instant) {
        let mut written = Writer::default();
        (self.source)(&mut written);
        for (request, points) in self.encoder.encode(&written, now_ns()) {
            let body = self.client.encode(&request);
            drop(request);
            let taken = self.deliver(body, points as u64, until).await;
            let mut status = lock(&self.status);
            status.points += taken;
            status.dropped += points as u64 - taken;
        }
    }

    /// Points that the collector took.
    async fn deliver(&mut self, body: Bytes, points: u64, until: Instant) -> u64 {
        let mut backoff = self.first_backoff;
        loop {
            let outcome = tokio::select! {
                outcome = self.client.call(body.clone()) => outcome,
                () = closed(&mut self.closing) => return 0,
            };
            let Failure { what, retry_after, retryable } = match outcome {
                Ok(partial) => {
                    let (rejected, why) = rejected(partial, points);
                    lock(&self.status).error = why;
                    return points - rejected;
                }
                Err(failure) => failure,
            };
            lock(&self.status).error = Some(what);
            let again = Instant::now() + retry_after.unwrap_or(backoff);
            if !retryable || again > until {
                return 0;
            }
            let mut closing = self.closing.clone();
            let first_close = closing.borrow().is_none();
            tokio::select! {
                () = tokio::time::sleep_until(again) => {}
                // The last numbers are newer.
                _ = closing.wait_for(Option::is_some), if first_close => return 0,
            }
            backoff = (backoff * 2).min(LAST_BACKOFF);
            lock(&self.status).retries += 1;
        }
    }
}
