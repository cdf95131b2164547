//! From the share of hypotheses that agree on a link to the probability that the link is right.
//!
//! Hypotheses may agree on the same mistake, so their agreement alone says little. Answers tell how far the hypotheses
//! of a process can be trusted, because each names its request: would the best hypothesis have named it, if other
//! requests were open? A hypothesis that explains a process well foretells 98 to 100 of 100 answers, one that has got
//! hold of a wrong explanation fewer than 20 (measured on Node's frameworks with 10 to 200 users). In between, for each
//! answer that was not foretold about 0.3 links are wrong (Java's frameworks with 10 users: 52 to 78 of 100 answers
//! foretold, 76 to 96 of 100 links right). Calls whose request is certain test a hypothesis in the same way, but as
//! some of these are only claimed, they raise the trust only if nearly all tests pass.

use super::timeline::Class;
use rustc_hash::FxHashMap;

/// An inference is never certain.
pub(super) const SUREST: f64 = 0.995;
/// Number of recent calls, and of recent answers, that count.
const RECENT: f64 = 200.0;
/// Time from which on old time counts half, ns.
const RECENT_NS: f64 = 20e9;
/// Before anything is tested, so many answers count as tested, and so many as foretold.
const PRIOR: [f64; 2] = [10.0, 5.0];
/// Number of tested calls that weigh as much as the answers.
const FEW_TESTS: f64 = 10.0;
/// With fewer of these answers foretold, an explanation is wrong. Right ones foretell nearly all, wrong ones next to
/// none.
const LOST: f64 = 0.4;
/// Number of recent answers from which on this can be said.
const TELLING_ANSWERS: f64 = 100.0;
/// Trust lost per failed test of a call. A test counts little, as it is taken before later events, which correct many
/// mistakes, are known.
const FAILURE: f64 = 0.4;
/// Trust lost per answer that was not foretold.
const MISSED: f64 = 0.3;
/// Share of failed tests below which the tests say more than the answers.
const FEW_FAILURES: f64 = 0.05;

#[derive(Clone, Debug, Default)]
pub(super) struct Calibration {
    /// Recent answers that several requests might have given, and how many of them the best hypothesis foretold.
    answers: f64,
    foretold: f64,
    /// Recent calls whose request is certain, and how many of them the best hypothesis named.
    tested: f64,
    passed: f64,
    /// By class of call: how many recent calls would have shown that such calls come after answers, and how many did:
    /// of calls whose request is certain, those that began after it was answered; of others, those that came while no
    /// request was open.
    late: FxHashMap<Class, [f64; 2]>,
    /// Recent time, ns, and how much of it no request was open.
    time: [f64; 2],
}

/// Counts an event that tests so much of one; older ones count less.
fn count(all: &mut f64, good: &mut f64, tests: f64, is_good: bool) {
    let keep = 1.0 - 1.0 / RECENT;
    *all = *all * keep + tests;
    *good = *good * keep + f64::from(u8::from(is_good));
}

impl Calibration {
    /// A request answered while others were open.
    pub(super) fn answered(&mut self, foretold: bool) {
        count(&mut self.answers, &mut self.foretold, 1.0, foretold);
    }

    /// A call whose request is certain was tested; several requests might have made it.
    pub(super) fn test(&mut self, passed: bool) {
        count(&mut self.tested, &mut self.passed, 1.0, passed);
    }

    /// A call whose request is certain came while that request was open, or after it.
    pub(super) fn came(&mut self, class: Class, late: bool) {
        let [all, after] = self.late.entry(class).or_default();
        count(all, after, 1.0, late);
    }

    /// A call whose request is not known came, while some request was open or none. It tells the less, the less of the
    /// time no request is open.
    pub(super) fn met(&mut self, class: Class, none_open: bool) {
        let [time, idle] = self.time;
        let [all, after] = self.late.entry(class).or_default();
        let tests = if none_open { 1.0 } else { idle / time.max(1.0) };
        count(all, after, tests, none_open);
    }

    /// Time has passed, ns.
    pub(super) fn passed(&mut self, ns: u64, none_open: bool) {
        let [time, idle] = &mut self.time;
        *time += ns as f64;
        *idle += if none_open { ns as f64 } else { 0.0 };
        if *time >= RECENT_NS {
            self.time.iter_mut().for_each(|n| *n /= 2.0);
        }
    }

    /// The share of calls of a class that come while their requests are open. Inference looks nowhere else.
    fn within(&self, class: Class) -> f64 {
        let [all, late] = self.late.get(&class).copied().unwrap_or_default();
        1.0 - late / (all + 1.0)
    }

    /// Whether the explanation is wrong. Where many calls are certain, they keep it right, however answers come.
    pub(super) fn is_lost(&self) -> bool {
        let has_tests = self.tested > self.answers / FEW_TESTS;
        !has_tests && self.answers >= TELLING_ANSWERS && self.foretold < LOST * self.answers
    }

    fn trust(&self) -> f64 {
        let foretold = (self.foretold + PRIOR[1]) / (self.answers + PRIOR[0]);
        let missed = |foretold: f64| 1.0 - MISSED * (1.0 - foretold);
        // Below `LOST` it falls to nothing.
        let explained = missed(foretold).min(foretold / LOST * missed(LOST));
        let failed = (self.tested - self.passed) / self.tested.max(1.0);
        let weight = self.tested / (self.tested + FEW_TESTS);
        let tested = weight * (1.0 - FAILURE * failed) + (1.0 - weight) * explained;
        let certain = weight * (1.0 - failed / FEW_FAILURES).max(0.0);
        certain + (1.0 - certain) * tested.min(explained)
    }

    /// The probability that a link of a call is right, if this share of the hypotheses agrees on it; `alone`: no other
    /// request could have made the call.
    pub(super) fn confidence(&self, class: Class, share: f64, alone: bool) -> f64 {
        (share * self.within(class) * if alone { 1.0 } else { self.trust() }).clamp(0.0, SUREST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: Class = 1;

    #[test]
    fn calls_of_a_class_that_come_after_answers_are_guessed_with_less_confidence() {
        let mut c = after(100, &[]);
        (0..100).for_each(|i| c.came(ANY, i % 2 == 0));
        (0..100).for_each(|_| c.came(2, false));
        assert!((0.4..0.6).contains(&c.confidence(ANY, 1.0, true)));
        assert!(c.confidence(2, 1.0, true) > 0.99);
    }

    #[test]
    fn calls_that_come_while_no_request_is_open_tell_that_others_may_be_late() {
        let (mut idle, mut busy) = (Calibration::default(), Calibration::default());
        [&mut idle, &mut busy].into_iter().for_each(|c| (0..100).for_each(|i| c.came(ANY, i % 2 == 0)));
        let early = idle.within(ANY);
        for _ in 0..1_000 {
            idle.passed(100, true);
            idle.passed(100, false);
            idle.met(ANY, false);
            busy.passed(200, false);
            busy.met(ANY, false);
        }
        assert!(early < 0.6 && idle.within(ANY) > 0.95, "half of the time was idle: {}", idle.within(ANY));
        // Old knowledge is forgotten, also where calls say nothing.
        assert!(busy.within(ANY) > 0.8);
        (0..100).for_each(|_| idle.met(ANY, true));
        assert!(idle.within(ANY) < 0.6, "{}", idle.within(ANY));
    }

    fn after(foretold: usize, tests: &[bool]) -> Calibration {
        let mut c = Calibration::default();
        (0..2000).for_each(|i| c.answered(i % 100 < foretold));
        tests.iter().for_each(|t| c.test(*t));
        c
    }

    #[test]
    fn without_tests_answers_tell_the_trust() {
        assert!(after(100, &[]).confidence(ANY, 1.0, false) > 0.985);
        assert!((0.92..0.95).contains(&after(80, &[]).confidence(ANY, 1.0, false)));
        assert!(after(5, &[]).confidence(ANY, 1.0, false) < 0.15);
    }

    #[test]
    fn an_explanation_that_foretells_few_answers_is_lost() {
        assert!(after(5, &[]).is_lost());
        assert!(!after(95, &[]).is_lost());
        assert!(!after(5, &[true; 400]).is_lost());
        let mut early = Calibration::default();
        (0..50).for_each(|_| early.answered(false));
        assert!(!early.is_lost());
    }

    #[test]
    fn tests_count_more_than_answers() {
        assert!(after(30, &[true; 400]).confidence(ANY, 1.0, false) > 0.9);
        let half: Vec<bool> = (0..400).map(|i| i % 2 == 0).collect();
        assert!((0.7..0.9).contains(&after(100, &half).confidence(ANY, 1.0, false)));
        // Nine of ten tests passed do not hide that answers are not foretold.
        let most: Vec<bool> = (0..400).map(|i| i % 10 != 0).collect();
        assert!((0.83..0.87).contains(&after(50, &most).confidence(ANY, 1.0, false)));
    }

    #[test]
    fn a_call_that_one_request_alone_can_have_made_needs_no_trust() {
        assert!(after(5, &[]).confidence(ANY, 1.0, true) > 0.99);
    }
}
