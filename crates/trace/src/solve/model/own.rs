//! Whether calls are made by the thread, or the coroutine, that answers their request.
//!
//! Where a thread deals with one request, its calls leave on it; a pool, or the loop of a driver, makes the calls of
//! other classes. Both are learnt by class of request and of call: so a call on a worker's thread is none of a request
//! whose calls of that class all leave on the thread that answers it.

use crate::solve::timeline::Class;
use rustc_hash::FxHashMap;

/// Number of observations that "any thread is as likely" counts as.
const WEIGHT: f64 = 8.0;
/// Nothing is certain.
const LEAST: f64 = 1e-3;
/// Most pairs of classes.
const MAX_PAIRS: usize = 4_096;

#[derive(Clone, Debug, Default)]
pub(super) struct Own {
    /// By class of request and of call: calls by the answering actor, and all.
    of: FxHashMap<(Class, Class), [f64; 2]>,
}

impl Own {
    pub(super) fn learn(&mut self, request: Class, call: Class, is_own: bool) {
        if self.of.len() >= MAX_PAIRS && !self.of.contains_key(&(request, call)) {
            return;
        }
        let [own, all] = self.of.entry((request, call)).or_default();
        *all += 1.0;
        *own += f64::from(u8::from(is_own));
    }

    /// ln of how much likelier such a call is made by its request's own actor (or by another one) than by chance.
    /// `chance`: the share of open requests that this actor answers. 0 before anything is learnt.
    pub(super) fn likely(&self, request: Class, call: Class, is_own: bool, chance: f64) -> f64 {
        let [own, all] = self.of.get(&(request, call)).copied().unwrap_or_default();
        let chance = chance.clamp(LEAST, 1.0 - LEAST);
        let share = ((own + WEIGHT * chance) / (all + WEIGHT)).clamp(LEAST, 1.0 - LEAST);
        if is_own {
            (share / chance).ln()
        } else {
            ((1.0 - share) / (1.0 - chance)).ln()
        }
    }

    pub(super) fn halve(&mut self) {
        self.of.values_mut().flatten().for_each(|n| *n /= 2.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_told_before_anything_is_learnt_and_where_one_thread_does_all() {
        let mut own = Own::default();
        assert!(own.likely(1, 1, true, 0.2).abs() < 1e-9 && own.likely(1, 1, false, 0.2).abs() < 1e-9);
        (0..100).for_each(|_| own.learn(1, 1, true));
        assert!(own.likely(1, 1, true, 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_class_whose_calls_leave_on_the_answering_thread_has_none_on_others() {
        let mut own = Own::default();
        (0..100).for_each(|_| own.learn(1, 1, true));
        (0..100).for_each(|_| own.learn(2, 1, false));
        // A call on a worker's thread, and one on the thread that answers request 1, one of five.
        assert!(own.likely(2, 1, false, 0.0) - own.likely(1, 1, false, 0.0) > 2.5);
        assert!(own.likely(1, 1, true, 0.2) - own.likely(2, 1, false, 0.2) > 1.0);
    }
}
