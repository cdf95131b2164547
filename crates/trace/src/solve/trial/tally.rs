//! What answers say of the claims of a process, counted by kind of call and class of request.

use rustc_hash::FxHashMap;

/// Number of failed claims of a kind from which on no claim is believed, unless failures are rarer than one in `RARE`,
/// or are at least `ASYNCHRONOUS_SHARE` of the kind.
const FAILURES: u32 = 2;
const RARE: u32 = 500;
const ASYNCHRONOUS_SHARE: f64 = 0.7;
/// Share of failed claims from which on the requests of a class answer before such calls.
const ANSWERS_FIRST_SHARE: f64 = 0.95;
/// Judged claims of a class from which on it can be said that its requests answer first. Fewer may be the first of such
/// a class; so many classes that begin like this are none.
const TELLING: u32 = 4;

/// Share of claims that name requests of one class, where this is the manner of a kind of call; the most of all
/// requests that have this class then; and how unlikely that must be for claims that name any request (ln of the odds).
const PURE: f64 = 0.95;
const FEW_OF_ALL: f64 = 0.5;
const SURELY: f64 = 14.0;
/// Most classes of requests that are counted.
const MAX_CLASSES: usize = 512;
/// Number of calls over which the share of those with a claim is taken; the fewest that tell it, and what is rare.
const RECENT: f32 = 64.0;
const FEWEST: f32 = 8.0;
const RARELY: f32 = 0.3;
/// Judged claims after which earlier ones count half.
const FADE_AFTER: u32 = 2_000;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kind {
    pub(super) judged: u32,
    pub(super) failed: u32,
    /// Failed ones that began after the answer.
    pub(super) later: u32,
    /// Requests that were named, and the last one.
    pub(super) requests: u32,
    pub(super) last: u64,
}

impl Kind {
    /// The service does not wait for calls of this kind.
    pub(super) fn is_asynchronous(&self) -> bool {
        f64::from(self.failed) >= ASYNCHRONOUS_SHARE * f64::from(self.judged)
    }

    /// Requests of this class answer before they make calls of this kind.
    pub(super) fn answers_first(&self) -> bool {
        !self.is_young() && f64::from(self.failed) >= ANSWERS_FIRST_SHARE * f64::from(self.judged)
    }

    pub(super) fn is_young(&self) -> bool {
        self.judged < TELLING
    }

    /// All calls of the class began after the answer, and it is not known yet whether its requests answer first.
    pub(super) fn may_answer_first(&self) -> bool {
        self.is_young() && self.later == self.judged
    }

    /// A claim for this request was judged.
    pub(super) fn judge(&mut self, exchange: u64, outcome: Outcome) {
        self.judged += 1;
        self.failed += u32::from(outcome != Outcome::Holds);
        self.later += u32::from(outcome == Outcome::FailsLater);
        self.requests += u32::from(self.requests == 0 || self.last != exchange);
        self.last = exchange;
        if self.judged >= FADE_AFTER {
            [&mut self.judged, &mut self.failed, &mut self.later, &mut self.requests].into_iter().for_each(|n| *n /= 2);
        }
    }

    pub(super) fn add(&mut self, other: &Kind) {
        self.judged += other.judged;
        self.failed += other.failed;
        self.later += other.later;
    }
}

/// All calls of a kind, and those that tell something.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Calls {
    pub(super) all: Kind,
    pub(super) telling: Kind,
    /// Those of classes that may answer first, and the number of these classes.
    pub(super) unclear: Kind,
    pub(super) unclear_classes: u32,
    /// All claims of this kind, of whichever source: whether the service waits for such calls.
    pub(super) everywhere: Kind,
    /// The claims name requests of one class, which few requests have. Wrong claims would name requests of any class,
    /// so late ones only show that this class does not wait for these calls.
    pub(super) are_of_one_class: bool,
}

impl Calls {
    /// Adds the claims of one class of requests; `everywhere`: those of whichever source.
    pub(super) fn add(&mut self, kind: &Kind, everywhere: &Kind) {
        self.all.add(kind);
        self.everywhere.add(everywhere);
        if everywhere.may_answer_first() {
            self.unclear.add(kind);
            self.unclear_classes += 1;
        } else if !everywhere.answers_first() {
            self.telling.add(kind);
        }
    }

    /// Those by which the share of right claims is reckoned, if any. `are_enclosed`: calls of this kind lie within
    /// requests, so that each late claim is wrong.
    pub(super) fn counted(&self, are_enclosed: bool) -> Option<Kind> {
        if are_enclosed {
            return Some(self.all);
        }
        let mut counted = self.telling;
        if self.unclear_classes >= TELLING {
            counted.add(&self.unclear);
        }
        (!self.may_be_late()).then_some(counted)
    }

    /// Whether a late claim refutes nothing.
    fn may_be_late(&self) -> bool {
        self.are_of_one_class || self.everywhere.is_asynchronous()
    }

    /// In doubt, claims fail.
    pub(super) fn fail(&self, are_enclosed: bool) -> bool {
        let mut judged = self.telling;
        judged.add(&self.unclear);
        if are_enclosed {
            judged = self.all;
        } else if self.may_be_late() {
            return false;
        }
        judged.failed >= FAILURES && judged.failed > judged.judged / RARE
    }
}

/// How many of all requests have which class.
#[derive(Debug, Default)]
pub(super) struct Served {
    of_class: FxHashMap<u64, f64>,
    all: f64,
}

impl Served {
    pub(super) fn add(&mut self, class: u64) {
        if self.of_class.len() >= MAX_CLASSES && !self.of_class.contains_key(&class) {
            return;
        }
        *self.of_class.entry(class).or_default() += 1.0;
        self.all += 1.0;
    }

    /// Whether claims for so many requests of each class are so much for one class that it is no chance.
    pub(super) fn are_of_one_class(&self, claims: impl Iterator<Item = (u64, u32)>) -> bool {
        let (mut most, mut class, mut all) = (0, 0, 0);
        for (of, requests) in claims {
            all += requests;
            if requests > most {
                (most, class) = (requests, of);
            }
        }
        let Some(served) = self.of_class.get(&class) else { return false };
        let chance = served / self.all;
        f64::from(most) >= PURE * f64::from(all) && chance <= FEW_OF_ALL && f64::from(most) * -chance.ln() >= SURELY
    }
}

/// How many of the last calls of a class had a claim.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Claimed {
    claimed: f32,
    all: f32,
}

impl Claimed {
    pub(super) fn add(&mut self, is_claimed: bool) {
        let kept = 1.0 - 1.0 / RECENT;
        self.claimed = self.claimed * kept + f32::from(u8::from(is_claimed));
        self.all = self.all * kept + 1.0;
    }

    /// Few claims: of Lettuce and gRPC under Java, where 1 to 20 calls in a hundred had one, 0 to 50 in a hundred of
    /// these were right.
    pub(super) fn is_rare(&self) -> bool {
        self.all >= FEWEST && self.claimed < RARELY * self.all
    }
}

/// What an answer says of a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Outcome {
    Holds,
    /// The call ended after the answer.
    Fails,
    /// The call began after the answer.
    FailsLater,
}

impl Outcome {
    pub(super) fn of((start_ns, end_ns): Time, answered_ns: u64) -> Self {
        if end_ns <= answered_ns {
            Self::Holds
        } else if start_ns < answered_ns {
            Self::Fails
        } else {
            Self::FailsLater
        }
    }
}

/// From when to when a call was, ns.
pub(super) type Time = (u64, u64);
