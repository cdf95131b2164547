//! OTLP export to any collector: batches, a bounded queue, repetition with back-off, and a count for every span that
//! did not arrive.
//!
//! The exporter repeats a request after a failure to connect, a timeout, or an answer that the specification calls
//! retryable (HTTP 429, 502, 503, 504; the gRPC codes of its table). It waits for the time that the collector asks for
//! (`Retry-After`, `RetryInfo`), or with exponential back-off. After any other failure it drops the batch.

mod background;
mod client;
mod config;
mod metrics;

pub use config::{parse_headers, parse_protocol, ConfigError, ExportConfig, Protocol, Signal};
pub use metrics::{MetricsExporter, MetricsStatus};

use super::encode::{encode_items, key_value, Item};
use super::{instance_id, INSTANCE_KEY};
use crate::lock;
use background::{closed, Background, Closing};
use client::{Client, Failure};
use prost::Message;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use wirespan_model::{Span, Trace};

/// How often the collector is looked for while there is nothing to send.
const PROBE_EVERY: Duration = Duration::from_secs(5);
const LAST_BACKOFF: Duration = Duration::from_secs(30);
/// Collectors take gRPC messages of up to 4 MiB; bigger batches are split.
const MAX_MESSAGE: usize = 3 << 20;

/// Counts since the start: `offered = exported + dropped + queued`, batch under way included in `queued`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportStatus {
    /// Spans given to the exporter.
    pub offered: u64,
    /// Spans that the collector took.
    pub exported: u64,
    /// Spans waiting.
    pub queued: u64,
    /// Requests repeated.
    pub retries: u64,
    /// Spans lost, by reason: `queue_full`, `rejected`, `partial_success`, `retries_exhausted`, `closed`.
    pub dropped: BTreeMap<&'static str, u64>,
    /// The last error, if the last request failed, or if no connection could be made yet.
    pub error: Option<String>,
    /// Whether the collector was ever reached.
    pub reached: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    arrived: Notify,
    offered: AtomicU64,
    exported: AtomicU64,
    retries: AtomicU64,
    outcome: Mutex<Outcome>,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    since: Option<Instant>,
    under_way: usize,
}

#[derive(Default)]
struct Outcome {
    dropped: BTreeMap<&'static str, u64>,
    error: Option<String>,
    reached: bool,
}

/// Exports from a thread of its own.
pub struct Exporter {
    shared: Arc<Shared>,
    queue_spans: usize,
    background: Background,
}

impl Exporter {
    /// Starts the thread. Errors: the thread cannot be created. An absent collector is not an error.
    pub fn start(config: ExportConfig) -> std::io::Result<Exporter> {
        let shared = Arc::new(Shared::default());
        let (queue_spans, client, worked) = (config.queue_spans, Client::new(&config), shared.clone());
        let background =
            Background::start("otlp-out", move |closing| Worker { client, config, shared: worked, closing }.run())?;
        Ok(Exporter { shared, queue_spans, background })
    }

    /// Takes an assembled trace; never blocks. Spans without room in the queue are dropped and counted.
    pub fn send(&self, trace: &Trace) {
        self.push(trace.spans.len(), Item::of_trace(trace));
    }

    /// Takes spans without assembly (see [`encode_spans`](super::encode_spans)); never blocks.
    pub fn send_spans(&self, spans: &[Arc<Span>]) {
        self.push(spans.len(), spans.iter().map(Item::of_span));
    }

    fn push(&self, n: usize, items: impl Iterator<Item = Item>) {
        if n == 0 {
            return;
        }
        self.shared.offered.fetch_add(n as u64, Relaxed);
        let mut queue = lock(&self.shared.queue);
        if queue.items.len() + queue.under_way + n > self.queue_spans {
            drop(queue);
            return self.shared.lose("queue_full", n as u64);
        }
        queue.items.extend(items);
        queue.since.get_or_insert_with(Instant::now);
        drop(queue);
        self.shared.arrived.notify_one();
    }

    /// The state and the counters.
    pub fn status(&self) -> ExportStatus {
        let queue = lock(&self.shared.queue);
        let outcome = lock(&self.shared.outcome);
        ExportStatus {
            offered: self.shared.offered.load(Relaxed),
            exported: self.shared.exported.load(Relaxed),
            queued: (queue.items.len() + queue.under_way) as u64,
            retries: self.shared.retries.load(Relaxed),
            dropped: outcome.dropped.clone(),
            error: outcome.error.clone(),
            reached: outcome.reached,
        }
    }

    /// Exports the queued spans, for at most `timeout`; returns the final counts.
    pub fn close(mut self, timeout: Duration) -> ExportStatus {
        self.background.finish(timeout);
        self.status()
    }
}

impl Shared {
    fn lose(&self, reason: &'static str, n: u64) {
        if n > 0 {
            *lock(&self.outcome).dropped.entry(reason).or_default() += n;
        }
    }
}

struct Worker {
    config: ExportConfig,
    client: Client,
    shared: Arc<Shared>,
    closing: Closing,
}

impl Worker {
    async fn run(mut self) {
        let mut closing = self.closing.clone();
        tokio::select! {
            () = self.probe() => {}
            _ = closing.changed() => {}
        }
        while let Some(batch) = self.next_batch().await {
            let n = batch.len();
            self.export(&batch).await;
            lock(&self.shared.queue).under_way -= n;
        }
        let mut queue = lock(&self.shared.queue);
        let left = queue.items.len() as u64;
        queue.items.clear();
        drop(queue);
        self.shared.lose("closed", left);
    }

    /// Tries to connect before there is anything to send, so that a collector that is not there is known at once.
    async fn probe(&self) {
        let reached = self.client.probe().await;
        let mut outcome = lock(&self.shared.outcome);
        outcome.reached |= reached.is_ok();
        outcome.error = reached.err();
    }

    /// The next batch, when it is full or has waited long enough. `None` if the exporter is closed and the queue is
    /// empty, or if the deadline has passed.
    async fn next_batch(&mut self) -> Option<Vec<Item>> {
        loop {
            let deadline = *self.closing.borrow_and_update();
            if deadline.is_some_and(|d| d <= Instant::now()) {
                return None;
            }
            let wake_at = {
                let mut queue = lock(&self.shared.queue);
                let due = queue.since.map(|t| t + self.config.batch_wait);
                let full = queue.items.len() >= self.config.batch_spans;
                if full || deadline.is_some() || due.is_some_and(|d| d <= Instant::now()) {
                    let n = queue.items.len().min(self.config.batch_spans.max(1));
                    let batch: Vec<Item> = queue.items.drain(..n).collect();
                    queue.since = (!queue.items.is_empty()).then(Instant::now);
                    queue.under_way = n;
                    if n > 0 {
                        return Some(batch);
                    }
                    if deadline.is_some() {
                        return None;
                    }
                }
                due.unwrap_or_else(|| Instant::now() + PROBE_EVERY)
            };
            if lock(&self.shared.queue).items.is_empty() && lock(&self.shared.outcome).error.is_some() {
                let mut closing = self.closing.clone();
                tokio::select! {
                    () = self.probe() => {}
                    _ = closing.changed() => continue,
                }
            }
            tokio::select! {
                () = self.shared.arrived.notified() => {}
                () = tokio::time::sleep_until(wake_at) => {}
                _ = self.closing.changed() => {}
            }
        }
    }

    async fn export(&mut self, batch: &[Item]) {
        let mut todo = vec![batch];
        while let Some(part) = todo.pop() {
            let mut request = encode_items(part);
            for group in &mut request.resource_spans {
                let resource = group.resource.get_or_insert_default();
                resource.attributes.push(key_value(INSTANCE_KEY, instance_id()));
            }
            if part.len() > 1 && request.encoded_len() > MAX_MESSAGE {
                let (a, b) = part.split_at(part.len() / 2);
                todo.extend([b, a]);
                continue;
            }
            let body = self.client.encode(&request);
            drop(request);
            self.deliver(body, part.len() as u64).await;
        }
    }

    async fn deliver(&mut self, body: hyper::body::Bytes, n: u64) {
        let started = Instant::now();
        let mut backoff = self.config.first_backoff;
        loop {
            let call = self.client.call(body.clone());
            let failure = tokio::select! {
                outcome = call => match outcome {
                    Ok(partial) => return self.delivered(n, partial),
                    Err(failure) => failure,
                },
                () = closed(&mut self.closing) => return self.shared.lose("closed", n),
            };
            let Failure { what, retry_after, retryable } = failure;
            lock(&self.shared.outcome).error = Some(what);
            if !retryable {
                return self.shared.lose("rejected", n);
            }
            let jitter = RandomState::new().hash_one(started) % 256;
            let wait = retry_after.unwrap_or_else(|| backoff.mul_f64(0.75 + jitter as f64 / 512.0));
            if started.elapsed() + wait > self.config.retry_for {
                return self.shared.lose("retries_exhausted", n);
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = closed(&mut self.closing) => return self.shared.lose("closed", n),
            }
            backoff = (backoff * 2).min(LAST_BACKOFF);
            self.shared.retries.fetch_add(1, Relaxed);
        }
    }

    fn delivered(&self, n: u64, partial: Option<super::proto::PartialSuccess>) {
        let (rejected, why) = rejected(partial, n);
        self.shared.exported.fetch_add(n - rejected, Relaxed);
        self.shared.lose("partial_success", rejected);
        let mut outcome = lock(&self.shared.outcome);
        (outcome.error, outcome.reached) = (why, true);
    }
}

/// How many of `n` items a collector did not take, and why.
fn rejected(partial: Option<super::proto::PartialSuccess>, n: u64) -> (u64, Option<String>) {
    let partial = partial.unwrap_or_default();
    let rejected = u64::try_from(partial.rejected_spans).unwrap_or(0).min(n);
    (rejected, (rejected > 0).then_some(partial.error_message))
}
