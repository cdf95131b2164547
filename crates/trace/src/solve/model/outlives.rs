//! Whether requests wait for their calls: one that races two calls, or limits their time, answers without the loser.

use crate::solve::timeline::{Call, Class, Request};
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
    use crate::solve::answerers::Actor;
    use crate::solve::timeline::Maker;
    use wirespan_model::{ExchangeRange, SpanId};

    fn request() -> Request {
        let (exchange, answerer, span) = (ExchangeRange { first: 1, last: 1 }, Actor::of(1, 0), SpanId(1));
        #[rustfmt::skip]
        let request = Request {
            id: 1, class: 3, start_ns: 0, end_ns: 100, until_ns: 100, exchange, tid: 1, answerer, stream: None, span,
            is_shared: false,
        };
        request
    }

    fn call(end_ns: u64) -> Call {
        let (actor, maker) = (Actor::of(1, 0), Maker::Unknown(None));
        Call { id: 1, class: 7, start_ns: 10, end_ns, maker, tid: 1, actor, for_request: true, socket: 5, peer: 1 }
    }

    #[test]
    fn requests_are_taken_to_wait_for_their_calls_until_some_do_not() {
        let (mut outlives, r) = (Outlives::default(), request());
        assert!(outlives.likely(&r, &call(90)) - outlives.likely(&r, &call(200)) > 4.0);
        (0..20).for_each(|n| outlives.learn(&r, &call(if n % 2 == 0 { 90 } else { 200 })));
        assert!((outlives.likely(&r, &call(90)) - outlives.likely(&r, &call(200))).abs() < 0.5);
    }
}
