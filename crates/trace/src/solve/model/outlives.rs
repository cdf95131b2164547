//! Whether requests wait for their calls: one that races two calls, or limits their time, answers without the loser.

use crate::solve::timeline::{Call, Class, Event, Request};
use rustc_hash::FxHashMap;

/// Number of observations that the share below counts as.
const WEIGHT: f64 = 4.0;
/// Calls that end after their request, before anything is learnt.
const FEW: f64 = 0.005;
const LEAST: f64 = 1e-4;
/// Most pairs of classes.
const MAX_PAIRS: usize = 4_096;

#[derive(Clone, Debug, Default)]
pub(in crate::solve) struct Outlives {
    /// By class of request and of call: calls that end after their request, and all.
    of: FxHashMap<(Class, Class), [f64; 2]>,
}

impl Outlives {
    /// By these events; `makers` has the request of each call.
    pub(in crate::solve) fn of(events: &[Event], makers: &FxHashMap<u32, u32>) -> Outlives {
        let (mut outlives, mut requests) = (Outlives::default(), FxHashMap::<u32, &Request>::default());
        for event in events {
            match event {
                Event::Read(r) => {
                    requests.insert(r.id, r);
                }
                Event::Sent(c) => {
                    let request = makers.get(&c.id).and_then(|request| requests.get(request));
                    request.into_iter().for_each(|r| outlives.learn(r, c));
                }
                _ => {}
            }
        }
        outlives
    }

    pub(in crate::solve) fn learn(&mut self, r: &Request, c: &Call) {
        if self.of.len() >= MAX_PAIRS && !self.of.contains_key(&(r.class, c.class)) {
            return;
        }
        let [outlives, all] = self.of.entry((r.class, c.class)).or_default();
        *all += 1.0;
        *outlives += f64::from(u8::from(c.end_ns > r.until_ns));
    }

    /// ln of the likelihood that such a call ends after (or before) its request, as this one would.
    pub(in crate::solve) fn likely(&self, r: &Request, c: &Call) -> f64 {
        let [outlives, all] = self.of.get(&(r.class, c.class)).copied().unwrap_or_default();
        let share = ((outlives + WEIGHT * FEW) / (all + WEIGHT)).clamp(LEAST, 1.0 - LEAST);
        if c.end_ns > r.until_ns {
            share.ln()
        } else {
            (1.0 - share).ln()
        }
    }

    pub(super) fn halve(&mut self) {
        self.of.values_mut().flatten().for_each(|n| *n /= 2.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::testing::{call, request};

    #[test]
    fn requests_are_taken_to_wait_for_their_calls_until_some_do_not() {
        let (mut outlives, r) = (Outlives::default(), request(1, 3, (0, 100)));
        let [within, beyond] = [90, 200].map(|end_ns| call(1, 7, (10, end_ns)));
        assert!(outlives.likely(&r, &within) - outlives.likely(&r, &beyond) > 4.0);
        (0..20).for_each(|n| outlives.learn(&r, if n % 2 == 0 { &within } else { &beyond }));
        assert!((outlives.likely(&r, &within) - outlives.likely(&r, &beyond)).abs() < 0.5);
    }
}
