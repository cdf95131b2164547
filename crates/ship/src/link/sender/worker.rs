//! The sender's thread: collects, encodes, connects, and hands batches to the connection.

use super::backlog::Backlog;
use super::{Load, Report, SenderConfig};
use crate::link::connection::{self, News, Out, To};
use crate::link::frame::{encode_batches, Frame, FrameError, Hello, FLOWS, SPANS};
use crate::link::status::{SenderState, Shared};
use crate::link::Answer;
use crossbeam_channel::{bounded, select, Receiver, RecvError, Sender as Channel};
use std::hash::{BuildHasher, RandomState};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use wirespan_model::{Flow, Span};

/// Keep-alive of an idle connection.
pub(in crate::link) const PING_EVERY: Duration = Duration::from_secs(10);
/// While the connection has no room, it is looked at again after this time.
const ROOM_AGAIN: Duration = Duration::from_millis(20);
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LAST_BACKOFF: Duration = Duration::from_secs(10);
/// Pause after a refusal or a wrong version. Frequent attempts would not change the answer.
const REFUSED_BACKOFF: Duration = Duration::from_secs(15);

/// An open connection.
struct Link {
    stream: TcpStream,
    out: Channel<Out>,
}

/// State of the sender's thread.
pub(super) struct Worker {
    config: SenderConfig,
    hello: Hello,
    shared: Arc<Shared>,
    queued: Arc<AtomicUsize>,
    report: Report,
    to: To,
    /// Spans of the batch that is being collected.
    pending: Vec<Arc<Span>>,
    pending_since: Option<Instant>,
    /// Encoded batches that were not acknowledged.
    backlog: Backlog,
    /// Number of the current connection or attempt.
    generation: u64,
    link: Option<Link>,
    /// Channel to a connection that is not open yet.
    attempt: Option<Channel<Out>>,
    next_attempt: Instant,
    backoff: Duration,
    last_write: Instant,
}

impl Worker {
    pub(super) fn new(
        config: SenderConfig,
        shared: Arc<Shared>,
        queued: Arc<AtomicUsize>,
        report: Report,
        news_tx: Channel<News>,
    ) -> Self {
        Worker {
            hello: Hello {
                session: RandomState::new().hash_one(std::process::id()),
                agent: config.agent.clone(),
                token: config.token.clone(),
            },
            shared,
            queued,
            report,
            to: To { news: news_tx, orders: config.orders.clone() },
            pending: Vec::new(),
            pending_since: None,
            backlog: Backlog::default(),
            generation: 0,
            link: None,
            attempt: None,
            next_attempt: Instant::now(),
            backoff: FIRST_BACKOFF,
            last_write: Instant::now(),
            config,
        }
    }

    pub(super) fn run(
        mut self,
        load: &Receiver<Load>,
        news: &Receiver<News>,
        answers: &Receiver<Answer>,
        close: &Receiver<Instant>,
    ) {
        let (never, no_answer) = (crossbeam_channel::never(), crossbeam_channel::never());
        let mut input = load;
        let mut deadline: Option<Instant> = None;
        loop {
            let room = self.link.as_ref().is_some_and(|link| !link.out.is_full());
            let waiting = !room && self.link.is_some() && !answers.is_empty();
            let tick = if waiting { ROOM_AGAIN } else { self.tick_in(deadline) };
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
                recv(if room { answers } else { &no_answer }) -> got => if let Ok(answer) = got { self.answer(answer) },
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
        for batch in self.backlog.batches() {
            match batch.kind {
                FLOWS => self.shared.flows_dropped.fetch_add(batch.items as u64, Relaxed),
                _ => self.shared.dropped_closed.fetch_add(batch.items as u64, Relaxed),
            };
        }
        self.shared.backlog_bytes.store(0, Relaxed);
        self.shared.set_state(SenderState::Closed);
        self.hang_up();
    }

    /// Time until the thread must act without new input.
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

    /// Encodes the collected spans even while the server is away, because encoded spans take a fraction of the memory.
    fn encode(&mut self) {
        self.pending_since = None;
        let pending = std::mem::take(&mut self.pending);
        for part in pending.chunks(self.config.batch_spans.max(1)) {
            let (batches, too_big) = encode_batches(part);
            self.shared.dropped_too_big.fetch_add(too_big, Relaxed);
            self.backlog.push(SPANS, batches);
        }
        self.trim();
    }

    /// Encodes flows at once. They arrive in whole windows, so waiting for more gains nothing.
    fn encode_flows(&mut self, flows: &[Flow]) {
        let (batches, too_big) = encode_batches(flows);
        self.shared.flows_dropped.fetch_add(too_big, Relaxed);
        self.backlog.push(FLOWS, batches);
        self.trim();
    }

    /// Drops batches beyond the limit, and counts them.
    fn trim(&mut self) {
        while let Some(batch) = self.backlog.drop_beyond(self.config.backlog_bytes) {
            match batch.kind {
                FLOWS => self.shared.flows_dropped.fetch_add(batch.items as u64, Relaxed),
                _ => self.shared.dropped_backlog.fetch_add(batch.items as u64, Relaxed),
            };
        }
        self.shared.backlog_bytes.store(self.backlog.bytes() as u64, Relaxed);
    }

    /// Handles the reports of the connection threads.
    fn hear(&mut self, news: News) {
        match news {
            News::Up { generation, stream, stored } if generation == self.generation => {
                if let Some(out) = self.attempt.take() {
                    self.link = Some(Link { stream, out });
                    self.backlog.nothing_in_flight();
                    self.backoff = FIRST_BACKOFF;
                    self.shared.connects.fetch_add(1, Relaxed);
                    self.shared.set_state(SenderState::Connected);
                    self.acked(stored);
                }
            }
            News::Ack { generation, number } if generation == self.generation => self.acked(number),
            News::Busy { generation, why } if generation == self.generation => {
                self.shared.busy.fetch_add(1, Relaxed);
                self.shared.set_state(SenderState::Held(why));
            }
            News::Down { generation, error } if generation == self.generation => {
                self.hang_up();
                self.backlog.nothing_in_flight();
                if matches!(error, FrameError::Refused(_) | FrameError::Version { .. } | FrameError::Magic(_)) {
                    self.backoff = REFUSED_BACKOFF;
                }
                // A random delay keeps the agents of a fleet from reconnecting all at once.
                let jitter = RandomState::new().hash_one(self.generation) % 256;
                self.next_attempt = Instant::now() + self.backoff.mul_f64(0.75 + jitter as f64 / 512.0);
                self.backoff = (self.backoff * 2).min(LAST_BACKOFF);
                self.shared.set_state(SenderState::Waiting(format!("{}: {error}", self.config.server)));
            }
            // The report comes from an abandoned connection.
            News::Up { stream, .. } => drop(stream.shutdown(Shutdown::Both)),
            News::Ack { .. } | News::Busy { .. } | News::Down { .. } => {}
        }
    }

    /// The server has taken everything up to this batch.
    fn acked(&mut self, number: u64) {
        if self.backlog.batches().next().is_some_and(|oldest| oldest.number <= number) {
            self.shared.no_longer_held();
        }
        while let Some(batch) = self.backlog.pop_acked(number) {
            match batch.kind {
                FLOWS => self.shared.flows_acked.fetch_add(batch.items as u64, Relaxed),
                _ => self.shared.acked.fetch_add(batch.items as u64, Relaxed),
            };
        }
        self.shared.backlog_bytes.store(self.backlog.bytes() as u64, Relaxed);
    }

    fn connect(&mut self, now: Instant, closing: bool) {
        if self.link.is_some() || self.attempt.is_some() {
            return;
        }
        if closing {
            // The caller of `close` waits.
            self.next_attempt = self.next_attempt.min(now + Duration::from_secs(1));
        }
        if now < self.next_attempt {
            return;
        }
        self.generation += 1;
        let (tx, rx) = bounded(self.config.window + 4);
        self.attempt = Some(tx);
        connection::start(self.config.server.clone(), self.hello.clone(), self.generation, rx, self.to.clone());
    }

    /// Hands batches to the connection, as many as the window allows; never blocks.
    fn write(&mut self, now: Instant) {
        let Some(link) = &self.link else { return };
        while let Some(batch) = self.backlog.next_to_send(self.config.window) {
            if link.out.try_send(Out::Batch(batch.kind, batch.number, batch.bytes.clone())).is_err() {
                break;
            }
            self.shared.sent_bytes.fetch_add(batch.bytes.len() as u64, Relaxed);
            self.backlog.sent_one();
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

    /// Hands an answer to the connection.
    fn answer(&mut self, Answer { number, body }: Answer) {
        if let Some(link) = &self.link {
            // There was room, and only this thread fills it.
            let _ = link.out.try_send(Out::Frame(Frame::Answer(number, body)));
            self.last_write = Instant::now();
        }
    }

    fn hang_up(&mut self) {
        self.attempt = None;
        if let Some(link) = self.link.take() {
            let _ = link.stream.shutdown(Shutdown::Both);
        }
    }
}
