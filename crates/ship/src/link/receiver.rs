//! The server's end: one thread per agent; a batch is acknowledged when the sink has taken it.

mod agents;

pub use agents::{Agents, AnswerSink};

use super::Answer;
use agents::Line;

use super::frame::{decode_batch, decode_flows, read_preamble, write_preamble, Frame, FrameError, Hello};
use super::in_time::InTime;
use super::received::{AgentStatus, ReceiverConfig, ReceiverStatus, Refusal};
use crate::{lock, now_ns, FlowSink, Sink, SinkError};
use rustc_hash::{FxHashMap, FxHashSet};
use std::io::BufReader;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Longest time between two whole frames of an agent. Agents send something at least every ten seconds.
const FRAME_TIMEOUT: Duration = Duration::from_secs(60);
const BUSY_RETRY: Duration = Duration::from_millis(50);
/// While the sink is busy, the server sends to the agent this often.
const BUSY_HEARTBEAT: Duration = Duration::from_secs(5);
/// Sessions remembered, connected or not.
const MAX_SESSIONS: usize = 4096;

struct Session {
    /// Number of the last batch taken. The lock is held while the sink works, so that a second connection of the
    /// session waits.
    stored: Mutex<u64>,
    status: Mutex<AgentStatus>,
    connection: AtomicU64,
    /// Its newest connection.
    line: Mutex<Option<Arc<Line>>>,
}

struct Connection {
    stream: Arc<TcpStream>,
    ip: IpAddr,
    /// Whether it has presented the secret.
    known: bool,
}

struct Inner {
    config: ReceiverConfig,
    sinks: Sinks,
    sessions: Mutex<FxHashMap<u64, Arc<Session>>>,
    connections: Mutex<FxHashMap<u64, Connection>>,
    next_connection: AtomicU64,
    stop: AtomicBool,
    spans: AtomicU64,
    flows_taken: AtomicU64,
    repeated: AtomicU64,
    deferred: AtomicU64,
    refused: Mutex<Option<Refusal>>,
    dropped: Mutex<Vec<(&'static str, u64)>>,
}

/// Where the data of agents go.
#[derive(Clone)]
pub struct Sinks {
    /// Spans.
    pub spans: Sink,
    /// Flows.
    pub flows: FlowSink,
    /// Answers to orders.
    pub answers: AnswerSink,
}

/// Receives spans from agents until it is dropped.
pub struct Receiver {
    addr: SocketAddr,
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
}

impl Receiver {
    /// Listens on `addr`, and refuses flows. Errors: the address cannot be used.
    pub fn bind(addr: SocketAddr, config: ReceiverConfig, sink: Sink) -> std::io::Result<Receiver> {
        let flows: FlowSink = Arc::new(|_| Err(SinkError::Refused("flows are not kept here".into())));
        Receiver::bind_with(addr, config, Sinks { spans: sink, flows, answers: Arc::new(|_, _| ()) })
    }

    /// Listens on `addr`. Errors: the address cannot be used.
    pub fn bind_with(addr: SocketAddr, config: ReceiverConfig, sinks: Sinks) -> std::io::Result<Receiver> {
        let listener = TcpListener::bind(addr)?;
        let addr = listener.local_addr()?;
        let inner = Arc::new(Inner {
            config,
            sinks,
            flows_taken: AtomicU64::new(0),
            sessions: Mutex::default(),
            connections: Mutex::default(),
            next_connection: AtomicU64::new(1),
            stop: AtomicBool::new(false),
            spans: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
            deferred: AtomicU64::new(0),
            refused: Mutex::default(),
            dropped: Mutex::default(),
        });
        let accepting = inner.clone();
        let thread = thread::Builder::new().name("link-accept".into()).spawn(move || accept(&accepting, &listener))?;
        Ok(Receiver { addr, inner, thread: Some(thread) })
    }

    /// Address listened on (with the port that was chosen, if 0 was asked for).
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// The connected agents, for orders.
    pub fn agents(&self) -> Agents {
        Agents::of(&self.inner)
    }

    /// State and counts.
    pub fn status(&self) -> ReceiverStatus {
        let mut agents: Vec<AgentStatus> =
            lock(&self.inner.sessions).values().map(|s| lock(&s.status).clone()).collect();
        agents.sort_by(|a, b| (&a.agent.host, a.agent.pid).cmp(&(&b.agent.host, b.agent.pid)));
        ReceiverStatus {
            agents,
            spans: self.inner.spans.load(Relaxed),
            flows: self.inner.flows_taken.load(Relaxed),
            repeated_batches: self.inner.repeated.load(Relaxed),
            deferred: self.inner.deferred.load(Relaxed),
            refused: lock(&self.inner.refused).clone(),
            dropped: lock(&self.inner.dropped).clone(),
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.inner.stop.store(true, Relaxed);
        for connection in lock(&self.inner.connections).values() {
            let _ = connection.stream.shutdown(Shutdown::Both);
        }
        // `accept` has no timeout, so a connection to ourselves wakes it.
        let mut addr = self.addr;
        match addr {
            SocketAddr::V4(a) if a.ip().is_unspecified() => addr.set_ip(Ipv4Addr::LOCALHOST.into()),
            SocketAddr::V6(a) if a.ip().is_unspecified() => addr.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        let woken = TcpStream::connect_timeout(&addr, Duration::from_secs(1)).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

fn accept(inner: &Arc<Inner>, listener: &TcpListener) {
    while !inner.stop.load(Relaxed) {
        let Ok((stream, peer)) = listener.accept() else {
            // The process may have no file descriptors left: wait for a connection to close instead of spinning.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        if inner.stop.load(Relaxed) {
            return;
        }
        let id = inner.next_connection.fetch_add(1, Relaxed);
        let stream = Arc::new(stream);
        {
            let mut connections = lock(&inner.connections);
            let strangers: Vec<u64> = connections.iter().filter(|(_, c)| !c.known).map(|(id, _)| *id).collect();
            let oldest = strangers.iter().min().filter(|_| strangers.len() >= inner.config.max_strangers);
            if let Some(oldest) = oldest.and_then(|id| connections.remove(id)) {
                // Its thread ends when the stream does.
                let _ = oldest.stream.shutdown(Shutdown::Both);
                inner.drop_one("displaced");
            }
            connections.insert(id, Connection { stream: Arc::clone(&stream), ip: peer.ip(), known: false });
        }
        // The receiver was stopped meanwhile, perhaps before this connection was registered.
        if inner.stop.load(Relaxed) {
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
        let serving = inner.clone();
        let spawned = thread::Builder::new().name("link-in".into()).spawn(move || {
            if let Err(e) = serving.serve(id, &stream, peer) {
                // An agent may disconnect between two frames; that is no error.
                if !matches!(e, FrameError::Io(_)) {
                    serving.drop_one(e.reason());
                    // Other clients than agents come to this port by mistake; nobody waits for them.
                    if matches!(e, FrameError::Refused(_) | FrameError::Version { .. }) {
                        let refusal = Refusal { peer, why: e.to_string(), at_ns: now_ns() };
                        *lock(&serving.refused) = Some(refusal);
                    }
                    let _ = Frame::Refused(e.to_string()).write(&mut &*stream);
                }
            }
            let _ = stream.shutdown(Shutdown::Both);
            lock(&serving.connections).remove(&id);
        });
        if spawned.is_err() {
            lock(&inner.connections).remove(&id);
            inner.drop_one("thread");
        }
    }
}

impl Inner {
    fn serve(&self, id: u64, stream: &Arc<TcpStream>, peer: SocketAddr) -> Result<(), FrameError> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(self.config.hello_timeout))?;
        // Small until the secret was presented.
        let mut reader = BufReader::with_capacity(1024, InTime::new(stream, self.config.hello_timeout));
        // The server's version goes out first, so that a client of another version can report the difference.
        write_preamble(&mut &**stream)?;
        read_preamble(&mut reader)?;
        let Frame::Hello(hello) = Frame::read(&mut reader)? else { return Err(FrameError::Malformed("hello")) };
        if !same(hello.token.as_bytes(), self.config.token.as_bytes()) {
            return Err(FrameError::Refused("wrong token".into()));
        }
        self.admit(id, peer.ip())?;
        let mut reader = BufReader::with_capacity(64 * 1024, reader);
        let session = self.session(&hello);
        session.connection.store(id, Relaxed);
        {
            let mut status = lock(&session.status);
            let (peer, last_seen_ns) = (Some(peer), now_ns());
            *status = AgentStatus { agent: hello.agent, peer, connected: true, last_seen_ns, ..status.clone() };
        }
        let stored = match session.stored.try_lock() {
            Ok(stored) => *stored,
            // An earlier connection of this session still waits for the sink. Its batch is taken, or comes again.
            Err(_) => return Err(FrameError::Refused("the store does not answer".into())),
        };
        let line = Arc::new(Line::new(Arc::clone(stream)));
        line.write(&Frame::Welcome(stored))?;
        // From here on orders may come between.
        *lock(&session.line) = Some(Arc::clone(&line));
        let result = self.receive(hello.session, &session, &mut reader, &line);
        if session.connection.load(Relaxed) == id {
            lock(&session.status).connected = false;
            *lock(&session.line) = None;
        }
        result
    }

    fn receive(
        &self,
        name: u64,
        session: &Session,
        reader: &mut BufReader<BufReader<InTime<'_>>>,
        line: &Line,
    ) -> Result<(), FrameError> {
        let mut resources = FxHashSet::default();
        loop {
            reader.get_mut().get_mut().allow(FRAME_TIMEOUT);
            match Frame::read(reader)? {
                frame @ (Frame::Spans(number, _) | Frame::Flows(number, _)) => {
                    let mut stored = lock(&session.stored);
                    if number <= *stored {
                        self.repeated.fetch_add(1, Relaxed);
                    } else {
                        let taken = match &frame {
                            Frame::Flows(_, batch) => decode_flows(batch).map(|flows| {
                                let n = flows.len() as u64;
                                self.deliver(n, line, &mut || (self.sinks.flows)(flows.clone()))
                                    .map(|taken| self.flows_taken.fetch_add(taken, Relaxed))
                            }),
                            Frame::Spans(_, batch) => decode_batch(batch, &mut resources).map(|spans| {
                                let n = spans.len() as u64;
                                let taken = self.deliver(n, line, &mut || (self.sinks.spans)(spans.clone()))?;
                                lock(&session.status).spans += taken;
                                Ok(self.spans.fetch_add(taken, Relaxed))
                            }),
                            _ => return Err(FrameError::Malformed("frame of an agent")),
                        };
                        match taken {
                            Ok(delivered) => drop(delivered?),
                            // The whole frame was read, so the connection is in step. If the server asked for the batch
                            // again, it would get the same bytes for ever.
                            Err(e) => self.drop_one(e.reason()),
                        }
                        *stored = number;
                    }
                    line.write(&Frame::Ack(*stored))?;
                }
                Frame::Ping => line.write(&Frame::Ack(*lock(&session.stored)))?,
                Frame::Answer(number, body) => (self.sinks.answers)(name, Answer { number, body }),
                Frame::Report(counters) => lock(&session.status).report = counters,
                _ => return Err(FrameError::Malformed("frame of an agent")),
            }
            lock(&session.status).last_seen_ns = now_ns();
        }
    }

    /// Gives a batch of `n` items to a sink, for as long as the sink needs; returns how many it took. An error ends the
    /// connection without an acknowledgement.
    fn deliver(&self, n: u64, line: &Line, give: &mut dyn FnMut() -> Result<(), SinkError>) -> Result<u64, FrameError> {
        let mut said: Option<Instant> = None;
        loop {
            match give() {
                Ok(()) => return Ok(n),
                Err(SinkError::Refused(_)) => {
                    self.drop_many("sink", n);
                    return Ok(0);
                }
                Err(SinkError::Busy(why)) => {
                    if self.stop.load(Relaxed) {
                        return Err(FrameError::Refused(why));
                    }
                    if said.is_none() {
                        self.deferred.fetch_add(n, Relaxed);
                    }
                    if said.is_none_or(|at| at.elapsed() >= BUSY_HEARTBEAT) {
                        line.write(&Frame::Busy(why))?;
                        said = Some(Instant::now());
                    }
                    thread::sleep(BUSY_RETRY);
                }
            }
        }
    }

    /// Gives a connection that has presented the secret the place of an agent.
    fn admit(&self, id: u64, ip: IpAddr) -> Result<(), FrameError> {
        let mut connections = lock(&self.connections);
        let known = || connections.values().filter(|c| c.known);
        let of_address = known().filter(|c| c.ip == ip).count();
        let full = if known().count() >= self.config.max_connections {
            Some(format!("{} agents are connected, and no more are allowed", self.config.max_connections))
        } else if !ip.to_canonical().is_loopback() && of_address >= self.config.max_per_address {
            Some(format!("{of_address} agents of {ip} are connected, and no more are allowed"))
        } else {
            None
        };
        match (full, connections.get_mut(&id)) {
            (None, Some(connection)) => {
                connection.known = true;
                Ok(())
            }
            (why, _) => {
                self.drop_one("too_many_connections");
                Err(FrameError::Refused(why.unwrap_or_else(|| "too many connections".into())))
            }
        }
    }

    fn session(&self, hello: &Hello) -> Arc<Session> {
        let mut sessions = lock(&self.sessions);
        if sessions.len() >= MAX_SESSIONS && !sessions.contains_key(&hello.session) {
            let oldest = sessions.iter().map(|(id, s)| (lock(&s.status).clone(), *id));
            let oldest = oldest.filter(|(s, _)| !s.connected).min_by_key(|(s, _)| s.last_seen_ns);
            if let Some((_, id)) = oldest {
                sessions.remove(&id);
            }
        }
        let session = sessions.entry(hello.session).or_insert_with(|| {
            let (stored, connection) = (Mutex::new(0), AtomicU64::new(0));
            Arc::new(Session { stored, status: Mutex::default(), connection, line: Mutex::default() })
        });
        session.clone()
    }

    fn drop_one(&self, reason: &'static str) {
        self.drop_many(reason, 1);
    }

    fn drop_many(&self, reason: &'static str, n: u64) {
        let mut dropped = lock(&self.dropped);
        match dropped.iter_mut().find(|(r, _)| *r == reason) {
            Some((_, count)) => *count += n,
            None => dropped.push((reason, n)),
        }
    }
}

/// Compares secrets in constant time: the duration does not reveal how much was right.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |acc, (x, y)| acc | (x ^ y)) == 0
}
