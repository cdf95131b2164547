//! What answers say of the claims of a process, counted by kind of call and class of request.

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

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kind {
    pub(super) judged: u32,
    pub(super) failed: u32,
    /// Failed ones that began after the answer.
    pub(super) later: u32,
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
}

impl Calls {
    pub(super) fn add(&mut self, kind: &Kind) {
        self.all.add(kind);
        if kind.may_answer_first() {
            self.unclear.add(kind);
            self.unclear_classes += 1;
        } else if !kind.answers_first() {
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
        (!self.all.is_asynchronous()).then_some(counted)
    }

    /// In doubt, claims fail.
    pub(super) fn fail(&self, are_enclosed: bool) -> bool {
        let mut judged = self.telling;
        judged.add(&self.unclear);
        if are_enclosed {
            judged = self.all;
        } else if self.all.is_asynchronous() {
            return false;
        }
        judged.failed >= FAILURES && judged.failed > judged.judged / RARE
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
