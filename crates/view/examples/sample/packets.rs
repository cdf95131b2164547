//! A made-up packet program: what it would show of a flow through a bridge whose last port is congested.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use wirespan_view::packets::{
    DropView, FlowEnds, FlowView, HeatSecond, HeatView, LegView, LossView, PacketPlace, PacketsState, PacketsView,
    PlaceCount, PlaceLoss,
};
use wirespan_view::{PacketOrder, PacketSource, Whose};

const LIMIT: Duration = Duration::from_secs(60);
/// Packets a second.
const RATE: u64 = 900;

/// The program, since when it runs, how often it was changed, and when it ended.
type Run = (String, Instant, u32, Option<Instant>);

/// Runs one made-up program.
#[derive(Default)]
pub(crate) struct Programs(Mutex<Option<Run>>);

fn place(point: &str, device: &str, netns: &str) -> PacketPlace {
    PacketPlace { point: point.into(), device: device.into(), netns: netns.into(), tunnel: String::new() }
}

/// Times around a half of a doubling, with a tail of slower ones that `sways` moves from second to second.
fn heat(middle: u16, sways: u64, seconds: u64) -> HeatView {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let shares = [(0, 6u64), (1, 30), (2, 40), (3, 15), (4, 6), (6, 2), (9, 1)];
    let of = |second: u64| {
        let sway = (second % 20).abs_diff(10) * sways / 10;
        shares.map(|(above, percent)| (middle + above + sway as u16, RATE * percent / 100)).to_vec()
    };
    let shown = |second| HeatSecond { second, halves: of(second) };
    let seconds: Vec<HeatSecond> = (now + 1 - seconds.clamp(1, 60)..=now).map(shown).collect();
    let mut all = std::collections::BTreeMap::new();
    for (half, n) in seconds.iter().flat_map(|s| &s.halves) {
        *all.entry(*half).or_insert(0) += n;
    }
    let begin = |half: u16| (1u64 << (half / 2)) * if half % 2 == 1 { 3 } else { 2 } / 2;
    HeatView {
        packets: all.values().sum(),
        mean_ns: begin(middle + 2),
        p50_ns: begin(middle + 2),
        p99_ns: begin(middle + 6),
        p999_ns: begin(middle + 9),
        halves: all.into_iter().collect(),
        seconds,
    }
}

fn tables(elapsed: Duration) -> PacketsView {
    let seconds = elapsed.as_secs() + 1;
    let way = [
        (place("send", "", "web"), 0, 0),
        (place("queue", "eth0", "web"), 27, 0),
        (place("xmit", "eth0", "web"), 22, 0),
        (place("receive", "porta", ""), 23, 0),
        (place("queue", "portb", ""), 25, 0),
        (place("xmit", "portb", ""), 38, 6),
        (place("receive", "eth0", "bank"), 21, 0),
        (place("copied", "", "bank"), 30, 1),
    ];
    let leg = |pair: &[(PacketPlace, u16, u64)]| LegView {
        from: pair[0].0.clone(),
        to: pair[1].0.clone(),
        jitter_ns: 1 << (pair[1].1 / 2 - 2),
        times: heat(pair[1].1, pair[1].2, seconds),
    };
    let packets = RATE * seconds;
    // One in each second is dropped at the port before the last device.
    let loss_at = |n: usize| {
        let lost = if n == 4 { seconds } else { 0 };
        let packets = if n > 4 { packets - seconds } else { packets };
        LossView { packets, went_on: packets - lost, dropped: lost, ..LossView::default() }
    };
    let lossy = |(n, pair): (usize, &[(PacketPlace, u16, u64)])| PlaceLoss {
        place: pair[0].0.clone(),
        next: Some(pair[1].0.clone()),
        loss: loss_at(n),
    };
    let flow = |port: u16, part: u64| FlowView {
        flow: Some(FlowEnds {
            protocol: "tcp".into(),
            source: format!("10.0.0.1:{port}"),
            destination: "10.0.0.2:8080".into(),
        }),
        packets: packets / part,
        bytes: packets / part * 1200,
        resent: seconds / part,
        timed: (packets - seconds) / part,
        p50_ns: 786_432,
        p99_ns: 3_145_728,
        p999_ns: 6_291_456,
        jitter_ns: 90_000,
        loss: LossView { packets: packets / part, dropped: seconds / part, ..loss_at(4) },
    };
    let row =
        |(place, ..): &(PacketPlace, u16, u64)| PlaceCount { place: place.clone(), packets, bytes: packets * 1200 };
    PacketsView {
        sightings: packets * way.len() as u64,
        journeys: packets,
        resent: seconds,
        places: way.iter().map(row).collect(),
        legs: way.windows(2).map(leg).collect(),
        loss: way.windows(2).enumerate().map(lossy).collect(),
        flows: vec![flow(40_001, 2), flow(40_002, 3), flow(40_003, 6)],
        total: Some(heat(39, 6, seconds)),
        drops: vec![DropView {
            place: place("drop", "portb", ""),
            after: Some(place("queue", "portb", "")),
            reason: "QDISC_DROP".into(),
            packets: seconds,
            resent: seconds,
            resent_p50_ns: 19_800_000,
        }],
        ..PacketsView::default()
    }
}

impl PacketSource for Programs {
    fn now(&self) -> Arc<PacketsView> {
        let Ok(running) = self.0.lock() else { return Arc::default() };
        let Some((program, since, changes, ended)) = &*running else {
            return Arc::new(PacketsView { state: PacketsState::Idle, ..PacketsView::default() });
        };
        let elapsed = ended.map_or_else(|| since.elapsed(), |at| at.duration_since(*since)).min(LIMIT);
        let ends = ended.is_some() || elapsed >= LIMIT;
        Arc::new(PacketsView {
            state: if ends { PacketsState::Ended } else { PacketsState::Running },
            program: program.clone(),
            changes: *changes,
            elapsed_ms: elapsed.as_millis() as u64,
            limit_ms: LIMIT.as_millis() as u64,
            ..tables(elapsed)
        })
    }

    fn whose(&self, order: &PacketOrder) -> Result<Option<Whose>, (&'static str, String)> {
        match order.program.contains("prot:") {
            true => Err(("program", "line 1: unknown key `prot`; did you mean `port`?".into())),
            false => Ok(None),
        }
    }

    fn order(&self, order: &PacketOrder, _: Vec<SocketAddr>) -> Result<(), (&'static str, String)> {
        let mut running = self.0.lock().map_err(|_| ("", "it has panicked".to_owned()))?;
        *running = match running.take() {
            Some((program, since, changes, _)) if order.program.is_empty() => {
                Some((program, since, changes, Some(Instant::now())))
            }
            Some((_, since, changes, None)) => Some((order.program.clone(), since, changes + 1, None)),
            _ => Some((order.program.clone(), Instant::now(), 0, None)),
        };
        Ok(())
    }
}
