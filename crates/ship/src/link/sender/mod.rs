//! The agent's end of the link. It never blocks the caller: spans and flows without room are dropped and counted.

mod backlog;
mod worker;

use super::frame::MAX_REPORT;
use super::status::{SenderStatus, Shared};
use super::{AgentInfo, Answer, Order};
use crossbeam_channel::{bounded, Sender as Channel, TrySendError};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use wirespan_model::{Flow, Span};
use worker::Worker;

/// Limits of a sender. Memory is at most `queue_spans` spans plus `backlog_bytes`.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    /// `host:port` of the server.
    pub server: String,
    /// The agent, as the server shows it.
    pub agent: AgentInfo,
    /// Shared secret; empty if the server asks for none.
    pub token: String,
    /// Most spans waiting for the encoder.
    pub queue_spans: usize,
    /// A batch is closed at this many spans…
    pub batch_spans: usize,
    /// A batch is also closed when its first span has waited for this long.
    pub batch_wait: Duration,
    /// Most bytes of encoded batches kept while the server is away; beyond it the oldest are dropped.
    pub backlog_bytes: usize,
    /// Most batches sent without an acknowledgement.
    pub window: usize,
    /// Where orders of the server go, if the agent [takes orders](AgentInfo::takes_orders). `None`: an order ends the
    /// connection.
    pub orders: Option<Channel<Order>>,
}

impl SenderConfig {
    /// Usual limits: 16,384 spans in the queue, batches of 512 spans or 200 ms, 16 MiB of backlog, a window of 32.
    pub fn new(server: impl Into<String>, agent: AgentInfo) -> Self {
        SenderConfig {
            server: server.into(),
            agent,
            token: String::new(),
            queue_spans: 16 * 1024,
            batch_spans: 512,
            batch_wait: Duration::from_millis(200),
            backlog_bytes: 16 << 20,
            window: 32,
            orders: None,
        }
    }
}

/// Counters of the agent, to be sent as soon as possible.
type Report = Arc<Mutex<Option<Vec<(String, u64)>>>>;

/// Input of the worker.
enum Load {
    Spans(Vec<Arc<Span>>),
    Flows(Vec<Flow>),
}

/// Answers that may wait for the connection.
const ANSWERS: usize = 8;

/// Sends spans and flows to a server from a thread of its own.
pub struct Sender {
    load: Option<Channel<Load>>,
    close: Channel<Instant>,
    answers: Channel<Answer>,
    queued: Arc<AtomicUsize>,
    queue_spans: usize,
    server: String,
    backlog_bytes: usize,
    shared: Arc<Shared>,
    report: Report,
    thread: Option<JoinHandle<()>>,
}

impl Sender {
    /// Starts the thread. Errors: the thread cannot be created. An absent server is not an error: the thread tries
    /// again.
    pub fn start(config: SenderConfig) -> std::io::Result<Sender> {
        let (load_tx, load) = bounded(config.queue_spans.clamp(1, 4096));
        let (close_tx, close) = bounded(1);
        let (news_tx, news) = bounded(config.window * 2 + 8);
        let (answers, answers_in) = bounded(ANSWERS);
        let shared = Arc::new(Shared::default());
        let queued = Arc::new(AtomicUsize::new(0));
        let report = Arc::new(Mutex::new(None));
        let (queue_spans, backlog_bytes, server) = (config.queue_spans, config.backlog_bytes, config.server.clone());
        let worker = Worker::new(config, shared.clone(), queued.clone(), report.clone(), news_tx);
        let thread = std::thread::Builder::new()
            .name("link".into())
            .spawn(move || worker.run(&load, &news, &answers_in, &close))?;
        let (load, thread) = (Some(load_tx), Some(thread));
        Ok(Sender {
            load,
            close: close_tx,
            answers,
            queued,
            queue_spans,
            server,
            backlog_bytes,
            shared,
            report,
            thread,
        })
    }

    /// Takes spans for sending; never blocks. Spans without room are dropped and counted.
    pub fn send(&self, spans: Vec<Arc<Span>>) {
        let n = spans.len();
        let Some(channel) = self.load.as_ref().filter(|_| n > 0) else { return };
        self.shared.offered.fetch_add(n as u64, Relaxed);
        let full = self.queued.fetch_add(n, Relaxed) + n > self.queue_spans;
        if full
            || matches!(
                channel.try_send(Load::Spans(spans)),
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_))
            )
        {
            self.queued.fetch_sub(n, Relaxed);
            self.shared.dropped_queue.fetch_add(n as u64, Relaxed);
        }
    }

    /// Takes flows for sending, as [`send`](Sender::send) does spans.
    pub fn send_flows(&self, flows: Vec<Flow>) {
        let n = flows.len();
        let Some(channel) = self.load.as_ref().filter(|_| n > 0) else { return };
        self.shared.flows_offered.fetch_add(n as u64, Relaxed);
        if channel.try_send(Load::Flows(flows)).is_err() {
            self.shared.flows_dropped.fetch_add(n as u64, Relaxed);
        }
    }

    /// Replaces the agent's counters that the server shows; they are sent as soon as possible.
    pub fn report(&self, mut counters: Vec<(String, u64)>) {
        counters.truncate(MAX_REPORT);
        *self.report.lock().unwrap_or_else(PoisonError::into_inner) = Some(counters);
    }

    /// Takes answers to orders. They are sent while the connection is open; none is sent twice. Whoever finds it full
    /// keeps the answer, or counts it.
    pub fn answers(&self) -> Channel<Answer> {
        self.answers.clone()
    }

    /// `host:port` of the server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Most bytes of encoded batches that are kept.
    pub fn backlog_limit(&self) -> usize {
        self.backlog_bytes
    }

    /// The state and the counters.
    pub fn status(&self) -> SenderStatus {
        self.shared.status()
    }

    /// Sends the waiting data, for at most `timeout`; returns the final counts.
    pub fn close(mut self, timeout: Duration) -> SenderStatus {
        self.finish(timeout);
        self.shared.status()
    }

    fn finish(&mut self, timeout: Duration) {
        let _ = self.close.try_send(Instant::now() + timeout);
        self.load = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.finish(Duration::ZERO);
    }
}
