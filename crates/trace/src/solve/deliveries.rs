//! Deliveries as requests. A consumer that settles each message (AMQP) tells by that when its work on it ended. Until
//! then the message is to the consumer what a request is to a server, and the settlement is the answer.

use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use wirespan_model::attr::{ANSWER_COROUTINE, ANSWER_THREAD, CAUSE_SPAN};
use wirespan_model::broker::{delivery_place, settlement};
use wirespan_model::{Evidence, Span, Value};

/// Most channels that are remembered, and messages of each that were not settled.
const MAX_CHANNELS: usize = 1_024;
const MAX_OPEN: usize = 4_096;

/// Connection and channel.
type Place = (u64, u64);

/// Messages that were delivered and not settled yet, in order, with their tags.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    open: FxHashMap<Place, VecDeque<(u64, Arc<Span>)>>,
}

impl Deliveries {
    /// Adds a message that was delivered to this process.
    pub(super) fn add(&mut self, span: &Arc<Span>) {
        let Some((channel, tag)) = delivery_place(span).filter(|_| span.exchange.is_some()) else { return };
        let place = (span.socket, channel);
        if self.open.len() >= MAX_CHANNELS && !self.open.contains_key(&place) {
            self.open.clear();
        }
        let open = self.open.entry(place).or_default();
        // Messages that need no settlement are never settled.
        if open.len() >= MAX_OPEN {
            open.pop_front();
        }
        open.push_back((tag, span.clone()));
    }

    /// Whether a call settles messages of this process. If so, it gets the last of them as its cause. Returns the
    /// messages as requests that end there.
    pub(super) fn settle(&mut self, call: &mut Arc<Span>) -> Option<Vec<Arc<Span>>> {
        let settled = settlement(call)?;
        let open = self.open.get_mut(&(call.socket, settled.channel))?;
        let mut all = Vec::new();
        open.retain(|(tag, span)| {
            let is_settled = settled.covers(*tag);
            if is_settled {
                all.push((*tag, span.clone()));
            }
            !is_settled
        });
        if let (Some((_, last)), None) = (all.last(), call.parent_span_id) {
            let own = Arc::make_mut(call);
            (own.cause, own.cause_evidence) = (last.exchange.map(|e| e.first), Some(Evidence::Broker));
            own.attrs.push((Cow::Borrowed(CAUSE_SPAN), Value::Str(last.id.to_string().into())));
        }
        let end_ns = call.start_ns;
        let by = [(ANSWER_THREAD, i64::from(call.tid)), (ANSWER_COROUTINE, call.coroutine as i64)];
        let as_request = |(tag, span): (u64, Arc<Span>)| {
            let mut request = Span::clone(&span);
            // Several may have come with one call, as requests on a shared connection do.
            (request.end_ns, request.response_ns, request.message_id) = (end_ns, end_ns, Some(tag));
            request.attrs.extend(by.map(|(key, number)| (Cow::Borrowed(key), Value::Int(number))));
            Arc::new(request)
        };
        Some(all.into_iter().map(as_request).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_model::{ExchangeRange, SpanId, SpanKind, TapSide};

    fn span(id: u64, kind: &'static str, channel: i64, tag: i64, at: u64) -> Span {
        let attrs = [
            ("wirespan.amqp.channel", Value::Int(channel)),
            ("rabbitmq.message.delivery_tag", Value::Int(tag)),
            ("messaging.operation.type", kind.into()),
        ];
        let attrs = attrs.into_iter().map(|(key, value)| (key.into(), value)).collect();
        Span { id: SpanId(id), protocol: "amqp".into(), socket: 7, start_ns: at, end_ns: at, attrs, ..Span::default() }
    }

    fn delivery(id: u64, channel: i64, tag: i64) -> Arc<Span> {
        let exchange = Some(ExchangeRange { first: id, last: id });
        let (tap, kind) = (TapSide::ServerProcess, SpanKind::Consumer);
        Arc::new(Span { exchange, tap, kind, ..span(id, "process", channel, tag, id) })
    }

    /// The cause of a settlement, and the messages that it ends, each with the time.
    type Settled = (Option<u64>, Vec<(u64, u64)>);

    fn settles(all: &mut Deliveries, channel: i64, tag: i64, multiple: bool) -> Option<Settled> {
        let mut call = Span { tap: TapSide::ClientProcess, ..span(99, "settle", channel, tag, 50) };
        call.attrs.extend(multiple.then(|| ("wirespan.amqp.multiple".into(), Value::Bool(true))));
        let mut call = Arc::new(call);
        let requests = all.settle(&mut call)?;
        Some((call.cause, requests.iter().map(|r| (r.id.0, r.end_ns)).collect()))
    }

    #[test]
    fn a_settlement_ends_the_messages_that_it_names() {
        let mut all = Deliveries::default();
        for (id, channel, tag) in [(1, 1, 1), (2, 1, 2), (3, 2, 1), (4, 1, 3), (5, 1, 4)] {
            all.add(&delivery(id, channel, tag));
        }
        assert_eq!(settles(&mut all, 1, 2, false), Some((Some(2), vec![(2, 50)])));
        assert_eq!(settles(&mut all, 1, 2, false), Some((None, vec![])), "settled before");
        assert_eq!(settles(&mut all, 1, 3, true), Some((Some(4), vec![(1, 50), (4, 50)])));
        assert_eq!(settles(&mut all, 1, 0, true), Some((Some(5), vec![(5, 50)])), "0 stands for all");
        assert_eq!(settles(&mut all, 3, 1, false), None, "no message came on this channel");
        assert_eq!(settles(&mut all, 2, 1, false), Some((Some(3), vec![(3, 50)])));
    }

    #[test]
    fn what_is_never_settled_is_bounded() {
        let mut all = Deliveries::default();
        (0..3 * MAX_OPEN as i64).for_each(|tag| all.add(&delivery(1, 1, tag)));
        (0..3 * MAX_CHANNELS as i64).for_each(|channel| all.add(&delivery(1, channel, 1)));
        assert!(all.open.len() <= MAX_CHANNELS && all.open.values().all(|open| open.len() <= MAX_OPEN));
    }
}
