//! `--mirror`: reads the packets of a device, such as one at a switch's mirror port, and makes spans of them as
//! `replay` does of a file.
//!
//! ```text
//! kernel ──frames──▶ [mirror thread: segments, bytes, join ──several devices──▶ their order] ──▶ out thread
//! ```

mod ways;

use super::arp::{Arp, ARP};
use super::ethernet::inside;
use super::icmp::Icmp;
use crate::clock::now_ns;
use crate::config::Config;
use crate::counters::Counters;
use crate::pipeline::Batch;
use anyhow::{anyhow, Result};
use crossbeam_channel::Sender;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use ways::{Ways, PASSAGES};
use wirespan_capture::mirror::{Begins, Frame, Link, Mirror};
use wirespan_join::{JoinConfig, Joiner, Resources};
use wirespan_model::event::Actor;
use wirespan_model::{hop, key, Resource, Span};
use wirespan_pcap::{Limits, Live, LiveFrame};

/// Longest wait for frames; with several devices, for those of the first.
const WAIT: Duration = Duration::from_millis(20);
const TICK_EVERY: Duration = Duration::from_millis(100);
const EACH_SECOND: Duration = Duration::from_secs(1);

/// Devices that are open, and not yet read.
pub(crate) struct Mirrors(Vec<(String, Mirror)>);

/// The running thread.
pub(crate) struct Mirroring {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Mirroring {
    /// Tells what is left, and closes the devices.
    pub(crate) fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the mirror thread panicked"))
    }
}

impl Mirrors {
    /// Opens the devices of the configuration, before this process gives up the capability for it. `None` if there are
    /// none.
    pub(crate) fn open(config: &Config) -> Result<Option<Self>> {
        let devices = &config.packets.mirror;
        let open = |device: &String| Ok((device.clone(), Mirror::open(device, &config.packets.mirror_ports)?));
        let open: Vec<_> = devices.iter().map(open).collect::<Result<_>>()?;
        Ok((!open.is_empty()).then_some(Mirrors(open)))
    }

    /// Starts the thread.
    pub(crate) fn start(
        self,
        join: &JoinConfig,
        host_id: u64,
        out: Sender<Batch>,
        counters: Arc<Counters>,
    ) -> Result<Mirroring> {
        // One device needs no order.
        let ways = (self.0.len() > 1).then(Ways::default);
        let passages = if ways.is_some() { PASSAGES } else { 0 };
        let limits = Limits { passages, ..Limits::default() };
        let device = |(name, mirror)| Device::new(name, mirror, join, host_id, limits);
        let devices = self.0.into_iter().map(device).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let thread = MirrorThread { devices, ways, batch: Vec::new(), dropped: 0 };
        let run = move || thread.run(&stopping, &out, &counters);
        let thread = std::thread::Builder::new().name("mirror".into()).spawn(run)?;
        Ok(Mirroring { stop, thread })
    }
}

/// Packets do not name processes.
struct Nobody(Arc<Resource>);

impl Resources for Nobody {
    fn resource(&self, _: &Actor) -> Arc<Resource> {
        Arc::clone(&self.0)
    }
}

struct Device {
    name: String,
    mirror: Mirror,
    link: Link,
    live: Live,
    joiner: Joiner,
    arp: Arp,
    icmp: Icmp,
    spans: Vec<Span>,
}

impl Device {
    fn new(name: String, mirror: Mirror, join: &JoinConfig, host_id: u64, limits: Limits) -> Self {
        // Its numbers of sockets are its own.
        let host_id = key::hash64(&[&host_id.to_ne_bytes(), name.as_bytes()]);
        let joiner = Joiner::new(join.clone(), host_id, Box::new(Nobody(Arc::default())));
        let live = Live::new(limits, mirror.begins() == Begins::Ethernet);
        let (arp, icmp) = <(Arp, Icmp)>::default();
        Device { name, mirror, link: Link::Up, live, joiner, arp, icmp, spans: Vec::new() }
    }

    fn drain(&mut self) {
        let Device { name, mirror, live, joiner, arp, icmp, spans, .. } = self;
        let is_ethernet = mirror.begins() == Begins::Ethernet;
        mirror.drain(&mut |Frame { time_ns, wire_len, data }| {
            if let Some(Some((ARP, packet))) = is_ethernet.then(|| inside(data)) {
                return arp.see(time_ns, packet);
            }
            let frame = LiveFrame { time_ns, wire_len, data };
            live.frame(frame, &mut |event| joiner.event(event, &mut |span| spans.push(of_device(span, name))));
            for error in live.icmp().iter().filter_map(|message| icmp.see(time_ns, message)) {
                tracing::warn!(device = %name, "ICMP: {error}");
            }
        });
        // Nobody copies less because of a verdict, and no threads are woken.
        joiner.verdicts();
        joiner.wakes();
    }

    fn tick(&mut self) {
        let Device { name, joiner, arp, spans, .. } = self;
        for address in arp.tick(now_ns()) {
            tracing::warn!(device = %name, %address, "nobody answers ARP requests for this address");
        }
        joiner.tick(now_ns(), &mut |span| spans.push(of_device(span, name)));
    }

    /// Says whether the device goes down, comes back, or is gone.
    fn look(&mut self) {
        let link = self.mirror.link();
        if link == std::mem::replace(&mut self.link, link) {
            return;
        }
        let device = &self.name;
        match link {
            Link::Up => tracing::warn!(device, "a mirrored device is up again: its packets are seen"),
            Link::Down => tracing::warn!(device, "a mirrored device is down: no packet is seen there until it is up"),
            Link::Gone => tracing::warn!(
                device,
                "a mirrored device is gone: no packet is seen there. If it is there again, start wirespan again"
            ),
        }
    }

    fn finish(&mut self) {
        let Device { name, live, joiner, spans, .. } = self;
        live.finish(&mut |event| joiner.event(event, &mut |span| spans.push(of_device(span, name))));
        joiner.finish(&mut |span| spans.push(of_device(span, name)));
    }
}

fn of_device(mut span: Span, device: &str) -> Span {
    span.attrs.push((hop::DEVICE.into(), device.into()));
    span
}

struct MirrorThread {
    devices: Vec<Device>,
    ways: Option<Ways>,
    batch: Vec<Arc<Span>>,
    dropped: u64,
}

impl MirrorThread {
    fn run(mut self, stop: &AtomicBool, out: &Sender<Batch>, counters: &Counters) {
        let (mut ticked, mut second) = (Instant::now(), Instant::now());
        loop {
            let ends = stop.load(Ordering::Relaxed);
            let MirrorThread { devices, ways, batch, .. } = &mut self;
            if let (Some(first), false) = (devices.first(), ends) {
                first.mirror.wait(WAIT);
            }
            devices.iter_mut().for_each(Device::drain);
            let ticks = ticked.elapsed() >= TICK_EVERY;
            if ticks {
                ticked = Instant::now();
                devices.iter_mut().for_each(Device::tick);
            }
            if ends {
                devices.iter_mut().for_each(Device::finish);
            }
            for (n, device) in devices.iter_mut().enumerate() {
                let spans = std::mem::take(&mut device.spans);
                match ways {
                    Some(ways) => ways.add(n, spans, device.live.take_passages(), now_ns()),
                    None => batch.extend(spans.into_iter().map(Arc::new)),
                }
            }
            match ways {
                Some(ways) if ends => ways.finish(batch),
                Some(ways) if ticks => ways.turn(now_ns(), batch),
                _ => {}
            }
            self.send(ends, out);
            if ends || second.elapsed() >= EACH_SECOND {
                second = Instant::now();
                self.devices.iter_mut().for_each(Device::look);
                self.publish(counters);
            }
            if ends {
                return;
            }
        }
    }

    fn send(&mut self, all: bool, out: &Sender<Batch>) {
        if self.batch.is_empty() {
            return;
        }
        let n = self.batch.len() as u64;
        let spans = Batch::Hops(std::mem::take(&mut self.batch));
        // At the end the batch waits for room: dropping it would gain nothing now.
        let sent = if all { out.send(spans).is_ok() } else { out.try_send(spans).is_ok() };
        if !sent {
            self.dropped += n;
        }
    }

    fn publish(&mut self, counters: &Counters) {
        let mut all: BTreeMap<String, u64> = BTreeMap::new();
        for device in &mut self.devices {
            let own = device.live.stats().counters();
            let joined = device.joiner.stats().counters().into_iter().map(|(name, n)| (format!("join_{name}"), n));
            for (name, n) in own.into_iter().chain(joined) {
                *all.entry(name).or_default() += n;
            }
            let own = device.arp.counters().into_iter().chain(device.icmp.counters());
            all.extend(own.map(|(counter, n)| (format!("{}_{counter}", device.name), n)));
            *all.entry("frames_lost".into()).or_default() += device.mirror.lost();
        }
        all.extend(self.ways.iter().flat_map(Ways::counters).map(|(name, n)| (name.into(), n)));
        all.insert("spans_dropped_queue_full".into(), self.dropped);
        counters.set("mirror", all.into_iter().collect());
    }
}
