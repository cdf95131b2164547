//! Turns of actors that a runtime runs on its threads: which thread ran the actor of a request, and when.

use super::record::text;
use crate::boxes;
use crate::clock::Clock;
use crate::object::WirespanSkel;
use crate::runtime::Functions;
use crate::wire::contract::{
    Turn, Turns as Kept, GO_REASON_NAME, GO_REASON_PLACE, WS_PARK_READY, WS_PARK_UNKNOWN, WS_TURNS_KEPT,
    WS_TURN_ACTORS, WS_TURN_ACTORS_BITS, WS_TURN_READY_BITS,
};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use rustc_hash::FxHashSet;
use std::time::{Duration, Instant};
use wirespan_model::wait::{ActorTurn, AWAITS, READY};
use wirespan_model::Text;

/// Requests whose answers a loop sends for the actor that wrote them. Older ones are forgotten.
const REQUESTS: u32 = 8_192;
/// How long names of functions are kept: other code may come to the same place.
const NAMES_KEPT: Duration = Duration::from_secs(60);

/// The kernel's table of turns, while waits are asked for.
#[derive(Default)]
pub(super) struct Turns {
    table: Option<MapHandle>,
    /// What the numbers of reasons mean, by process.
    reasons: Option<MapHandle>,
    /// Names of functions of interpreters, and since when they are kept.
    functions: Option<(Functions, Instant)>,
    /// Processes of whose actors turns were seen.
    processes: FxHashSet<u32>,
    /// Requests of whose actor no turn is known any more, or not the first ones: others took its places.
    pub(super) lost: u64,
}

impl Turns {
    /// Makes the tables and puts them where the kernel programs find them, or takes them away.
    pub(super) fn keep(&mut self, skel: &WirespanSkel<'static>, wanted: bool) {
        if wanted == self.table.is_some() {
            return;
        }
        let (turns, acted) = (&skel.maps.actor_turns, &skel.maps.turn_actors);
        if !wanted {
            let _ = turns.delete(&boxes::PLACE);
            let _ = acted.delete(&boxes::PLACE);
            *self = Turns { lost: self.lost, ..Turns::default() };
            return;
        }
        self.reasons = MapHandle::try_from(&skel.maps.go_reasons).ok();
        self.functions = Functions::open(skel).map(|functions| (functions, Instant::now()));
        let warn = |error: &_| tracing::warn!(%error, "no memory for turns of goroutines and tasks");
        let table = boxes::make_array(turns, "actor_turns", Kept::SIZE as u32, WS_TURN_ACTORS);
        self.table = table.inspect_err(warn).ok();
        // Its box keeps it.
        let _ = boxes::make_table(acted, "turn_actors", (8, 8), REQUESTS).inspect_err(warn);
    }

    /// The turns of an actor in this time of the kernel, in their order.
    pub(super) fn of(&mut self, pid: u32, actor: u64, time: (u64, u64), clock: &Clock) -> Vec<ActorTurn> {
        let Some(table) = self.table.as_ref().filter(|_| actor != 0) else { return Vec::new() };
        let entry = table.lookup(&place(pid, actor).to_ne_bytes(), MapFlags::ANY).ok().flatten();
        let Some(read) = entry.and_then(|entry| read(&entry, (pid, actor), time)) else {
            // Actors of other runtimes have no turns at all.
            self.lost += u64::from(self.processes.contains(&pid));
            return Vec::new();
        };
        self.processes.insert(pid);
        self.lost += u64::from(read.is_cut);
        let texts = self.reasons.as_ref().and_then(|map| map.lookup(&pid.to_ne_bytes(), MapFlags::ANY).ok()?);
        let texts = texts.as_deref().and_then(|value| value.get(GO_REASON_PLACE as usize..)).unwrap_or_default();
        if let Some((functions, since)) = self.functions.as_mut().filter(|(_, since)| since.elapsed() > NAMES_KEPT) {
            functions.forget();
            *since = Instant::now();
        }
        let functions = &mut self.functions;
        let mut awaited = |place: u64| -> Option<Text> {
            let frame = functions.as_mut()?.0.name(pid, &[place]).into_iter().next()?;
            (!frame.function.is_empty()).then(|| format!("{AWAITS}{}", frame.function).into())
        };
        let told = |(turn, to_ns): (Turn, u64)| ActorTurn {
            tid: turn.tid,
            from_ns: clock.to_unix(turn.from_ns),
            to_ns: clock.to_unix(to_ns),
            ran_ns: u64::from(turn.ran_us) * 1000,
            ready_ns: clock.to_unix(ready_ns(&turn)),
            parked: match turn.awaited {
                0 => reason(texts, turn.before >> WS_TURN_READY_BITS),
                place => awaited(place).unwrap_or_default(),
            },
        };
        read.turns.into_iter().map(told).collect()
    }
}

/// The place of an actor in the table (bpf/wait/turns.h).
fn place(pid: u32, actor: u64) -> u32 {
    const HASH: u64 = 0x9e37_79b9_7f4a_7c15;
    ((actor ^ u64::from(pid)).wrapping_mul(HASH) >> (64 - WS_TURN_ACTORS_BITS)) as u32
}

/// Why an actor was parked, by the number that its runtime gives.
fn reason(texts: &[u8], number: u32) -> Text {
    match number {
        WS_PARK_UNKNOWN => Text::default(),
        WS_PARK_READY => READY.into(),
        _ => text(texts.chunks_exact(GO_REASON_NAME as usize).nth(number as usize).unwrap_or_default()),
    }
}

/// Since when the actor was ready for a turn.
fn ready_ns(turn: &Turn) -> u64 {
    turn.from_ns.saturating_sub(u64::from(turn.before & ((1 << WS_TURN_READY_BITS) - 1)) * 1000)
}

/// What a place of the table says of its actor in some time.
struct Read {
    /// In their order, with their ends.
    turns: Vec<(Turn, u64)>,
    /// There were more turns in this time than the table keeps.
    is_cut: bool,
}

fn read(entry: &[u8], of: (u32, u64), (since_ns, until_ns): (u64, u64)) -> Option<Read> {
    let head = Kept::read(entry).filter(|head| (head.pid, head.actor) == of)?;
    let first = Kept::SIZE - WS_TURNS_KEPT as usize * Turn::SIZE;
    let taken = head.next.min(WS_TURNS_KEPT) as usize;
    let mut turns: Vec<Turn> =
        entry.get(first..)?.chunks_exact(Turn::SIZE).take(taken).filter_map(Turn::read).collect();
    turns.retain(|turn| turn.from_ns != 0 && turn.from_ns < until_ns);
    turns.sort_by_key(|turn| turn.from_ns);
    let is_cut = head.next > WS_TURNS_KEPT && turns.first().is_none_or(|first| ready_ns(first) > since_ns);
    let after = turns.iter().skip(1).map(|next| next.from_ns).chain([until_ns]);
    let ends: Vec<u64> =
        after.zip(&turns).map(|(next_ns, t)| if t.to_ns == 0 { next_ns } else { t.to_ns.min(next_ns) }).collect();
    let whole = turns.into_iter().zip(ends).filter(|(turn, to_ns)| *to_ns > since_ns && *to_ns > turn.from_ns);
    Some(Read { turns: whole.collect(), is_cut })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(next: u32, turns: &[Turn]) -> Vec<u8> {
        let mut turns = turns.to_vec();
        turns.resize(WS_TURNS_KEPT as usize, Turn::default());
        let mut entry = 5u64.to_ne_bytes().to_vec();
        entry.extend([1u32.to_ne_bytes(), next.to_ne_bytes()].concat());
        entry.extend([0; 16]);
        turns.iter().for_each(|turn| entry.extend(turn.to_bytes()));
        assert_eq!(entry.len(), Kept::SIZE);
        entry
    }

    fn turn(from_ns: u64, to_ns: u64, tid: u32) -> Turn {
        Turn { from_ns, to_ns, awaited: 0, tid, before: 3 << WS_TURN_READY_BITS, ..Turn::default() }
    }

    #[test]
    fn a_turn_ends_at_the_latest_when_the_next_one_begins() {
        let mut turns = vec![turn(300, 0, 8), turn(100, 250, 7), turn(200, 260, 9), turn(10, 40, 7), turn(900, 0, 7)];
        turns.push(turn(150, 0, 4));
        let entry = entry(5, &turns);
        let told = |of| read(&entry, of, (50, 600));
        let of_actor = told((1, 5)).map(|read| (read.is_cut, read.turns)).unwrap_or_default();
        let times: Vec<_> = of_actor.1.iter().map(|(t, to_ns)| (t.tid, t.from_ns, *to_ns)).collect();
        assert_eq!(times, [(7, 100, 200), (9, 200, 260), (8, 300, 600)], "the sixth place is of an older actor");
        assert!(!of_actor.0);
        assert!(told((1, 6)).is_none(), "another goroutine has its place");
        assert!(read(&entry[..40], (1, 5), (50, 600)).is_none());
    }

    #[test]
    fn turns_are_cut_if_there_were_more_in_the_time_of_the_request() {
        let turns: Vec<Turn> = (0..u64::from(WS_TURNS_KEPT)).map(|n| turn(100 + n * 10, 105 + n * 10, 7)).collect();
        let is_cut = |next, since_ns| read(&entry(next, &turns), (1, 5), (since_ns, 9_000)).map(|read| read.is_cut);
        assert_eq!(
            [is_cut(WS_TURNS_KEPT, 50), is_cut(99, 50), is_cut(99, 100)],
            [Some(false), Some(true), Some(false)]
        );
    }

    #[test]
    fn a_turn_says_since_when_its_actor_was_ready_and_why_it_was_not() {
        let late = Turn { before: 2 + (3 << WS_TURN_READY_BITS), ..turn(9_000, 0, 7) };
        assert_eq!((ready_ns(&late), ready_ns(&turn(9_000, 0, 7))), (7_000, 9_000));
        let mut texts = vec![0; 4 * GO_REASON_NAME as usize];
        texts[3 * GO_REASON_NAME as usize..][..6].copy_from_slice(b"select");
        let told = [late.before >> WS_TURN_READY_BITS, WS_PARK_READY, WS_PARK_UNKNOWN, 2, 4, 255];
        let told = told.map(|number| reason(&texts, number));
        assert_eq!(told.each_ref().map(|text| &**text), ["select", READY, "", "", "", ""]);
    }

    #[test]
    fn actors_in_a_row_and_at_addresses_have_places_of_their_own() {
        for step in [1, 16, 48, 192, 4096] {
            let places: FxHashSet<u32> = (0..64).map(|n| place(77, 0x7f12_3456_0000 + n * step)).collect();
            assert!(places.len() >= 60 && places.iter().all(|at| *at < WS_TURN_ACTORS), "{step}: {}", places.len());
        }
    }
}
