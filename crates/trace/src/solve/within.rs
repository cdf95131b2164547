//! Which calls lie within requests, whichever requests. Such calls are made before an answer, never after it.
//!
//! This is for few users. Where several requests are open at a time, nearly all calls lie within one by chance: calls
//! come when much is going on, as requests do.

use super::timeline::{Class, Event};
use rustc_hash::FxHashMap;

/// Calls of a class that should lie within no request, if they had nothing to do with requests, from which on it tells
/// something that fewer than half as many do.
const LEAST_BARE: f64 = 4.0;
/// Most requests around a call, on average, with which this tells something.
const FEW_AROUND: f64 = 1.5;
/// Calls of a class from which on old ones count half.
const MANY: f64 = 2_000.0;

/// The calls of a class.
#[derive(Clone, Copy, Debug, Default)]
struct Made {
    calls: f64,
    /// Calls that lie within no request.
    bare: f64,
    /// Requests around calls, in all.
    around: f64,
}

#[derive(Debug, Default)]
pub(super) struct Within {
    /// Requests that are not answered yet, and when they will be, ns.
    open: Vec<(u32, u64)>,
    of_class: FxHashMap<Class, Made>,
}

impl Within {
    /// Learns from events in their order.
    pub(super) fn learn(&mut self, events: &[Event]) {
        for event in events {
            match event {
                Event::Read(r) => self.open.push((r.id, r.end_ns)),
                Event::Answered(r) => self.open.retain(|(id, _)| *id != r.id),
                Event::Sent(c) => {
                    let around = self.open.iter().filter(|(_, end_ns)| *end_ns >= c.end_ns).count();
                    let made = self.of_class.entry(c.class).or_default();
                    made.calls += 1.0;
                    made.bare += f64::from(u8::from(around == 0));
                    made.around += around as f64;
                    if made.calls >= MANY {
                        [&mut made.calls, &mut made.bare, &mut made.around].into_iter().for_each(|n| *n /= 2.0);
                    }
                }
                Event::Replied(_) | Event::Ended(_) => {}
            }
        }
    }

    /// Whether requests enclose the calls of this class: had the calls nothing to do with requests, more of them would
    /// lie within none. It says nothing where several requests are open at a time.
    pub(super) fn encloses(&self, call: Class) -> bool {
        let Some(made) = self.of_class.get(&call) else { return false };
        let expected = made.calls * (-made.around / made.calls).exp();
        made.around <= FEW_AROUND * made.calls && expected >= LEAST_BARE && made.bare < expected / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, request};
    use super::*;

    const MS: u64 = 1_000_000;

    /// Bursts of requests, every 100 ms; each makes a call, `calls` ns after its answer, or before it.
    fn learnt(requests: u64, calls: i64) -> Within {
        let mut events = vec![];
        for burst in 0..100 {
            for i in 0..requests {
                let start_ns = (burst * 100 + 3 * i + 1) * MS;
                let end_ns = start_ns + 10 * MS;
                let r = request((burst * requests + i) as u32, 3, (start_ns, end_ns));
                events.extend([Event::Read(r), Event::Answered(r)]);
                let at_ns = end_ns.saturating_add_signed(calls);
                events.push(Event::Sent(call(r.id, 7, (at_ns, at_ns + MS))));
            }
        }
        events.sort_by_key(Event::at_ns);
        let mut within = Within::default();
        within.learn(&events);
        within
    }

    #[test]
    fn calls_before_the_answer_are_enclosed() {
        assert!(learnt(1, -5 * MS as i64).encloses(7));
    }

    #[test]
    fn late_calls_among_other_requests_are_not() {
        assert!(!learnt(1, 5 * MS as i64).encloses(7));
        // Most lie within the next request, by chance.
        assert!(!learnt(8, 5 * MS as i64).encloses(7));
        assert!(!learnt(8, MS as i64).encloses(7));
    }
}
