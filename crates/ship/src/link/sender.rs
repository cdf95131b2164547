//! The agent's end. Never blocks the caller: what does not fit is dropped and counted.

use super::connection::{self, News, Out};
use super::frame::{encode_batches, Frame, FrameError, Hello, FLOWS, MAX_REPORT, SPANS};
use super::status::{SenderState, SenderStatus, Shared};
use super::AgentInfo;
use crossbeam_channel::{bounded, select, Receiver, RecvError, Sender as Channel, TrySendError};
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wirespan_model::{Flow, Span};

/// Keep-alive of an idle connection.
pub(super) const PING_EVERY: Duration = Duration::from_secs(10);
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LAST_BACKOFF: Duration = Duration::from_secs(10);
/// A refusal or a wrong version does not go away by asking often.
const REFUSED_BACKOFF: Duration = Duration::from_secs(15);

/// Limits of a sender. Memory is at most `queue_spans` spans plus `backlog_bytes`.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    /// `host:port` of the server.
    pub server: String,
    /// What the agent says of itself.
    pub agent: AgentInfo,
    /// Shared secret; empty if the server asks for none.
    pub token: String,
    /// Most spans waiting for the encoder.
    pub queue_spans: usize,
    /// A batch is closed at this many spans…
    pub batch_spans: usize,
    /// …or when its first span has waited for this long.
    pub batch_wait: Duration,
    /// Most bytes of encoded batches kept while the server is away; beyond it the oldest are dropped.
    pub backlog_bytes: usize,
    /// Most batches sent without an acknowledgement.
    pub window: usize,
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
        }
    }
}

/// Counters to be sent with the next opportunity.
type Report = Arc<Mutex<Option<Vec<(String, u64)>>>>;

/// What the worker is given.
enum Load {
    Spans(Vec<Arc<Span>>),
    Flows(Vec<Flow>),
}

/// Sends spans and flows to a server from a thread of its own.
pub struct Sender {
    load: Option<Channel<Load>>,
    close: Channel<Instant>,
    queued: Arc<AtomicUsize>,
    queue_spans: usize,
    shared: Arc<Shared>,
    report: Report,
    thread: Option<JoinHandle<()>>,
}

impl Sender {
    /// Starts the thread. Errors: the thread cannot be made. An absent server is not an error: it is tried again.
    pub fn start(config: SenderConfig) -> std::io::Result<Sender> {
        let (load_tx, load) = bounded(config.queue_spans.clamp(1, 4096));
        let (close_tx, close) = bounded(1);
        let (news_tx, news) = bounded(config.window * 2 + 8);
        let shared = Arc::new(Shared::default());
        let queued = Arc::new(AtomicUsize::new(0));
        let report = Arc::new(Mutex::new(None));
        let worker = Worker {
            hello: Hello {
                session: RandomState::new().hash_one(std::process::id()),
                agent: config.agent.clone(),
                token: config.token.clone(),
            },
            queue_spans: config.queue_spans,
            shared: shared.clone(),
            queued: queued.clone(),
            report: report.clone(),
            news_tx,
            pending: Vec::new(),
            pending_since: None,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            in_flight: 0,
            next_number: 1,
            generation: 0,
            link: None,
            attempt: None,
            next_attempt: Instant::now(),
            backoff: FIRST_BACKOFF,
            last_write: Instant::now(),
            config,
        };
        let queue_spans = worker.queue_spans;
        let thread = std::thread::Builder::new().name("link".into()).spawn(move || worker.run(&load, &news, &close))?;
        Ok(Sender { load: Some(load_tx), close: close_tx, queued, queue_spans, shared, report, thread: Some(thread) })
    }

    /// Takes spans for sending; never blocks. What does not fit is dropped and counted.
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

    /// Replaces the counters of the agent that the server shows; sent with the next opportunity.
    pub fn report(&self, mut counters: Vec<(String, u64)>) {
        counters.truncate(MAX_REPORT);
        *self.report.lock().unwrap_or_else(PoisonError::into_inner) = Some(counters);
    }

    /// State and counts.
    pub fn status(&self) -> SenderStatus {
        self.shared.status()
    }

    /// Sends what is left, for at most `timeout`; returns the final counts.
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

struct Batch {
    number: u64,
    kind: u8,
    /// Spans or flows in it.
    items: usize,
    bytes: Arc<Vec<u8>>,
}

/// A connection that is up.
struct Link {
    stream: TcpStream,
    out: Channel<Out>,
}

struct Worker {
    config: SenderConfig,
    hello: Hello,
    queue_spans: usize,
    shared: Arc<Shared>,
    queued: Arc<AtomicUsize>,
    report: Report,
    news_tx: Channel<News>,
    /// Spans of the batch that is being collected.
    pending: Vec<Arc<Span>>,
    pending_since: Option<Instant>,
    /// Encoded batches that were not acknowledged; the first `in_flight` were sent on this connection.
    backlog: VecDeque<Batch>,
    backlog_bytes: usize,
    in_flight: usize,
    next_number: u64,
    /// Number of the current connection or attempt.
    generation: u64,
    link: Option<Link>,
    /// Channel to an attempt that is not up yet.
    attempt: Option<Channel<Out>>,
    next_attempt: Instant,
    backoff: Duration,
    last_write: Instant,
}

impl Worker {
    fn run(mut self, load: &Receiver<Load>, news: &Receiver<News>, close: &Receiver<Instant>) {
        let never = crossbeam_channel::never();
        let mut input = load;
        let mut deadline: Option<Instant> = None;
        loop {
            let tick = self.tick_in(deadline);
            select! {
                recv(input) -> got => match got {
                    Ok(Load::Spans(more)) => self.collect(more),
                    Ok(Load::Flows(flows)) => self.encode_flows(&flows),
                    Err(RecvError) => {
                        input = &never;
                        deadline = deadline.or_else(|| Some(close.try_recv().unwrap_or_else(|_| Instant::now())));
                        self.encode();
                    }
                },
                recv(news) -> got => if let Ok(news) = got { self.hear(news) },
                default(tick) => {}
            }
            let now = Instant::now();
            if self.pending_since.is_some_and(|t| now.saturating_duration_since(t) >= self.config.batch_wait) {
                self.encode();
            }
            self.connect(now, deadline.is_some());
            self.write(now);
            if deadline.is_some_and(|d| self.backlog.is_empty() || now >= d) {
                break;
            }
        }
        for batch in &self.backlog {
            match batch.kind {
                FLOWS => self.shared.flows_dropped.fetch_add(batch.items as u64, Relaxed),
                _ => self.shared.dropped_closed.fetch_add(batch.items as u64, Relaxed),
            };
        }
        self.shared.backlog_bytes.store(0, Relaxed);
        self.shared.set_state(SenderState::Closed);
        self.hang_up();
    }

    /// Time until something must be done even if nothing comes.
    fn tick_in(&self, deadline: Option<Instant>) -> Duration {
        let now = Instant::now();
        let mut at = now + Duration::from_secs(1);
        if let Some(since) = self.pending_since {
            at = at.min(since + self.config.batch_wait);
        }
        if self.link.is_none() && self.attempt.is_none() {
            at = at.min(self.next_attempt);
        }
        if let Some(deadline) = deadline {
            at = at.min(deadline);
        }
        at.saturating_duration_since(now)
    }

    fn collect(&mut self, mut spans: Vec<Arc<Span>>) {
        self.queued.fetch_sub(spans.len(), Relaxed);
        self.pending.append(&mut spans);
        self.pending_since.get_or_insert_with(Instant::now);
        if self.pending.len() >= self.config.batch_spans {
            self.encode();
        }
    }

    /// Encodes the collected spans even while the server is away: encoded they take a fraction of the memory.
    fn encode(&mut self) {
        self.pending_since = None;
        let pending = std::mem::take(&mut self.pending);
        for part in pending.chunks(self.config.batch_spans.max(1)) {
            let (batches, too_big) = encode_batches(part);
            self.shared.dropped_too_big.fetch_add(too_big, Relaxed);
            self.queue(SPANS, batches);
        }
        self.trim();
    }

    /// Flows come in whole windows: nothing is gained by collecting more.
    fn encode_flows(&mut self, flows: &[Flow]) {
        let (batches, too_big) = encode_batches(flows);
        self.shared.flows_dropped.fetch_add(too_big, Relaxed);
        self.queue(FLOWS, batches);
        self.trim();
    }

    fn queue(&mut self, kind: u8, batches: Vec<(usize, Vec<u8>)>) {
        for (items, bytes) in batches {
            self.backlog_bytes += bytes.len();
            self.backlog.push_back(Batch { number: self.next_number, kind, items, bytes: Arc::new(bytes) });
            self.next_number += 1;
        }
    }

    fn trim(&mut self) {
        while self.backlog_bytes > self.config.backlog_bytes {
            // The oldest that is not in flight, for the newest data tell of the present.
            let victim = self.in_flight.min(self.backlog.len().saturating_sub(1));
            let Some(batch) = self.backlog.remove(victim) else { break };
            self.in_flight = self.in_flight.min(self.backlog.len());
            self.backlog_bytes -= batch.bytes.len();
            match batch.kind {
                FLOWS => self.shared.flows_dropped.fetch_add(batch.items as u64, Relaxed),
                _ => self.shared.dropped_backlog.fetch_add(batch.items as u64, Relaxed),
            };
        }
        self.shared.backlog_bytes.store(self.backlog_bytes as u64, Relaxed);
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Up { generation, stream, stored } if generation == self.generation => {
                if let Some(out) = self.attempt.take() {
                    self.link = Some(Link { stream, out });
                    self.in_flight = 0;
                    self.backoff = FIRST_BACKOFF;
                    self.shared.connects.fetch_add(1, Relaxed);
                    self.shared.set_state(SenderState::Connected);
                    self.acked(stored);
                }
            }
            News::Ack { generation, number } if generation == self.generation => self.acked(number),
            News::Down { generation, error } if generation == self.generation => {
                self.hang_up();
                self.in_flight = 0;
                if matches!(error, FrameError::Refused(_) | FrameError::Version { .. } | FrameError::Magic(_)) {
                    self.backoff = REFUSED_BACKOFF;
                }
                // Agents of a fleet shall not come back all at once.
                let jitter = RandomState::new().hash_one(self.generation) % 256;
                self.next_attempt = Instant::now() + self.backoff.mul_f64(0.75 + jitter as f64 / 512.0);
                self.backoff = (self.backoff * 2).min(LAST_BACKOFF);
                self.shared.set_state(SenderState::Waiting(format!("{}: {error}", self.config.server)));
            }
            // News of a connection that was given up.
            News::Up { stream, .. } => drop(stream.shutdown(Shutdown::Both)),
            News::Ack { .. } | News::Down { .. } => {}
        }
    }

    fn acked(&mut self, number: u64) {
        while self.backlog.front().is_some_and(|b| b.number <= number) {
            let Some(batch) = self.backlog.pop_front() else { break };
            self.in_flight = self.in_flight.saturating_sub(1);
            self.backlog_bytes -= batch.bytes.len();
            match batch.kind {
                FLOWS => self.shared.flows_acked.fetch_add(batch.items as u64, Relaxed),
                _ => self.shared.acked.fetch_add(batch.items as u64, Relaxed),
            };
        }
        self.shared.backlog_bytes.store(self.backlog_bytes as u64, Relaxed);
    }

    fn connect(&mut self, now: Instant, closing: bool) {
        if self.link.is_some() || self.attempt.is_some() {
            return;
        }
        if closing {
            // Somebody waits for us.
            self.next_attempt = self.next_attempt.min(now + Duration::from_secs(1));
        }
        if now < self.next_attempt {
            return;
        }
        self.generation += 1;
        let (tx, rx) = bounded(self.config.window + 4);
        self.attempt = Some(tx);
        connection::start(self.config.server.clone(), self.hello.clone(), self.generation, rx, self.news_tx.clone());
    }

    /// Hands batches to the connection, as many as the window allows; never blocks.
    fn write(&mut self, now: Instant) {
        let Some(link) = &self.link else { return };
        while self.in_flight < self.config.window {
            let Some(batch) = self.backlog.get(self.in_flight) else { break };
            if link.out.try_send(Out::Batch(batch.kind, batch.number, batch.bytes.clone())).is_err() {
                break;
            }
            self.shared.sent_bytes.fetch_add(batch.bytes.len() as u64, Relaxed);
            self.in_flight += 1;
            self.last_write = now;
        }
        let report = self.report.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(report) = report {
            let _ = link.out.try_send(Out::Frame(Frame::Report(report)));
        }
        if now.saturating_duration_since(self.last_write) >= PING_EVERY {
            let _ = link.out.try_send(Out::Frame(Frame::Ping));
            self.last_write = now;
        }
    }

    fn hang_up(&mut self) {
        self.attempt = None;
        if let Some(link) = self.link.take() {
            let _ = link.stream.shutdown(Shutdown::Both);
        }
    }
}
