//! Which claimants are loops: their threads go back to earlier requests after they have acted for others.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use wirespan_model::Span;

/// So many times, and once in so many claims, do the threads of a loop go back to an earlier request.
const RETURNS: u32 = 3;
const ONE_IN: u32 = 80;
/// Most actors, and last requests of each, that are kept.
const MAX_ACTORS: usize = 4_096;
const MAX_LAST: usize = 8;

/// How the claims of one claimant go from request to request.
#[derive(Debug, Default)]
pub(super) struct Turns {
    claims: u32,
    returns: u32,
    /// The last requests for which each thread, or virtual thread, has made claims: the newest one last.
    last: FxHashMap<(u32, u64), VecDeque<u64>>,
}

impl Turns {
    /// Adds a call that is claimed to have been made for the request with this exchange.
    pub(super) fn add(&mut self, span: &Span, exchange: u64) {
        self.claims = self.claims.saturating_add(1);
        if self.last.len() >= MAX_ACTORS {
            self.last.clear();
        }
        let actor = (if span.coroutine == 0 { span.tid } else { 0 }, span.coroutine);
        let last = self.last.entry(actor).or_default();
        if last.back() == Some(&exchange) {
            return;
        }
        if let Some(at) = last.iter().position(|x| *x == exchange) {
            last.remove(at);
            self.returns = self.returns.saturating_add(1);
        }
        last.push_back(exchange);
        if last.len() > MAX_LAST {
            last.pop_front();
        }
    }

    pub(super) fn is_loop(&self) -> bool {
        self.returns >= RETURNS && self.returns >= self.claims / ONE_IN
    }
}
