//! The tables of a packet program that the UI shows.

use super::names::Reason;
use super::places::Places;
use super::report::ends;
use super::{Action, Names};
use wirespan_journey::{
    FlowSum, Flows, Heat, Histogram, Hop, Joiner, Journey, Live, Loss, Place, Settings, UNDER_WAY_NS,
};
use wirespan_model::packet::{Route, Sighting, Tunnel};
use wirespan_view::packets::{
    DropView, FlowView, HeatSecond, HeatView, LegView, LossView, PacketPlace, PacketsView, PlaceCount, PlaceLoss,
};

/// Rows of a table at most: each names other places, and a program may select many devices.
pub(super) const ROWS: usize = 100;

/// Adds up what the UI shows.
pub(crate) struct Board {
    actions: Vec<Action>,
    joiner: Joiner,
    live: Live,
    places: Places,
    flows: Flows,
    latest_ns: u64,
}

impl Board {
    pub(crate) fn new(actions: &[Action]) -> Self {
        Board {
            actions: actions.to_vec(),
            joiner: Joiner::new(Settings::default()),
            live: Live::default(),
            places: Places::default(),
            flows: Flows::default(),
            latest_ns: 0,
        }
    }

    /// From now on these are the actions. What was counted stays.
    pub(crate) fn act(&mut self, actions: &[Action]) {
        self.actions = actions.to_vec();
    }

    fn has(&self, action: Action) -> bool {
        self.actions.contains(&action)
    }

    /// Takes a sighting.
    pub(crate) fn see(&mut self, s: &Sighting) {
        let joins = [Action::Latency, Action::Drops, Action::Journeys, Action::Loss, Action::Flows];
        if joins.iter().any(|action| self.has(*action)) {
            self.joiner.add(s);
            self.latest_ns = self.latest_ns.max(s.time_ns);
        }
        if self.has(Action::Count) {
            self.places.add(s);
        }
    }

    /// See [`Joiner::pass`].
    pub(crate) fn pass(&mut self, now_ns: u64) {
        self.joiner.pass(now_ns);
    }

    /// Adds the journeys that are known by now, and returns them; all of them at the `end`.
    pub(crate) fn due(&mut self, end: bool) -> Vec<Journey> {
        let journeys = if end { self.joiner.finish() } else { self.joiner.due() };
        journeys.iter().for_each(|journey| self.live.add(journey));
        if self.has(Action::Loss) || self.has(Action::Flows) {
            let until_ns = if end { self.latest_ns.saturating_sub(UNDER_WAY_NS) } else { u64::MAX };
            journeys.iter().for_each(|journey| self.flows.add(journey, until_ns));
        }
        journeys
    }

    /// Packets whose journeys are not told yet.
    pub(crate) fn under_way(&self) -> u64 {
        self.joiner.under_way() as u64
    }

    /// Sightings for which the join had no room.
    pub(crate) fn not_kept(&self) -> u64 {
        self.joiner.counts().too_many
    }

    /// Puts the tables into `view`.
    pub(crate) fn show(&self, names: &Names, reason: &Reason<'_>, view: &mut PacketsView) {
        let summary = self.live.summary();
        (view.journeys, view.resent) = (summary.journeys(), summary.resent());
        if self.has(Action::Count) {
            let row = |(of, packets, bytes)| PlaceCount { place: place(of, names), packets, bytes };
            view.places = self.places.iter().take(ROWS).map(row).collect();
        }
        if self.has(Action::Latency) {
            let row = |(leg, of, jitter_ns): (&wirespan_journey::Leg, &Heat, u64)| LegView {
                from: place(&leg.from, names),
                to: place(&leg.to, names),
                jitter_ns,
                times: heat(of),
            };
            view.legs = self.live.legs().take(ROWS).map(row).collect();
            view.total = Some(heat(self.live.total()));
        }
        if self.has(Action::Drops) {
            let drops = summary.drops().into_iter().take(ROWS);
            let row = |((at, after, why), drops): (&wirespan_journey::DropPlace, &wirespan_journey::Drops)| DropView {
                place: place(at, names),
                after: after.as_ref().map(|after| place(after, names)),
                reason: reason(*why),
                packets: drops.packets,
                resent: drops.resent_after.count() as u64,
                resent_p50_ns: drops.resent_after.quantile(0.5),
            };
            view.drops = drops.map(row).collect();
        }
        if self.has(Action::Loss) {
            let row = |(at, next, loss): Hop<'_>| PlaceLoss {
                place: place(at, names),
                next: next.map(|next| place(next, names)),
                loss: lost(&loss),
            };
            view.loss = self.flows.hops(summary).into_iter().take(ROWS).map(row).collect();
        }
        if self.has(Action::Flows) {
            self.show_flows(view);
        }
    }

    fn show_flows(&self, view: &mut PacketsView) {
        let all = self.flows.flows();
        let shown = |nth: usize, route: Option<&Route>| nth < ROWS || route.is_none();
        let row = |(route, flow, loss): &(Option<&Route>, &FlowSum, Loss)| FlowView {
            flow: route.map(ends),
            packets: flow.packets,
            bytes: flow.bytes,
            resent: flow.resent,
            timed: flow.times.count(),
            p50_ns: flow.times.quantile(0.5),
            p99_ns: flow.times.quantile(0.99),
            p999_ns: flow.times.quantile(0.999),
            jitter_ns: flow.jitter(),
            loss: lost(loss),
        };
        view.flows = all.iter().enumerate().filter(|(n, of)| shown(*n, of.0)).map(|(_, of)| row(of)).collect();
        view.flows_left_out = (all.len() - view.flows.len()) as u64;
    }
}

fn lost(of: &Loss) -> LossView {
    let Loss { packets, went_on, dropped, missing, under_way } = *of;
    LossView { packets, went_on, dropped, missing, under_way }
}

pub(super) fn place(of: &Place, names: &Names) -> PacketPlace {
    PacketPlace {
        point: of.point.as_str().into(),
        device: of.device.to_string(),
        netns: names.netns(of.netns),
        tunnel: if of.tunnel == Tunnel::None { String::new() } else { of.tunnel.as_str().into() },
    }
}

pub(super) fn heat(of: &Heat) -> HeatView {
    let all = of.all();
    let second = |(second, of): (u64, &Histogram)| HeatSecond { second, halves: of.halves() };
    HeatView {
        packets: all.count(),
        mean_ns: all.mean(),
        p50_ns: all.quantile(0.5),
        p99_ns: all.quantile(0.99),
        p999_ns: all.quantile(0.999),
        halves: all.halves(),
        seconds: of.seconds().map(second).collect(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::Report;
    use super::*;
    use crate::cli::Format;
    use serde_json::Value;
    use std::time::Duration;
    use wirespan_model::packet::{Point, TCP};
    use wirespan_model::test_support::sighting;

    fn seen(point: Point, time_ns: u64, seq: u32) -> Sighting {
        Sighting { point, time_ns, device: "eth0".into(), ..sighting(TCP, seq, 10) }
    }

    fn shown(board: &Board) -> PacketsView {
        let mut view = PacketsView::default();
        board.show(&Names::default(), &|number| format!("reason {number}"), &mut view);
        view
    }

    #[test]
    fn the_tables_are_those_of_the_actions() {
        let mut board = Board::new(&[Action::Count]);
        board.see(&seen(Point::Queue, 1_000_000_000, 1));
        board.see(&seen(Point::Xmit, 1_000_008_000, 1));
        board.due(true);
        let view = shown(&board);
        assert_eq!(view.places.iter().map(|p| (p.packets, p.bytes)).collect::<Vec<_>>(), [(1, 10), (1, 10)]);
        assert_eq!((view.legs.len(), view.total.is_some(), view.drops.len()), (0, false, 0));

        board.act(&[Action::Latency, Action::Drops]);
        for n in 0..10 {
            board.see(&seen(Point::Queue, 2_000_000_000 + n * 1000, 100 + n as u32 * 10));
            board.see(&seen(Point::Xmit, 2_000_008_000 + n * 1000, 100 + n as u32 * 10));
        }
        board.see(&Sighting { reason: 7, ..seen(Point::Drop, 2_000_009_000, 100) });
        board.due(true);
        let view = shown(&board);
        assert_eq!(view.places, [], "no longer asked for");
        let leg = &view.legs[0];
        assert_eq!((leg.from.point.as_str(), leg.to.point.as_str(), leg.times.packets), ("queue", "xmit", 10));
        assert!(leg.times.p50_ns.abs_diff(8000) <= 500, "{leg:?}");
        assert_eq!(leg.times.seconds.len(), 1);
        assert_eq!(view.total.map(|total| total.packets), Some(9), "the dropped one did not arrive");
        assert_eq!((view.drops.len(), view.drops[0].reason.as_str()), (1, "reason 7"));
    }

    #[test]
    fn a_page_tells_the_same_quantiles_as_the_command() {
        let actions = [Action::Latency, Action::Flows];
        let (mut board, mut report) = (Board::new(&actions), Report::new(&actions, Format::Json));
        let (names, mut out) = (Names::default(), String::new());
        // A thousand times, of which the last two are far apart.
        for n in 0..1000u64 {
            let took = [(998, 40_000_000), (999, 90_000_000)].into_iter().find(|(nth, _)| *nth == n);
            let took = took.map_or(10_000 + n * 7, |(_, took)| took);
            for (point, time_ns) in [(Point::Queue, n * 1_000_000), (Point::Xmit, n * 1_000_000 + took)] {
                let s = seen(point, 1_000_000_000 + time_ns, n as u32 * 10);
                board.see(&s);
                report.see(&s, &names, &|_| String::new(), &mut out).unwrap();
            }
        }
        board.due(true);
        report.due(&names, &|_| String::new(), true, &mut out).unwrap();
        report.end(Duration::from_secs(1), &names, &|_| String::new(), &mut out).unwrap();
        let told: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let times = |kind: &str| &told.iter().find(|line| line["kind"] == kind).unwrap()["times"];
        let view = shown(&board);
        let (leg, flow, total) = (&view.legs[0].times, &view.flows[0], view.total.as_ref().unwrap());
        let page = |of: &HeatView| [of.p50_ns, of.p99_ns, of.p999_ns];
        let rows = [("latency", page(leg)), ("total", page(total)), ("flow", [flow.p50_ns, flow.p99_ns, flow.p999_ns])];
        for (kind, page) in rows {
            for (key, told) in ["p50_ns", "p99_ns", "p999_ns"].into_iter().zip(page) {
                let is = times(kind)[key].as_u64().unwrap();
                assert!(told.abs_diff(is) * 100 <= is, "{kind} {key}: {told} and {is}");
            }
        }
        assert_eq!(times("total")["p999_ns"], 40_000_000);
    }

    #[test]
    fn loss_and_flows_have_tables_and_what_is_left_out_is_counted() {
        let mut board = Board::new(&[Action::Loss, Action::Flows]);
        for n in 0..ROWS as u16 + 5 {
            let of = |point, time_ns| {
                let mut s = Sighting { len: 10 + u32::from(n), ..seen(point, time_ns, 1) };
                s.route.source_port = 1000 + n;
                s
            };
            board.see(&of(Point::Queue, 1_000_000_000));
            if n != 7 {
                board.see(&of(Point::Xmit, 1_000_008_000));
            }
        }
        // What came last may be on its way.
        board.see(&seen(Point::Queue, 9_000_000_000, 500));
        board.due(true);
        let view = shown(&board);
        assert_eq!((view.places.len(), view.legs.len(), view.drops.len()), (0, 0, 0), "not asked for");
        let [at] = &view.loss[..] else { panic!("{:?}", view.loss) };
        let next = at.next.as_ref().map(|next| next.point.as_str());
        assert_eq!((at.place.point.as_str(), next), ("queue", Some("xmit")));
        let wanted = LossView { packets: 106, went_on: 104, dropped: 0, missing: 1, under_way: 1 };
        assert_eq!(at.loss, wanted);
        assert_eq!((view.flows.len(), view.flows_left_out), (ROWS, 6), "those with the fewest bytes, and the last");
        let first = &view.flows[0];
        assert!(first.flow.as_ref().is_some_and(|flow| flow.source.ends_with(":1104")), "{first:?}");
        assert_eq!((first.packets, first.bytes, first.timed, first.loss.missing), (1, 114, 1, 0));
        let lost: u64 = view.flows.iter().map(|flow| flow.loss.missing).sum();
        assert_eq!(lost, 1);
    }
}
