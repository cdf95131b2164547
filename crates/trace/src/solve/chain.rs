//! The chain of events of one request, and where the request stands in it.

use super::timeline::Class;

/// An act of a request: a call of a class, or its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Act {
    Call(Class),
    Answer,
}

/// The last event of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Last {
    Read,
    Sent(Class),
    Replied(Class),
    /// Its answer, after which it goes on.
    Answered,
}

/// The calls that a request has made, in any order: a sum of the hashes of their classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Done(u32);

impl Done {
    pub(super) fn and(self, class: Class) -> Done {
        Done(self.0.wrapping_add((u32::from(class) + 1).wrapping_mul(0x9e37_79b9)))
    }
}

/// Classes of calls that are counted for one request.
const MADE: usize = 12;

/// The number of calls of each class that a request has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Made([(Class, u8); MADE]);

impl Made {
    pub(super) fn add(&mut self, class: Class) {
        // An empty entry has the number 0.
        if let Some((c, n)) = self.0.iter_mut().find(|(c, n)| *c == class || *n == 0) {
            (*c, *n) = (class, n.saturating_add(1));
        }
    }

    /// The classes, each with its number.
    pub(super) fn all(&self) -> impl Iterator<Item = (Class, f64)> + '_ {
        self.0.iter().filter(|(_, n)| *n > 0).map(|(class, n)| (*class, f64::from(*n)))
    }

    pub(super) fn of(&self, class: Class) -> f64 {
        self.0.iter().find(|(c, n)| *c == class && *n > 0).map_or(0.0, |(_, n)| f64::from(*n))
    }
}

/// Where a request stands: its class, its last event, whether it waits for an answer, and the calls it has made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) class: Class,
    pub(super) last: Last,
    pub(super) waits: bool,
    pub(super) done: Done,
    pub(super) made: Made,
    /// Answers that came to its calls.
    pub(super) replied: Made,
}

impl Place {
    /// The place without the calls made.
    pub(super) fn step(self) -> (Class, Last, bool) {
        (self.class, self.last, self.waits)
    }

    /// The place with the calls made, and with only the kind of the last event.
    pub(super) fn stage(self) -> (Class, Done, u8, bool) {
        let last = match self.last {
            Last::Read => 0,
            Last::Sent(_) => 1,
            Last::Replied(_) => 2,
            Last::Answered => 3,
        };
        (self.class, self.done, last, self.waits)
    }
}
