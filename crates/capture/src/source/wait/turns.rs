//! Turns of actors that a runtime moves from thread to thread: which thread ran the actor of a request, and when.

use super::record::text;
use crate::boxes;
use crate::clock::Clock;
use crate::object::WirespanSkel;
use crate::wire::contract::{
    Turn, Turns as Kept, GO_REASON_NAME, GO_REASON_PLACE, WS_PARK_READY, WS_PARK_UNKNOWN, WS_TURNS_KEPT,
    WS_TURN_ACTORS, WS_TURN_READY_BITS,
};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use wirespan_model::wait::{ActorTurn, READY};
use wirespan_model::Text;

/// The kernel's table of turns, while waits are asked for.
#[derive(Default)]
pub(super) struct Turns {
    table: Option<MapHandle>,
    /// What the numbers of reasons mean, by process.
    reasons: Option<MapHandle>,
}

impl Turns {
    /// Makes the table and puts it where the kernel programs find it, or takes it away.
    pub(super) fn keep(&mut self, skel: &WirespanSkel<'static>, wanted: bool) {
        if wanted == self.table.is_some() {
            return;
        }
        let place = &skel.maps.actor_turns;
        if !wanted {
            let _ = place.delete(&boxes::PLACE);
            self.table = None;
            return;
        }
        if self.reasons.is_none() {
            self.reasons = MapHandle::try_from(&skel.maps.go_reasons).ok();
        }
        let table = boxes::make_array(place, "actor_turns", Kept::SIZE as u32, WS_TURN_ACTORS);
        self.table = table.inspect_err(|error| tracing::warn!(%error, "no memory for turns of goroutines")).ok();
    }

    /// The turns of an actor in this time of the kernel, in their order.
    pub(super) fn of(&self, pid: u32, actor: u64, time: (u64, u64), clock: &Clock) -> Vec<ActorTurn> {
        let Some(table) = self.table.as_ref().filter(|_| actor != 0) else { return Vec::new() };
        let place = (actor ^ u64::from(pid)) as u32 & (WS_TURN_ACTORS - 1); // bpf/wait/turns.h
        let entry = table.lookup(&place.to_ne_bytes(), MapFlags::ANY).ok().flatten();
        let texts = self.reasons.as_ref().and_then(|map| map.lookup(&pid.to_ne_bytes(), MapFlags::ANY).ok()?);
        let texts = texts.as_deref().and_then(|value| value.get(GO_REASON_PLACE as usize..)).unwrap_or_default();
        let reason = |number| reason(texts, number);
        entry.and_then(|entry| read(&entry, (pid, actor), time, clock, &reason)).unwrap_or_default()
    }
}

/// Why an actor was parked, by the number that its runtime gives.
fn reason(texts: &[u8], number: u32) -> Text {
    match number {
        WS_PARK_UNKNOWN => Text::default(),
        WS_PARK_READY => READY.into(),
        _ => text(texts.chunks_exact(GO_REASON_NAME as usize).nth(number as usize).unwrap_or_default()),
    }
}

fn read(
    entry: &[u8],
    of: (u32, u64),
    (since_ns, until_ns): (u64, u64),
    clock: &Clock,
    reason: &dyn Fn(u32) -> Text,
) -> Option<Vec<ActorTurn>> {
    Kept::read(entry).filter(|head| (head.pid, head.actor) == of)?;
    let first = Kept::SIZE - WS_TURNS_KEPT as usize * Turn::SIZE;
    let mut turns: Vec<Turn> = entry.get(first..)?.chunks_exact(Turn::SIZE).filter_map(Turn::read).collect();
    turns.retain(|turn| turn.from_ns != 0 && turn.from_ns < until_ns);
    turns.sort_by_key(|turn| turn.from_ns);
    let after = turns.iter().skip(1).map(|next| next.from_ns).chain([until_ns]);
    let ends: Vec<u64> =
        after.zip(&turns).map(|(next_ns, t)| if t.to_ns == 0 { next_ns } else { t.to_ns.min(next_ns) }).collect();
    let whole = turns.into_iter().zip(ends).filter(|(turn, to_ns)| *to_ns > since_ns && *to_ns > turn.from_ns);
    let ready_ns = |turn: &Turn| u64::from(turn.before & ((1 << WS_TURN_READY_BITS) - 1)) * 1000;
    let told = |(turn, to_ns): (Turn, u64)| ActorTurn {
        tid: turn.tid,
        from_ns: clock.to_unix(turn.from_ns),
        to_ns: clock.to_unix(to_ns),
        ready_ns: clock.to_unix(turn.from_ns.saturating_sub(ready_ns(&turn))),
        parked: reason(turn.before >> WS_TURN_READY_BITS),
    };
    Some(whole.map(told).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_at_the_latest_when_the_next_one_begins() {
        let turn = |from_ns, to_ns, tid| Turn { from_ns, to_ns, tid, before: 3 << WS_TURN_READY_BITS };
        let mut turns = vec![turn(300, 0, 8), turn(100, 250, 7), turn(200, 260, 9), turn(10, 40, 7), turn(900, 0, 7)];
        turns.resize(WS_TURNS_KEPT as usize, Turn::default());
        turns[2].before += 1;
        let mut entry = 5u64.to_ne_bytes().to_vec();
        entry.extend([1u32.to_ne_bytes(), 5u32.to_ne_bytes(), [0; 4], [0; 4]].concat());
        turns.iter().for_each(|turn| entry.extend(turn.to_bytes()));
        assert_eq!(entry.len(), Kept::SIZE);
        let clock = Clock::now();
        let mut texts = vec![0; 4 * GO_REASON_NAME as usize];
        texts[3 * GO_REASON_NAME as usize..][..6].copy_from_slice(b"select");
        let reason = |number| super::reason(&texts, number);
        let told = read(&entry, (1, 5), (50, 600), &clock, &reason).unwrap_or_default();
        let ready: Vec<_> = told.iter().map(|t| t.from_ns - t.ready_ns).collect();
        assert_eq!(ready, [0, 200, 0], "since the clock began");
        assert!(told.iter().all(|turn| turn.parked == "select"), "{told:?}");
        let others = [WS_PARK_READY, WS_PARK_UNKNOWN, 2, 4, 255].map(reason);
        assert_eq!(others.each_ref().map(|text| &**text), [READY, "", "", "", ""]);
        let relative = |ns: u64| ns - clock.to_unix(0);
        let told: Vec<_> = told.iter().map(|t| (t.tid, relative(t.from_ns), relative(t.to_ns))).collect();
        assert_eq!(told, [(7, 100, 200), (9, 200, 260), (8, 300, 600)]);
        assert!(read(&entry, (1, 6), (50, 600), &clock, &reason).is_none(), "another goroutine has its place");
        assert!(read(&entry[..40], (1, 5), (50, 600), &clock, &reason).is_none());
    }
}
