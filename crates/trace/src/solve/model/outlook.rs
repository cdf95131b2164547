//! What is the same of an act for all requests that may have done it.

use crate::solve::belief::TURNS;
use crate::solve::chain::{Act, Made};
use crate::solve::timeline::Class;

/// The part of an act's likelihood that is the same for all requests and hypotheses: computed once.
#[derive(Debug)]
pub(in crate::solve) struct Outlook {
    pub(in crate::solve) act: Act,
    /// Weight of each [`Turn`].
    pub(in crate::solve) turns: [f64; TURNS],
    /// For a call in a queue of calls: how many such calls a request makes, by the request's class.
    pub(super) expected: Option<Vec<f64>>,
    /// How likely the order of the queue is followed, and that of activations.
    pub(in crate::solve) orders: [f64; 2],
    /// Only requests that the same thread has read stand in the queue.
    pub(in crate::solve) by_thread: bool,
}

impl Outlook {
    /// Whether the request still has such a call to make; `None` if its calls do not tell.
    pub(in crate::solve) fn owes(&self, request: Class, made: &Made) -> Option<bool> {
        let (Some(expected), Act::Call(call)) = (&self.expected, self.act) else { return None };
        Some(expected.get(usize::from(request)).is_none_or(|n| n - made.of(call) >= 0.5))
    }
}
