//! Claims of many calls for one request, while others like it make none.
//!
//! A thread that was woken once may do the work of all from then on. Then its claims name one request, which is not
//! answered yet, so that no answer refutes them. But requests of a class make about the same calls. If one has several
//! times as many of a kind as usual, and at the same time others of its class have none, the calls are theirs. This is
//! how a virtual machine works that has just started: the first request is slow, and all others overtake it.

use super::super::timeline::{Class, Event, Maker, Request};
use rustc_hash::{FxHashMap, FxHashSet};

/// Claims of one class of calls for one request from which on they may be too many; and how many times as many as usual
/// are.
const FEW: usize = 4;
const TOO_MANY: f64 = 3.0;
/// Most exchanges of one request that are looked at.
const MAX_EXCHANGES: u64 = 8;

/// The calls whose claims are too many for their request.
pub(super) fn crowded(events: &[Event]) -> FxHashSet<u32> {
    let requests: Vec<&Request> = events.iter().filter_map(answered).collect();
    // By exchange: its request; none if several share it.
    let mut owners: FxHashMap<u64, Option<usize>> = FxHashMap::default();
    for (i, r) in requests.iter().enumerate() {
        for exchange in (r.exchange.first..=r.exchange.last).take(MAX_EXCHANGES as usize).chain(r.stream) {
            owners.entry(exchange).and_modify(|owner| *owner = None).or_insert(Some(i));
        }
    }
    // By class of call and request: the calls that are claimed, and how many there are in all.
    let mut made: FxHashMap<(Class, usize), (Vec<u32>, usize)> = FxHashMap::default();
    for event in events {
        let Event::Sent(call) = event else { continue };
        let (exchange, claimed) = match call.maker {
            Maker::Claimed(exchange) => (exchange, Some(call.id)),
            Maker::Known(exchange) | Maker::OneOf(exchange) => (exchange, None),
            Maker::Unknown(_) | Maker::Other => continue,
        };
        let Some(Some(owner)) = owners.get(&exchange) else { continue };
        let (ids, all) = made.entry((call.class, *owner)).or_default();
        ids.extend(claimed);
        *all += 1;
    }
    let mut crowded = FxHashSet::default();
    for ((class, owner), (ids, all)) in &made {
        if ids.len() < FEW {
            continue;
        }
        let own = requests[*owner];
        let alike = requests.iter().enumerate().filter(|(i, r)| {
            *i != *owner && r.class == own.class && r.start_ns < own.end_ns && own.start_ns < r.end_ns
        });
        let calls = alike.map(|(i, _)| made.get(&(*class, i)).map_or(0, |(_, all)| *all));
        let (mut others, mut without, mut theirs) = (0, 0, 0);
        for calls in calls {
            others += 1;
            without += usize::from(calls == 0);
            theirs += calls;
        }
        let usual = (theirs + all) as f64 / f64::from(others + 1);
        if *all as f64 > TOO_MANY * usual && 2 * without >= ids.len() {
            crowded.extend(ids);
        }
    }
    crowded
}

fn answered(event: &Event) -> Option<&Request> {
    match event {
        Event::Answered(request) => Some(request),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::testing::{call, request};
    use crate::solve::timeline::Call;

    fn answered(id: u32, class: Class, times: (u64, u64)) -> Event {
        Event::Answered(request(id, class, times))
    }

    fn sent(id: u32, maker: Maker) -> Event {
        Event::Sent(Call { maker, ..call(id, 7, (50, 60)) })
    }

    /// Request 1 is open while nine others come and are answered; `made`: by request, the number of its calls.
    fn found(made: impl Fn(u32) -> (u32, u32)) -> usize {
        let mut events = vec![];
        for id in 1..=10 {
            let (claimed, known) = made(id);
            let claims = (0..claimed).map(|n| sent(100 * id + n, Maker::Claimed(u64::from(id))));
            events.extend(claims.chain((0..known).map(|n| sent(100 * id + 50 + n, Maker::Known(u64::from(id))))));
        }
        events.extend((2..=10).map(|id| answered(id, 3, (20, 100 + u64::from(id)))));
        events.push(answered(1, 3, (10, 200)));
        crowded(&events).len()
    }

    #[test]
    fn calls_of_all_are_not_those_of_the_one_that_is_claimed() {
        assert_eq!(found(|id| (if id == 1 { 10 } else { 0 }, 0)), 10);
        assert_eq!(found(|id| (if id == 1 { 9 } else { 0 }, u32::from(id == 1))), 9, "what is certain stays");
    }

    #[test]
    fn requests_that_all_make_many_calls_may() {
        assert_eq!(found(|_| (10, 0)), 0);
        assert_eq!(found(|id| (8, u32::from(id % 2 == 0))), 0);
        // The others have theirs: this one makes more than usual, but takes them from nobody.
        assert_eq!(found(|id| (if id == 1 { 10 } else { 0 }, 1)), 0);
        assert_eq!(found(|id| (if id == 1 { 3 } else { 0 }, 0)), 0, "few");
    }

    #[test]
    fn requests_of_other_times_and_classes_say_nothing() {
        let mut events: Vec<Event> = (0..10).map(|n| sent(n, Maker::Claimed(1))).collect();
        events.push(answered(1, 3, (10, 200)));
        events.extend((2..12).map(|id| answered(id, 4, (20, 100))));
        events.extend((12..22).map(|id| answered(id, 3, (300, 400))));
        assert!(crowded(&events).is_empty());
    }
}
