//! `--watch-packets`: follows the packets of watched services, and makes a span of each device on the way of a request.
//!
//! ```text
//! kernel ──ring──▶ [packets thread: join, ask for each watched span] ──▶ out thread
//! capture thread ──watched spans──▶        │
//!                   kernel ◀──addresses of their servers
//! ```

use super::offer::{Offered, Words};
use super::taps::rest;
use super::{hops, Names, Offer};
use crate::config;
use crate::counters::Counters;
use crate::pipeline::Batch;
use anyhow::{anyhow, bail, Context as _, Result};
use crossbeam_channel::{bounded, Receiver, Sender};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wirespan_capture::packet::{Filter, PacketOptions, Packets};
use wirespan_capture::targets::netns_inode;
use wirespan_journey::{Joiner, Settings};
use wirespan_model::packet::{Point, TCP};
use wirespan_model::{Span, TapSide};

/// Where packets are seen. Points of sockets say nothing of devices.
const POINTS: [Point; 4] = [Point::Queue, Point::Xmit, Point::Receive, Point::Drop];
const RING_BYTES: u32 = 16 << 20;
/// Longest time until the ring and the offered spans are read again.
const LONGEST_REST: Duration = Duration::from_millis(20);
const EACH_SECOND: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// After a span ends, its packets are in the ring. The span of the asking end goes first, because it knows more.
const ASKING: Duration = Duration::from_millis(100);
const ANSWERING: Duration = Duration::from_millis(300);
/// Sightings that are kept at most, and for how long: a request that takes longer has no devices.
const KEPT: usize = 200_000;
const KEPT_NS: u64 = 60_000_000_000;
/// If more than half of them are kept.
const KEPT_BUSY_NS: u64 = 5_000_000_000;
/// Batches of spans that may wait.
const QUEUE: usize = 64;
/// Spans that may wait for their packets.
const PENDING: usize = 20_000;

/// What is to be watched, and how.
pub(crate) struct Watch {
    words: Words,
    options: PacketOptions,
}

/// The running thread.
pub(crate) struct Watching {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Watching {
    /// Detaches from the kernel, and tells what is left.
    pub(crate) fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the packets thread panicked"))
    }
}

/// The thread runs.
pub(crate) struct Started {
    pub(crate) watching: Watching,
    /// Takes finished spans.
    pub(crate) offer: Offer,
    /// The table of ends whose packets are seen; it is to get the servers of targets.
    pub(crate) ends: Arc<OwnedFd>,
}

impl Watch {
    /// `None` if nothing is to be watched.
    pub(crate) fn new(wanted: &config::Packets) -> Result<Option<Self>> {
        let config::Packets { watch: words, watch_netns, one_flow_of, .. } = wanted;
        if words.is_empty() {
            if let Some(name) = watch_netns.first() {
                bail!("--watch-netns {name}: no packets are watched; say which requests with --watch-packets");
            }
            return Ok(None);
        }
        let inode = |name: &String| netns_inode(name).map_err(|e| anyhow!("--watch-netns: {e}"));
        let netns = watch_netns.iter().map(inode).collect::<Result<_>>()?;
        let options = PacketOptions {
            filter: Filter { protocol: TCP, netns, ..Filter::default() },
            only_ends: true,
            points: POINTS.to_vec(),
            one_flow_of: *one_flow_of,
            at_most: u64::MAX,
            ring_bytes: RING_BYTES,
            ..PacketOptions::default()
        };
        Ok(Some(Watch { words: Words(words.clone()), options }))
    }

    /// Attaches the programs, which see no packet until the table of ends has any, and starts the thread. Says which
    /// points this kernel does not show.
    pub(crate) fn start(self, out: Sender<Batch>, counters: Arc<Counters>) -> Result<Started> {
        let Watch { words, options } = self;
        let (to, spans) = bounded(QUEUE);
        let (ready, ready_in) = bounded(1);
        let (stop, dropped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let offer = Offer::new(words, to, Arc::clone(&dropped));
        let stopping = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("packets".into()).spawn(move || {
            let opened = || -> Result<_> {
                let packets = Packets::open(&options)?;
                let ends = packets.ends()?;
                Ok((packets, ends))
            };
            let (packets, ends) = match opened() {
                Ok(opened) => opened,
                Err(error) => {
                    let _ = ready.send(Err(error));
                    return;
                }
            };
            let _ = ready.send(Ok((packets.missing().to_vec(), Arc::new(ends))));
            WatchThread::new(packets, spans, dropped).run(&stopping, &out, &counters);
        })?;
        let begun = ready_in.recv().map_err(|_| anyhow!("the packets thread ended before it began"))?;
        let (missing, ends) = begun.context("--watch-packets")?;
        for (point, why) in missing {
            eprintln!("wirespan: this kernel does not show packets at `{}`: {why}", point.as_str());
        }
        Ok(Started { watching: Watching { stop, thread }, offer, ends })
    }
}

#[derive(Default)]
struct Counts {
    requests: u64,
    without_packets: u64,
    hops: u64,
    not_watched: u64,
    left: u64,
    forgotten: u64,
    too_many: u64,
}

/// The bytes of a request and its response: both ends have the same.
type Exchange = (Option<u32>, Option<u32>, Option<u64>);

/// State of the thread.
struct WatchThread {
    packets: Packets,
    spans: Receiver<Offered>,
    dropped: Arc<AtomicU64>,
    joiner: Joiner,
    names: Names,
    /// Network namespace of the host itself.
    host: u32,
    /// Whether packets from and to this address are seen.
    servers: FxHashMap<SocketAddr, bool>,
    pending: VecDeque<(Instant, Arc<Span>)>,
    /// When the devices of an exchange were told.
    told: FxHashMap<Exchange, Instant>,
    counts: Counts,
    /// When it was looked whether the table of ends has room.
    looked: Instant,
}

impl WatchThread {
    fn new(packets: Packets, spans: Receiver<Offered>, dropped: Arc<AtomicU64>) -> Self {
        let settings = Settings { kept: KEPT, ..Settings::default() };
        WatchThread {
            packets,
            spans,
            dropped,
            joiner: Joiner::new(settings),
            names: Names::read(),
            host: super::names::host_netns(),
            servers: FxHashMap::default(),
            pending: VecDeque::new(),
            told: FxHashMap::default(),
            counts: Counts::default(),
            looked: Instant::now(),
        }
    }

    /// Runs until `stop` is raised; then tells what is left.
    fn run(mut self, stop: &AtomicBool, out: &Sender<Batch>, counters: &Counters) {
        let mut second = Instant::now();
        loop {
            let ends = stop.load(Ordering::Relaxed);
            self.take_spans();
            let taken = self.take_packets();
            self.tell(ends, out);
            if ends || second.elapsed() >= EACH_SECOND {
                second = Instant::now();
                self.each_second(counters);
            }
            if ends {
                return;
            }
            std::thread::sleep(rest(taken).min(LONGEST_REST));
        }
    }

    fn take_spans(&mut self) {
        let offered: Vec<_> = self.spans.try_iter().take(QUEUE).collect();
        for server in offered.iter().flat_map(|offered| &offered.left) {
            self.leave(*server);
        }
        for span in offered.into_iter().flat_map(|offered| offered.spans) {
            hops::servers(&span).for_each(|server| self.watch(server));
            let wait = if span.tap == TapSide::ClientProcess { ASKING } else { ANSWERING };
            if self.pending.len() < PENDING {
                self.pending.push_back((Instant::now() + wait, span));
            } else {
                self.counts.too_many += 1;
            }
        }
    }

    fn watch(&mut self, server: SocketAddr) {
        let packets = &self.packets;
        let chosen = *self.servers.entry(server).or_insert_with(|| packets.choose(server).is_ok());
        self.counts.not_watched += u64::from(!chosen);
    }

    /// The kernel has chosen this server, because a target has to do with it. None of its requests is watched.
    fn leave(&mut self, server: SocketAddr) {
        if !self.servers.contains_key(&server) && self.packets.leave(server).is_ok() {
            self.counts.left += 1;
        }
    }

    /// Reads the ring once. What comes meanwhile is read next time, so that spans are told under a flood, too. Returns
    /// how many sightings it took.
    fn take_packets(&mut self) -> usize {
        let mut seen = Vec::new();
        self.packets.drain(&mut seen);
        seen.iter().for_each(|s| self.joiner.add(s));
        seen.len()
    }

    /// Tells the devices of the spans that are due, or of all.
    fn tell(&mut self, all: bool, out: &Sender<Batch>) {
        let now = Instant::now();
        let (due, later): (VecDeque<_>, _) =
            std::mem::take(&mut self.pending).into_iter().partition(|(at, _)| all || *at <= now);
        self.pending = later;
        let mut due: Vec<_> = due.into_iter().map(|(_, span)| span).collect();
        due.sort_by_key(|span| span.tap);
        let mut batch = Vec::new();
        for span in due {
            let exchange = (span.request_seq, span.response_seq, span.message_id);
            if self.told.contains_key(&exchange) {
                continue;
            }
            self.counts.requests += 1;
            let reason = |number| self.packets.reason(number);
            let hops = hops::spans(&span, &self.joiner, &self.names, &reason, self.host);
            if hops.is_empty() {
                self.counts.without_packets += 1;
                continue;
            }
            self.told.insert(exchange, now);
            self.counts.hops += hops.len() as u64;
            batch.extend(hops.into_iter().map(Arc::new));
        }
        if batch.is_empty() {
            return;
        }
        let n = batch.len() as u64;
        // At the end the batch waits for room: dropping it would gain nothing now.
        let sent = if all { out.send(Batch::Hops(batch)).is_ok() } else { out.try_send(Batch::Hops(batch)).is_ok() };
        if !sent {
            self.dropped.fetch_add(n, Ordering::Relaxed);
        }
    }

    fn each_second(&mut self, counters: &Counters) {
        self.names = Names::read();
        if self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            let forgotten = self.packets.make_room();
            if forgotten > 0 {
                self.counts.forgotten += forgotten as u64;
                self.servers.clear();
            }
        }
        let busy = self.joiner.kept() > KEPT / 2;
        self.joiner.forget(if busy { KEPT_BUSY_NS } else { KEPT_NS });
        self.told.retain(|_, at| at.elapsed() < EACH_SECOND * 5);
        let mut values: Vec<_> = self.packets.counters();
        let Counts { requests, without_packets, hops, not_watched, left, forgotten, too_many } = self.counts;
        values.extend([
            ("requests", requests),
            ("requests_without_packets", without_packets),
            ("hops", hops),
            ("servers_not_watched", not_watched),
            ("servers_left", left),
            ("servers_forgotten", forgotten),
            ("requests_dropped", too_many),
            ("sightings_not_kept", self.joiner.counts().too_many),
            ("dropped_queue_full", self.dropped.load(Ordering::Relaxed)),
        ]);
        counters.set("packets", values);
    }
}
