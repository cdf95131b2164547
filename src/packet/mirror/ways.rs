//! The order of mirrored devices on the way of a request.
//!
//! ```text
//! spans, segments of each device ──wait──▶ the views of one request together ──captures::align──▶ in their order
//! ```
//!
//! One machine reads all devices, so their frames have the times of one clock.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use wirespan_journey::captures::{align, Capture};
use wirespan_model::packet::Passage;
use wirespan_model::{Key, Span};

/// A span waits so long for the views of other devices.
const WAIT_NS: u64 = 1_000_000_000;
/// Segments are kept so long. Of a request that takes longer, the order of the devices is not known.
const KEEP_NS: u64 = 30_000_000_000;
/// Spans that wait at most; others go on without order.
const HELD: usize = 50_000;
/// Segments of all devices that are kept at most.
pub(super) const PASSAGES: usize = 200_000;
/// Numbers of sockets are those of their device. Above this bit stands the number of the device.
const DEVICE_BIT: u32 = 48;

/// Brings the spans of several devices in order.
#[derive(Debug, Default)]
pub(super) struct Ways {
    /// With the time at which it came.
    held: VecDeque<(u64, Span)>,
    passages: VecDeque<Passage>,
    unordered: u64,
    forgotten: u64,
    unheld: u64,
}

impl Ways {
    /// Takes what a device saw.
    pub(super) fn add(&mut self, device: usize, spans: Vec<Span>, passages: Vec<Passage>, now_ns: u64) {
        let own = |socket: u64| socket | ((device as u64 + 1) << DEVICE_BIT);
        self.held.extend(spans.into_iter().map(|span| (now_ns, Span { socket: own(span.socket), ..span })));
        self.passages.extend(passages.into_iter().map(|p| Passage { socket: own(p.socket), ..p }));
    }

    /// Hands on the spans that have waited for long enough, each with the other views of its request.
    pub(super) fn turn(&mut self, now_ns: u64, out: &mut Vec<Arc<Span>>) {
        let due = self.held.partition_point(|(came_ns, _)| came_ns + WAIT_NS <= now_ns);
        let over = self.held.len().saturating_sub(HELD);
        self.unheld += over.saturating_sub(due) as u64;
        self.hand_on(due.max(over), out);
        // Segments are in the order in which devices were read, and so nearly in that of time.
        let old = self.passages.iter().take_while(|p| p.time_ns + KEEP_NS < now_ns).count();
        let many = self.passages.len().saturating_sub(PASSAGES);
        self.forgotten += many.saturating_sub(old) as u64;
        self.passages.drain(..old.max(many));
    }

    /// Hands on all that is left.
    pub(super) fn finish(&mut self, out: &mut Vec<Arc<Span>>) {
        self.hand_on(self.held.len(), out);
    }

    fn hand_on(&mut self, due: usize, out: &mut Vec<Arc<Span>>) {
        if due == 0 {
            return;
        }
        let mut spans: Vec<Span> = self.held.drain(..due).map(|(_, span)| span).collect();
        let keys: HashSet<Key> = spans.iter().flat_map(Span::wire_keys).collect();
        let is_view = |span: &Span| span.wire_keys().iter().any(|key| keys.contains(key));
        let (views, rest) = std::mem::take(&mut self.held).into_iter().partition::<VecDeque<_>, _>(|(_, s)| is_view(s));
        self.held = rest;
        spans.extend(views.into_iter().map(|(_, span)| span));
        let sockets: HashSet<u64> = spans.iter().map(|span| span.socket).collect();
        let passages = self.passages.iter().filter(|p| sockets.contains(&p.socket)).copied().collect();
        let mut captures = [Capture { name: String::new(), spans, passages }];
        self.unordered += align(&mut captures).unordered as u64;
        let [Capture { spans, .. }] = captures;
        out.extend(spans.into_iter().map(Arc::new));
    }

    pub(super) fn counters(&self) -> [(&'static str, u64); 3] {
        [
            ("connections_unordered", self.unordered),
            ("passages_dropped", self.forgotten),
            ("spans_without_order", self.unheld),
        ]
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use wirespan_model::{hop, Endpoint, FiveTuple, SpanId, Transport};

    const SECOND: u64 = 1_000_000_000;
    const START: u64 = 1_790_000_000 * SECOND;

    /// A request that a device saw `near` ns after the client sent it, and its response `near` ns before it was there.
    fn seen(n: u32, near: u64) -> (Span, Vec<Passage>) {
        let end = |last, port| Endpoint { ip: [10, 0, 0, last].into(), port };
        let tuple = FiveTuple { client: end(1, 40_000), server: end(2, 80), transport: Transport::Tcp };
        let (request_seq, response_seq) = (1_000 + n * 100, 9_000 + n * 50);
        let start_ns = START + u64::from(n) * SECOND + near;
        let response_ns = START + u64::from(n) * SECOND + 900_000 - near;
        let passage = |time_ns, seq, ascending| Passage { socket: 7, time_ns, seq, len: 10, ttl: 64, ascending };
        let span = Span {
            id: SpanId(u64::from(n) * 1_000_000 + near + 1),
            tap: wirespan_model::TapSide::Capture,
            socket: 7,
            tuple,
            start_ns,
            response_ns,
            end_ns: response_ns,
            request_seq: Some(request_seq),
            response_seq: Some(response_seq),
            ..Span::default()
        };
        (span, vec![passage(start_ns, request_seq, true), passage(response_ns, response_seq, false)])
    }

    fn add(ways: &mut Ways, device: usize, (span, passages): (Span, Vec<Passage>), now_ns: u64) {
        ways.add(device, vec![span], passages, now_ns);
    }

    fn positions(out: &[Arc<Span>]) -> Vec<i64> {
        let mut all: Vec<&Arc<Span>> = out.iter().collect();
        all.sort_by_key(|span| span.start_ns);
        all.iter().map(|span| span.hop_position()).collect()
    }

    #[test]
    fn views_of_a_request_come_together_and_in_the_order_of_the_way() {
        let (mut ways, mut out) = (Ways::default(), Vec::new());
        // The farther device is read first; the nearer one tells its view half a second later.
        add(&mut ways, 0, seen(0, 20_000), START + SECOND);
        add(&mut ways, 1, seen(0, 10_000), START + SECOND * 3 / 2);
        ways.turn(START + SECOND * 2 - 1, &mut out);
        assert!(out.is_empty(), "they wait for each other");
        ways.turn(START + SECOND * 2, &mut out);
        assert_eq!(positions(&out), [1, 2]);
        let far = out.iter().find(|span| span.hop_position() == 2).unwrap();
        let told = [hop::REQUEST, hop::RESPONSE, hop::ROUND_TRIP, hop::REQUEST_ERROR].map(|key| far.number(key));
        assert_eq!(told, [Some(10_000), Some(10_000), Some(20_000), Some(0)]);
        // The next request of the same connection.
        add(&mut ways, 1, seen(1, 10_000), START + SECOND * 3);
        add(&mut ways, 0, seen(1, 20_000), START + SECOND * 3);
        out.clear();
        ways.finish(&mut out);
        assert_eq!(positions(&out), [1, 2]);
    }

    #[test]
    fn a_device_that_tells_all_packets_late_leaves_the_order_unknown() {
        let (mut ways, mut out) = (Ways::default(), Vec::new());
        let (mut span, mut passages) = seen(0, 10_000);
        // Requests and responses come 50 µs later than at the other device.
        (span.start_ns, span.response_ns, span.id) = (span.start_ns + 50_000, span.response_ns + 50_000, SpanId(5));
        passages.iter_mut().for_each(|passage| passage.time_ns += 50_000);
        add(&mut ways, 0, seen(0, 10_000), START);
        add(&mut ways, 1, (span, passages), START);
        ways.finish(&mut out);
        assert_eq!(positions(&out), [0, 0]);
        assert!(out.iter().all(|span| span.is_unordered()));
        assert_eq!(ways.counters()[0], ("connections_unordered", 1));
    }

    #[test]
    fn what_one_device_saw_alone_goes_on_as_it_was() {
        let (mut ways, mut out) = (Ways::default(), Vec::new());
        add(&mut ways, 0, seen(0, 10_000), START);
        ways.turn(START + WAIT_NS, &mut out);
        assert_eq!((out.len(), out[0].attrs.len()), (1, 0));
    }

    #[test]
    fn segments_and_spans_are_bounded_and_counted() {
        let (mut ways, mut out) = (Ways::default(), Vec::new());
        let (span, passages) = seen(0, 10_000);
        ways.add(0, vec![span; HELD + 3], passages.repeat(PASSAGES / 2 + 1), START);
        ways.turn(START, &mut out);
        assert_eq!((ways.counters()[1].1, ways.counters()[2].1), (2, 3));
        assert!(out.len() >= 3 && ways.passages.len() == PASSAGES);
        ways.turn(START + KEEP_NS + SECOND, &mut out);
        assert!(ways.passages.is_empty() && ways.held.is_empty());
    }
}
