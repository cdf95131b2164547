//! Which calls lie within requests, whichever requests. Such calls are made before an answer, never after it.

use super::timeline::{Class, Event};
use rustc_hash::FxHashMap;

/// Calls of a class that should lie within no request, if they had nothing to do with requests, from which on it tells
/// something that fewer than half as many do.
const LEAST_BARE: f64 = 4.0;
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
    /// lie within none. Where many requests are open at a time, this says nothing.
    pub(super) fn encloses(&self, call: Class) -> bool {
        let Some(made) = self.of_class.get(&call) else { return false };
        let expected = made.calls * (-made.around / made.calls).exp();
        expected >= LEAST_BARE && made.bare < expected / 2.0
    }
}
