//! The tables of a packet program that the UI shows.

use super::names::Reason;
use super::places::Places;
use super::{Action, Names};
use wirespan_journey::{Heat, Histogram, Joiner, Journey, Live, Place, Settings};
use wirespan_model::packet::{Sighting, Tunnel};
use wirespan_view::packets::{DropView, HeatSecond, HeatView, LegView, PacketPlace, PacketsView, PlaceCount};

/// Rows of a table at most: each names other places, and a program may select many devices.
const ROWS: usize = 100;

/// Adds up what the UI shows.
pub(crate) struct Board {
    actions: Vec<Action>,
    joiner: Joiner,
    live: Live,
    places: Places,
}

impl Board {
    pub(crate) fn new(actions: &[Action]) -> Self {
        let joiner = Joiner::new(Settings::default());
        Board { actions: actions.to_vec(), joiner, live: Live::default(), places: Places::default() }
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
        if [Action::Latency, Action::Drops, Action::Journeys].iter().any(|action| self.has(*action)) {
            self.joiner.add(s);
        }
        if self.has(Action::Count) {
            self.places.add(s);
        }
    }

    /// Adds the journeys that are known by now, and returns them; all of them at the `end`.
    pub(crate) fn due(&mut self, end: bool) -> Vec<Journey> {
        let journeys = if end { self.joiner.finish() } else { self.joiner.due() };
        journeys.iter().for_each(|journey| self.live.add(journey));
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
    }
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
mod tests {
    use super::*;
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
}
