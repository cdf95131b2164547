//! Links between traces through a broker: a span that received messages is linked to the spans that sent them, and the
//! other way round.
//!
//! Links are many to many: one fetch takes messages of several producers, and several groups fetch the same messages. A
//! link joins the two spans that are nearest to the applications: client spans where they were observed, else spans of
//! the broker. The spans of both ends of a connection tell which messages it carried: of a long answer the consumer's
//! end may show the first partition only, while the broker's end shows all records, even if the broker sends them
//! without copying them.

use crate::assemble::{assemble, AssembleError, Limits, SpanIndex};
use crate::related::same_bytes;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;
use wirespan_model::broker::{may_share_names, message_ranges, MessageRange, Transfer, KAFKA_CREATED};
use wirespan_model::{Evidence, Key, Span, SpanId, SpanLink, TimeRange, Trace, TraceId};

/// Longest time that messages may stay at the broker and still be linked, ns.
const SHELF_NS: u64 = 86_400_000_000_000;
/// Most links of a span; the nearest in time are kept. A consumer that lags behind gets up to 1 MiB of a partition
/// (Kafka's default) at once, which may hold the records of several hundred requests.
const MAX_LINKS: usize = 1024;
/// Most other traces whose id is looked up.
const MAX_TRACES: usize = 64;
/// Most messages of one span that are looked up from the middle of their range.
const LONGEST: u64 = 4096;

/// Confidence if both spans spoke to the same broker.
const SAME_BROKER: f32 = 0.99;
/// Confidence if the brokers differ but have the place's name in common: they may be of one cluster, or of two.
const OTHER_BROKER: f32 = 0.7;
/// Confidence if several messages had the content by which the two ends were found.
const SAME_CONTENT: f32 = 0.6;

/// Writes into a trace the links of its spans to other traces.
pub fn fill_links<I: SpanIndex>(index: &I, trace: &mut Trace, limits: &Limits) -> Result<(), AssembleError<I::Error>> {
    let own: Vec<Arc<Span>> = trace.spans.iter().map(|s| s.span.clone()).collect();
    let mut keys: Vec<Key> =
        own.iter().flat_map(|s| message_ranges(s)).flat_map(|p| p.keys().collect::<Vec<_>>()).collect();
    if keys.is_empty() {
        return Ok(());
    }
    keys.sort_unstable();
    keys.dedup();
    let from_ns = own.iter().map(|s| s.start_ns).min().unwrap_or(0).saturating_sub(SHELF_NS);
    let to_ns = own.iter().map(|s| s.end_ns).max().unwrap_or(0).saturating_add(SHELF_NS);
    let found = index.find(&keys, TimeRange { from_ns, to_ns }, limits.max_spans).map_err(AssembleError::Index)?;
    let mut all = Moves::default();
    found.iter().for_each(|s| all.add(s));
    let mut traces: FxHashMap<SpanId, Option<TraceId>> = own.iter().map(|s| (s.id, Some(trace.id))).collect();
    for s in &mut trace.spans {
        if !nearest(&s.span, &own) {
            continue;
        }
        s.links = all.links(&s.span, &own);
        for link in &mut s.links {
            if traces.len() < own.len() + MAX_TRACES && !traces.contains_key(&link.span) {
                let other = assemble(index, link.span, limits)?;
                traces.extend(other.spans.iter().map(|s| (s.span.id, Some(other.id))));
            }
            link.trace = traces.get(&link.span).copied().flatten();
        }
    }
    Ok(())
}

/// Whether no other span of the list saw the same request nearer to its sender.
pub(crate) fn nearest(span: &Span, all: &[Arc<Span>]) -> bool {
    !all.iter().any(|o| o.tap < span.tap && same_bytes(o, span).is_some())
}

/// Place and first offset.
type Start = (u64, u64);

/// Spans that moved messages, by the place and offset at which the messages begin.
#[derive(Default)]
pub(crate) struct Moves(BTreeMap<Start, Vec<(MessageRange, Arc<Span>)>>);

impl Moves {
    pub(crate) fn add(&mut self, span: &Arc<Span>) {
        for passage in message_ranges(span) {
            self.0.entry((passage.place, passage.first)).or_default().push((passage, span.clone()));
        }
    }

    pub(crate) fn remove(&mut self, span: &Span) {
        for passage in message_ranges(span) {
            if let Entry::Occupied(mut entry) = self.0.entry((passage.place, passage.first)) {
                entry.get_mut().retain(|(_, s)| s.id != span.id);
                if entry.get().is_empty() {
                    entry.remove();
                }
            }
        }
    }

    /// Links of a span to the spans that moved the same messages the other way, earliest first. The message ranges of
    /// spans in `own` that saw the same request count, too.
    pub(crate) fn links(&self, span: &Span, own: &[Arc<Span>]) -> Vec<SpanLink> {
        let mut found: Vec<Arc<Span>> = Vec::new();
        let mut seen = FxHashSet::default();
        let also = own.iter().filter(|o| o.id != span.id && same_bytes(o, span).is_some());
        let mut doubtful = FxHashMap::default();
        for mine in message_ranges(span).into_iter().chain(also.flat_map(|o| message_ranges(o))) {
            let range = (mine.place, mine.first.saturating_sub(LONGEST))..=(mine.place, mine.last);
            let moved = self.0.range(range).flat_map(|(_, list)| list);
            let fits = |other: &MessageRange, o: &Span| {
                other.transfer != mine.transfer && other.overlaps(&mine) && in_order(&mine, span, o) && o.id != span.id
            };
            let mut here: Vec<_> = moved.filter(|(other, o)| fits(other, o)).map(|(_, o)| o.clone()).collect();
            if may_share_names(span) {
                one_of(&mut here, mine.transfer, &mut doubtful);
            }
            found.extend(here.into_iter().filter(|o| seen.insert(o.id)));
        }
        let mut found = ends(&found);
        // Of records with spans of their own, these say more than what sent them.
        found.retain(|o| !has_created(o));
        // The fewer messages have a text in common, the more it tells. A name of its own tells most.
        let shared_by = |o: &Span| doubtful.get(&o.id).copied().unwrap_or_default();
        let fewest = found.iter().map(|o| shared_by(o)).min();
        found.retain(|o| Some(shared_by(o)) == fewest);
        found.sort_by_key(|o| (o.start_ns.abs_diff(span.start_ns), o.id));
        found.truncate(MAX_LINKS);
        found.sort_by_key(|o| (o.start_ns, o.id));
        let sent = |o: &Span| message_ranges(o).first().is_some_and(|p| p.transfer == Transfer::Sent);
        let link = |o: &Arc<Span>| SpanLink {
            span: o.id,
            trace: None,
            sent: sent(o),
            evidence: Evidence::Broker,
            confidence: if doubtful.contains_key(&o.id) {
                SAME_CONTENT
            } else if o.tuple.server == span.tuple.server {
                SAME_BROKER
            } else {
                OTHER_BROKER
            },
        };
        found.into_iter().map(link).collect()
    }
}

/// Whether the records that a span sent have spans of their own.
fn has_created(span: &Span) -> bool {
    span.attrs.iter().any(|(key, _)| key == KAFKA_CREATED)
}

/// One sender has put a message, and one taker gets it. Of several senders of the same content, the last one before it
/// was taken is kept: what failed is put back with the same content. Of several takers it is the first one.
///
/// `doubtful` gets the one that is kept, and how many there were, if they were several.
fn one_of(all: &mut Vec<Arc<Span>>, transfer: Transfer, doubtful: &mut FxHashMap<SpanId, usize>) {
    let ends = ends(all);
    let several = ends.len();
    let one = match transfer {
        Transfer::Received => ends.into_iter().max_by_key(|o| (o.start_ns, o.id)),
        Transfer::Sent => ends.into_iter().min_by_key(|o| (o.end_ns, o.id)),
    };
    let one = one.cloned();
    if let Some(one) = one.as_ref().filter(|_| several > 1) {
        doubtful.entry(one.id).and_modify(|n| *n = several.min(*n)).or_insert(several);
    }
    *all = one.into_iter().collect();
}

/// The spans that saw their request nearest to its sender. Spans that saw the same bytes have the same sequence number,
/// if they have one.
fn ends(all: &[Arc<Span>]) -> Vec<&Arc<Span>> {
    let mut same: FxHashMap<Option<u32>, Vec<Arc<Span>>> = FxHashMap::default();
    all.iter().for_each(|o| same.entry(o.request_seq).or_default().push(o.clone()));
    let among = |o: &Span, number| same.get(&number).is_none_or(|list| nearest(o, list));
    let is_end = |o: &&Arc<Span>| match o.request_seq {
        None => nearest(o, all),
        number => among(o, number) && among(o, None),
    };
    all.iter().filter(is_end).collect()
}

/// A message is received after it was sent. If the offsets of a place began anew, other messages may have the same
/// numbers.
fn in_order(mine: &MessageRange, span: &Span, other: &Span) -> bool {
    let (sent, received) = if mine.transfer == Transfer::Sent { (span, other) } else { (other, span) };
    let tolerance = crate::related::tolerance(sent, received);
    sent.start_ns <= received.end_ns.saturating_add(tolerance)
}
