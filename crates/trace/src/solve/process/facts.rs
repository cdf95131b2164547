//! What facts and the kernel's claims say of calls, before anything is inferred.

use super::super::answerers::Actor;
use super::super::timeline::{Call, Event, Hint, Maker, Opinion};
use super::super::trial::Trial;
use super::super::wakes::Waited;
use super::super::{Named, Verdict};
use super::crowds::crowded;
use super::Process;
use rustc_hash::FxHashSet;
use std::sync::Arc;
use wirespan_model::{Evidence, Span};

/// Confidence that a thread that waits for its calls makes them for the request that it answers next: 2,193 of 2,194
/// were, of grpcio's server, Puma, Flask and net/http.
const ANSWERED: f64 = 0.99;

enum Fact {
    /// The request with this name made the call.
    Is(u64, Named),
    /// One of the requests with this exchange did, and this thread waited for the answer.
    IsOneOf(Waited),
}

impl Process {
    /// Turns calls of which a wake-up, or the thread that answers, tells the request into calls with a known cause.
    /// This also tests what was claimed of them.
    pub(super) fn name_by_facts(&mut self, events: &mut [Event], out: &mut dyn FnMut(Arc<Span>, Verdict)) {
        for event in events {
            let (Event::Sent(call) | Event::Replied(call)) = event else { continue };
            let (exchange, named) = match self.fact(call) {
                Some(Fact::Is(exchange, named)) => (exchange, named),
                Some(Fact::IsOneOf(waited)) => {
                    call.maker = Maker::OneOf(waited.exchange);
                    if waited.tid != 0 {
                        (call.tid, call.actor) = (waited.tid, Actor::of(waited.tid, 0));
                    }
                    continue;
                }
                None => continue,
            };
            let claimed = std::mem::replace(&mut call.maker, Maker::Known(exchange));
            let Some(span) = self.waiting.remove(&call.id) else { continue };
            if let (Maker::Claimed(claimed), Some(trial)) = (claimed, &mut self.trial) {
                if claimed == named.exchange || !self.sharing.is_shared(claimed) {
                    trial.test(&span, self.signatures.of_call(&span), claimed == named.exchange);
                }
            }
            out(span, Verdict::Named(named));
        }
    }

    /// What facts say of the maker of a call.
    fn fact(&mut self, call: &Call) -> Option<Fact> {
        let may_wake = matches!(call.maker, Maker::Unknown(_) | Maker::Claimed(_));
        let woken = may_wake.then(|| self.wakes.maker(call.id, (call.socket, call.end_ns), &self.lives)).flatten();
        // Who waits for work of a whole connection (grpc-go's writer) acts for its first message, which is no request.
        let is_request = |waited: &Waited| match call.maker {
            Maker::Claimed(claimed) => self.lives.has(waited.exchange) || !self.lives.has(claimed),
            _ => true,
        };
        let woken = woken.filter(|(waited, _)| is_request(waited));
        let is_shared = woken.is_some_and(|(waited, _)| self.sharing.is_shared(waited.exchange));
        if let Some((Waited { exchange, .. }, confidence)) = woken.filter(|_| !is_shared) {
            let named = Named { exchange, evidence: Evidence::WakeUp, confidence, span: None };
            return Some(Fact::Is(exchange, named));
        }
        if !may_wake && !matches!(call.maker, Maker::OneOf(_)) {
            return None;
        }
        let answered = self.waiting.get(&call.id).and_then(|span| self.answerers.maker(span));
        let Some(answered) = answered else { return woken.map(|(waited, _)| Fact::IsOneOf(waited)) };
        let named = Named {
            exchange: answered.exchange.first,
            evidence: Evidence::Thread,
            confidence: ANSWERED,
            span: Some(answered.span),
        };
        Some(Fact::Is(answered.stream.unwrap_or(answered.exchange.first), named))
    }

    /// Whether a request cannot have made a call: it had been answered, and requests enclose such calls.
    fn comes_too_late(&self, call: &Call, exchange: u64) -> bool {
        self.within.encloses(call.class) && self.lives.was_answered(exchange, call.start_ns)
    }

    /// Whether a call has a claim of which too few were tried yet.
    fn is_unproven(&mut self, call: &Call) -> bool {
        let (Maker::Claimed(_), Some(trial), Some(span)) = (call.maker, &self.trial, self.waiting.get(&call.id)) else {
            return false;
        };
        !trial.is_over(span) && !trial.are_of_one_class(span, self.signatures.of_call(span))
    }

    /// Whether claims like that of this call have failed their trial, or most calls like it have no claim.
    fn is_doubted(&mut self, call: u32) -> bool {
        let (trial, span) = (self.trial.as_ref(), self.waiting.get(&call));
        trial
            .zip(span)
            .is_some_and(|(trial, span)| trial.has_failed(span) || trial.is_rare(self.signatures.of_call(span)))
    }

    /// Turns claims into known causes, or into hints if their trial failed or they are rare. A claim that is believed
    /// although few like it were tried stays a claim: nothing is learnt from its being late. An opinion that names no
    /// request of this process (but a message of a broker, or a request whose answer is long in coming) is no matter
    /// of turns: it stands.
    pub(super) fn judge(&mut self, events: &mut [Event], out: &mut dyn FnMut(Arc<Span>, Verdict)) {
        let crowded = if self.trial.is_some() { crowded(events) } else { FxHashSet::default() };
        self.crowded.extend(&crowded);
        let had_failed = self.trial.as_ref().is_some_and(Trial::any_failed);
        for event in &*events {
            let (Event::Sent(call), Some(trial)) = (event, &mut self.trial) else { continue };
            if let Some(span) = self.waiting.get(&call.id).filter(|_| matches!(call.maker, Maker::Claimed(_))) {
                let kind = self.signatures.of_call(span);
                if crowded.contains(&call.id) {
                    trial.test(span, kind, false);
                }
                trial.enclose(kind, self.within.encloses(call.class));
            }
        }
        if !had_failed && self.trial.as_ref().is_some_and(Trial::any_failed) {
            // What late calls have shown rests on claims that are wrong.
            self.after.forget_late();
        }
        for event in events {
            let (Event::Sent(call) | Event::Replied(call)) = event else { continue };
            let exchange = match call.maker {
                Maker::Claimed(exchange)
                    if self.is_doubted(call.id)
                        || crowded.contains(&call.id)
                        || self.comes_too_late(call, exchange) =>
                {
                    self.in_doubt = true;
                    call.maker = Maker::Unknown(Some(Hint { exchange, opinion: Opinion::HandOver }));
                    continue;
                }
                Maker::Claimed(exchange) => exchange,
                Maker::Unknown(Some(Hint { exchange, opinion: Opinion::FirstOfTurn | Opinion::Opener }))
                    if !self.timeline.has_served(exchange) =>
                {
                    exchange
                }
                _ => continue,
            };
            if matches!(call.maker, Maker::Claimed(_)) && self.sharing.is_shared(exchange) {
                self.in_doubt = true;
                call.maker = Maker::OneOf(exchange);
                continue;
            }
            if !self.is_unproven(call) {
                call.maker = Maker::Known(exchange);
            }
            if let Some(span) = self.waiting.remove(&call.id) {
                let claim = self.claim(&span);
                out(span, Verdict::Kept(claim));
            }
        }
    }
}
