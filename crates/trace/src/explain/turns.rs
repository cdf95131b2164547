//! Requests of actors that their runtime runs in turns, as Go does with goroutines on any thread, and asyncio with
//! tasks on one. While such an actor waits, its thread runs others: the clocks of one thread do not tell its time. The
//! kernel notes its turns on threads while waits are recorded. Within a turn, the waits of that thread are the actor's;
//! between turns it was parked.

use super::breakdown::{covered_ns, Call, Piece};
use super::parts::Parts;
use super::served::Served;
use super::waits::{Stretch, Threads, SURELY_KEPT};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use wirespan_model::wait::{ActorTurn, SpanWait, ThreadWait, ThreadWaits, WaitKind, AWAITS, READY};
use wirespan_model::Text;

/// Most requests whose turns are kept.
const MOST: usize = 20_000;
/// Most ids of a request's exchange that are looked at, the last ones.
const LOOK: usize = 8;
/// The waits of a thread are asked for so long after the answer at the latest, ns.
const ASKED_NS: u64 = 10_000_000;
/// Shorter times between turns are not told as waits, ns.
const SHORTEST_NS: u64 = 1_000;

/// A thread whose turns leave out less than this and a hundredth of a time had no other actor then, ns.
const OFF_NS: u64 = 50_000;

/// What [`SpanWait::resource`] says of the time between two turns; the runtime's reason follows, if it is known.
pub(super) const PARKED: &str = "parked";

/// The turns of the actor that answered a request, in their order. One of them lasted until the answer.
#[derive(Debug)]
pub(super) struct Turns {
    /// The thread that answered. The kernel sent its waits until then.
    answered: u32,
    turns: Vec<ActorTurn>,
}

/// The turns of each request, by its process and the id of its exchange.
#[derive(Debug, Default)]
pub(super) struct Actors {
    requests: FxHashMap<(u32, u64), Turns>,
    order: VecDeque<(u32, u64)>,
}

impl Actors {
    /// Keeps the turns that came with the waits of the thread that answered.
    pub(super) fn add(&mut self, waits: &mut ThreadWaits) {
        if waits.turns.is_empty() || waits.exchange == 0 {
            return;
        }
        let request = (waits.pid, waits.exchange);
        let turns = Turns { answered: waits.tid, turns: std::mem::take(&mut waits.turns) };
        if self.requests.insert(request, turns).is_none() {
            self.order.push_back(request);
        }
        if self.order.len() > MOST {
            self.order.pop_front().and_then(|oldest| self.requests.remove(&oldest));
        }
    }

    /// The turns of the actor that answered this request, if they are known.
    pub(super) fn of(&self, request: &Served) -> Option<&Turns> {
        let range = request.exchange?;
        (range.first..=range.last).rev().take(LOOK).find_map(|id| self.requests.get(&(request.pid, id)))
    }

    /// Whether a thread ran the actor of a request at this time; also if the request has none, or it is not known.
    pub(super) fn ran(&self, pid: u32, exchange: u64, tid: u32, time_ns: u64) -> bool {
        let had = |turn: &ActorTurn| turn.tid == tid && (turn.from_ns..=turn.to_ns).contains(&time_ns);
        self.requests.get(&(pid, exchange)).is_none_or(|of| of.turns.iter().any(had))
    }
}

impl Turns {
    /// The parts of a request of these pieces, with these calls. A busy thread may have waited more often than the
    /// kernel keeps. Then its clocks are asked, if it ran this actor alone. So are those of a thread that runs no
    /// actors, and that moved messages of the request while the actor was parked.
    pub(super) fn parts_of_pieces(&self, threads: &Threads, pieces: &[Piece], calls: &[Call]) -> Parts {
        Parts::sum(pieces.iter().map(|piece| {
            if piece.thread.is_some_and(|tid| threads.acts_itself(tid)) {
                return piece.parts;
            }
            let by_turns = self.parts(threads, (piece.from_ns, piece.to_ns), calls);
            let misses = by_turns.unknown > piece.parts.unknown;
            if misses && self.had_all_of(piece) {
                piece.parts
            } else {
                by_turns
            }
        }))
    }

    /// Whether the thread of a piece ran this actor all the time, or waited for it.
    fn had_all_of(&self, piece: &Piece) -> bool {
        let (length, time) = (piece.to_ns.saturating_sub(piece.from_ns), (piece.from_ns, piece.to_ns));
        let of_thread = self.turns.iter().filter(|turn| piece.thread == Some(turn.tid));
        let own = of_thread.filter_map(|turn| clipped((turn.from_ns, turn.to_ns), time)).map(|(from, to)| to - from);
        length <= own.sum::<u64>() + OFF_NS + length / 100
    }

    /// The parts of a time of the request with these calls.
    pub(super) fn parts(&self, threads: &Threads, time: (u64, u64), calls: &[Call]) -> Parts {
        let cover = |from_ns: u64, to_ns: u64| covered_ns(from_ns, to_ns, calls);
        let mut parts = Parts::default();
        for turn in &self.turns {
            let Some(within) = clipped((turn.from_ns, turn.to_ns), time) else { continue };
            parts += self.parts_of(turn, within, threads, &cover);
        }
        for (Gap { from_ns, ready_ns, to_ns }, _) in self.gaps(time) {
            let in_calls = cover(from_ns, ready_ns);
            parts.children += in_calls;
            parts.blocked += (ready_ns - from_ns).saturating_sub(in_calls);
            parts.runtime_queue += to_ns - ready_ns;
        }
        parts.unknown = (time.1 - time.0.min(time.1)).saturating_sub(parts.known());
        parts
    }

    /// The parts of a time within a turn. When the actor ran is known only if all waits of the thread since then have
    /// come, or if the waits that came leave no more of the turn than its thread was on a processor.
    fn parts_of(
        &self,
        turn: &ActorTurn,
        time: (u64, u64),
        threads: &Threads,
        cover: &dyn Fn(u64, u64) -> u64,
    ) -> Parts {
        let still_waited = |w: &ThreadWait| w.ran_ns == 0 && w.stopped_ns < turn.to_ns;
        if threads.within(turn.tid, time.0, time.1).any(still_waited) {
            return Parts::default();
        }
        let until_ns = self.turns.last().map_or(0, |last| last.to_ns) + ASKED_NS;
        let came = turn.tid == self.answered || threads.within(turn.tid, turn.to_ns, until_ns).next().is_some();
        let is_complete = came && threads.within(turn.tid, time.0, until_ns).count() < SURELY_KEPT;
        let parts = threads.parts_between(turn.tid, time, cover);
        let whole = (turn.from_ns, turn.to_ns);
        let leave_no_more = || {
            let may_have_run = threads.parts_between(turn.tid, whole, &|_, _| 0).on_cpu;
            turn.ran_ns != 0 && may_have_run <= turn.ran_ns + OFF_NS + turn.ran_ns / 100
        };
        let on_cpu = if is_complete || leave_no_more() {
            parts.on_cpu
        } else if time == whole {
            parts.on_cpu.min(turn.ran_ns)
        } else {
            0
        };
        Parts { on_cpu, ..parts }
    }

    /// When which thread acted for the request.
    pub(super) fn stretches(&self, time: (u64, u64)) -> Vec<Stretch> {
        let within = |turn: &ActorTurn| Some((turn.tid, clipped((turn.from_ns, turn.to_ns), time)?));
        self.turns.iter().filter_map(within).map(|(tid, time)| Stretch::all_of(tid, time)).collect()
    }

    /// The times in which no thread ran the actor, as waits.
    pub(super) fn parked(&self, time: (u64, u64), calls: &[Call]) -> Vec<SpanWait> {
        let wait = |(Gap { from_ns, ready_ns, to_ns }, why): (Gap, &Text)| SpanWait {
            kind: WaitKind::Runtime,
            start_ns: from_ns,
            duration_ns: to_ns - from_ns,
            ready_ns: to_ns - ready_ns,
            resource: match &**why {
                READY => READY.into(),
                "" => PARKED.into(),
                why if why.starts_with(AWAITS) => why.into(),
                why => format!("{PARKED}: {why}").into(),
            },
            in_call: covered_ns(from_ns, to_ns, calls) * 10 >= (to_ns - from_ns) * 9,
            ..SpanWait::default()
        };
        self.gaps(time).filter(|(gap, _)| gap.to_ns - gap.from_ns >= SHORTEST_NS).map(wait).collect()
    }

    /// The times between turns, and why it was parked. Before the first turn that is known, the actor may have run,
    /// unless it was ready for that.
    fn gaps(&self, time: (u64, u64)) -> impl Iterator<Item = (Gap, &Text)> + '_ {
        let first = self.turns.first().filter(|first| first.ready_ns != 0);
        let first = first.map(|first| (first.ready_ns, first));
        let others = self.turns.windows(2).map(|pair| (pair[0].to_ns, &pair[1]));
        first.into_iter().chain(others).filter_map(move |(from_ns, next)| {
            let (from_ns, to_ns) = clipped((from_ns, next.from_ns), time)?;
            let ready_ns = match (next.ready_ns, &*next.parked) {
                (_, READY) => from_ns,
                (0, _) => to_ns,
                (ready_ns, _) => ready_ns.clamp(from_ns, to_ns),
            };
            Some((Gap { from_ns, ready_ns, to_ns }, &next.parked))
        })
    }
}

/// The time between two turns: the actor was parked until it was ready, and then waited for its runtime.
struct Gap {
    from_ns: u64,
    ready_ns: u64,
    to_ns: u64,
}

/// Whether a wait is the time between two turns. What of it the actor was ready, no thread was.
pub(super) fn is_between_turns(wait: &SpanWait) -> bool {
    let is_parked = [PARKED, AWAITS].iter().any(|why| wait.resource.starts_with(why));
    wait.kind == WaitKind::Runtime && (is_parked || wait.resource == READY)
}

fn clipped((from_ns, to_ns): (u64, u64), time: (u64, u64)) -> Option<(u64, u64)> {
    let (from_ns, to_ns) = (from_ns.max(time.0), to_ns.min(time.1));
    (from_ns < to_ns).then_some((from_ns, to_ns))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use wirespan_model::ExchangeRange;

    fn turn(tid: u32, from_ns: u64, to_ns: u64) -> ActorTurn {
        ActorTurn { tid, from_ns, to_ns, ..ActorTurn::default() }
    }

    fn waits(tid: u32, times: &[(u64, u64, u64)]) -> ThreadWaits {
        let wait =
            |&(stopped_ns, woken_ns, ran_ns)| ThreadWait { stopped_ns, woken_ns, ran_ns, ..ThreadWait::default() };
        ThreadWaits { pid: 1, tid, waits: times.iter().map(wait).collect(), ..ThreadWaits::default() }
    }

    /// On a processor, ready, blocked, not known.
    fn parts(turns: &Turns, threads: &Threads, time: (u64, u64)) -> [u64; 4] {
        let parts = turns.parts(threads, time, &[]);
        assert_eq!(parts.values().iter().sum::<u64>(), time.1 - time.0);
        [parts.on_cpu, parts.run_queue, parts.blocked, parts.unknown]
    }

    #[test]
    fn an_actor_has_the_time_of_the_threads_that_ran_it() {
        let mut threads = Threads::default();
        threads.add(waits(5, &[(150, 170, 180), (200, 390, 400)]));
        // It ran another actor before, and idles since.
        threads.add(waits(6, &[(250, 290, 295), (350, 0, 0)]));
        let turns = Turns { answered: 5, turns: vec![turn(5, 100, 200), turn(6, 300, 350), turn(5, 400, 500)] };
        assert_eq!(parts(&turns, &threads, (100, 500)), [70 + 50 + 100, 10, 20 + 100 + 50, 0]);
        assert_eq!(parts(&turns, &threads, (210, 340)), [40, 0, 90, 0]);
        assert_eq!(parts(&turns, &threads, (50, 120)), [20, 0, 0, 50], "what was before the first turn is not known");
        let parked: Vec<_> = turns.parked((100, 500), &[]).iter().map(|w| w.duration_ns).collect();
        assert_eq!(parked, [] as [u64; 0], "too short to be told");
    }

    #[test]
    fn between_turns_an_actor_is_parked_and_then_ready() {
        const MS: u64 = 1_000_000;
        let mut runs = vec![turn(5, 0, MS), turn(5, 9 * MS, 10 * MS), turn(5, 12 * MS, 13 * MS)];
        (runs[1].ready_ns, runs[2].parked) = (7 * MS, READY.into());
        let turns = Turns { answered: 5, turns: runs };
        let span = wirespan_model::Span { start_ns: 4 * MS, end_ns: 8 * MS, ..wirespan_model::Span::default() };
        let calls = [Call::of(&span)];
        let parts = turns.parts(&Threads::default(), (0, 13 * MS), &calls);
        assert_eq!((parts.blocked, parts.children, parts.runtime_queue), (3 * MS, 3 * MS, 2 * MS + 2 * MS));
        let waits = turns.parked((0, 13 * MS), &[]);
        let told: Vec<_> = waits.iter().map(|w| (&*w.resource, w.duration_ns / MS, w.ready_ns / MS)).collect();
        assert_eq!(told, [(PARKED, 8, 2), (READY, 2, 2)]);
        assert!(waits.iter().all(is_between_turns));
    }

    #[test]
    fn an_actor_says_why_it_was_parked() {
        const US: u64 = 1_000;
        let why =
            |parked: &str, from_us| ActorTurn { parked: parked.into(), ..turn(5, from_us * US, (from_us + 5) * US) };
        let awaits = || why("awaits: Lock.acquire", 50);
        let turns = vec![why("chan send", 10), why("chan receive", 20), why(READY, 30), why("", 40), awaits()];
        let waits = Turns { answered: 5, turns }.parked((12 * US, 60 * US), &[]);
        assert!(waits.iter().all(is_between_turns));
        let told: Vec<_> = waits.iter().map(|w| (w.start_ns / US, w.duration_ns / US, &*w.resource)).collect();
        let by_turn =
            [(15, 5, "parked: chan receive"), (25, 5, READY), (35, 5, PARKED), (45, 5, "awaits: Lock.acquire")];
        assert_eq!(told, by_turn);
    }

    #[test]
    fn a_turn_on_a_thread_whose_waits_did_not_come_is_not_known() {
        let mut threads = Threads::default();
        let turns = Turns { answered: 5, turns: vec![turn(6, 300, 350), turn(5, 400, 500)] };
        assert_eq!(parts(&turns, &threads, (300, 500)), [100, 0, 50, 50]);
        // When they were told, it still waited; it has run this actor since.
        threads.add(waits(6, &[(100, 0, 0)]));
        assert_eq!(parts(&turns, &threads, (300, 500)), [100, 0, 50, 50]);
        // The end of that wait was never told, but a later wait was.
        threads.add(waits(6, &[(340, 345, 348), (350, 0, 0)]));
        assert_eq!(parts(&turns, &threads, (300, 500)), [100 + 42, 3, 50 + 5, 0]);
        // The thread that answers waits no longer.
        threads.add(waits(5, &[(390, 0, 0)]));
        threads.add(ThreadWaits { exchange: 1, ..waits(5, &[]) });
        assert_eq!(parts(&turns, &threads, (300, 500)), [100 + 42, 3, 50 + 5, 0]);
    }

    #[test]
    fn the_clock_of_a_turn_tells_that_all_waits_have_come() {
        const MS: u64 = 1_000_000;
        let ran = |ran_ms| Turns {
            answered: 5,
            turns: vec![ActorTurn { ran_ns: ran_ms * MS, ..turn(6, 0, 20 * MS) }, turn(5, 30 * MS, 40 * MS)],
        };
        let mut threads = Threads::default();
        threads.add(waits(6, &[(10 * MS, 10 * MS, 15 * MS)]));
        assert_eq!(parts(&ran(15), &threads, (2 * MS, 20 * MS)), [13 * MS, 5 * MS, 0, 0]);
        // Some waits are missing: how long it ran is known of the whole turn alone.
        assert_eq!(parts(&ran(12), &threads, (2 * MS, 20 * MS)), [0, 5 * MS, 0, 13 * MS]);
        assert_eq!(parts(&ran(12), &threads, (0, 20 * MS)), [12 * MS, 5 * MS, 0, 3 * MS]);
        assert_eq!(parts(&ran(0), &threads, (0, 20 * MS)), [0, 5 * MS, 0, 15 * MS]);
    }

    #[test]
    fn of_a_turn_whose_waits_were_forgotten_the_clocks_of_the_thread_are_told() {
        const MS: u64 = 1_000_000;
        let threads = Threads::default();
        // It was interrupted for a moment, and then parked.
        let runs = [turn(5, 0, 10 * MS), turn(5, 10 * MS + 2_000, 20 * MS), turn(5, 30 * MS, 40 * MS)];
        let turns = Turns { answered: 6, turns: runs.to_vec() };
        let of_clocks = Parts { on_cpu: 7 * MS, run_queue: 13 * MS, ..Parts::default() };
        let of = |from_ns, to_ns, thread| {
            let piece = Piece { from_ns, to_ns, parts: of_clocks, thread };
            let parts = turns.parts_of_pieces(&threads, &[piece], &[]);
            (parts.on_cpu, parts.blocked, parts.unknown)
        };
        assert_eq!(of(0, 20 * MS, Some(5)), (7 * MS, 0, 0));
        assert_eq!(of(0, 20 * MS, None), (0, 2_000, 20 * MS - 2_000));
        assert_eq!(of(0, 40 * MS, Some(5)), (0, 10 * MS + 2_000, 30 * MS - 2_000), "it ran others, perhaps");
    }

    #[test]
    fn before_its_first_turn_an_actor_was_ready_since_it_was_made() {
        const MS: u64 = 1_000_000;
        let first = ActorTurn { ready_ns: 3 * MS, parked: READY.into(), ..turn(5, 5 * MS, 9 * MS) };
        let turns = Turns { answered: 5, turns: vec![first] };
        let parts = turns.parts(&Threads::default(), (0, 9 * MS), &[]);
        assert_eq!((parts.runtime_queue, parts.on_cpu, parts.unknown), (2 * MS, 4 * MS, 3 * MS));
    }

    #[test]
    fn a_thread_that_runs_no_actors_has_its_own_time_while_the_actor_is_parked() {
        const MS: u64 = 1_000_000;
        let of_clocks = Parts { on_cpu: 7 * MS, blocked: 3 * MS, ..Parts::default() };
        let turns = Turns { answered: 5, turns: vec![turn(5, 0, 2 * MS), turn(5, 18 * MS, 20 * MS)] };
        let told = |runs_actors| {
            let mut threads = Threads::default();
            threads.add(ThreadWaits { runs_actors, ..waits(6, &[]) });
            let piece = Piece { from_ns: 4 * MS, to_ns: 14 * MS, parts: of_clocks, thread: Some(6) };
            let parts = turns.parts_of_pieces(&threads, &[piece], &[]);
            (parts.on_cpu, parts.blocked)
        };
        assert_eq!(told(false), (7 * MS, 3 * MS));
        assert_eq!(told(true), (0, 10 * MS), "the thread may have run others meanwhile");
    }

    #[test]
    fn turns_are_found_by_the_exchange_and_are_bounded() {
        let mut actors = Actors::default();
        for exchange in 1..=MOST as u64 + 1 {
            actors.add(&mut ThreadWaits { exchange, turns: vec![turn(5, 1, 2)], ..waits(5, &[]) });
        }
        let of = |first, last| Served { pid: 1, exchange: Some(ExchangeRange { first, last }), ..Served::default() };
        assert!(actors.of(&of(1, 1)).is_none() && actors.of(&of(2, 2)).is_some());
        assert!(actors.of(&of(1, 3)).is_some() && actors.of(&Served { pid: 2, ..of(2, 2) }).is_none());
        assert_eq!((actors.requests.len(), actors.order.len()), (MOST, MOST));
    }
}
