//! Connections that several captures saw.

use super::Capture;
use rustc_hash::FxHashMap;
use std::ops::Range;
use wirespan_model::packet::Passage;
use wirespan_model::{Key, Span, TapSide};

/// A packet at a place: when, and its time to live if that is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    pub(super) time_ns: u64,
    pub(super) ttl: Option<u8>,
}

/// What stays the same of a packet on its way: whether it goes to the server, and a number.
pub(super) type Mark = (bool, u64);

/// A connection as one capture saw it. A capture on a gateway that translates addresses may see one connection twice.
#[derive(Debug)]
pub(super) struct View {
    pub(super) capture: usize,
    pub(super) socket: u64,
    /// Packets that were seen exactly once.
    pub(super) sights: FxHashMap<Mark, Sight>,
    /// Bytes to the client and to the server: sequence number relative to `base`, length. Sorted.
    bytes: [Vec<(u32, u32)>; 2],
    base: [u32; 2],
}

/// A connection at several places.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) views: Vec<View>,
    /// For each request, the views that saw it, with the number of the span within the capture.
    pub(super) exchanges: Vec<Vec<(usize, usize)>>,
}

/// Room before the first sequence number that was seen, for segments that were reordered.
const BEFORE: u32 = 1 << 20;
/// Longest segment of a sender that leaves the cutting to its network card, bytes.
const LONGEST: u32 = 1 << 19;

impl View {
    fn of(capture: usize, socket: u64, of: &Capture, index: &FxHashMap<u64, Range<usize>>, ascends: bool) -> Self {
        let mut sights: FxHashMap<Mark, Option<Sight>> = FxHashMap::default();
        let (mut bytes, mut base) = ([Vec::new(), Vec::new()], [None, None]);
        let range = index.get(&socket).cloned().unwrap_or_default();
        for p in of.passages.get(range).unwrap_or_default() {
            let to_server = p.ascending == ascends;
            let sight = Sight { time_ns: p.time_ns, ttl: Some(p.ttl) };
            sights.entry((to_server, p.seq.into())).and_modify(|seen| *seen = None).or_insert(Some(sight));
            let base = base[usize::from(to_server)].get_or_insert(p.seq.wrapping_sub(BEFORE));
            bytes[usize::from(to_server)].push((p.seq.wrapping_sub(*base), p.len));
        }
        bytes.iter_mut().for_each(|all| all.sort_unstable());
        let sights = sights.into_iter().filter_map(|(mark, sight)| Some((mark, sight?))).collect();
        View { capture, socket, sights, bytes, base: base.map(Option::unwrap_or_default) }
    }

    /// Bytes of payload from this sequence number on that were seen, also those that were seen before.
    pub(super) fn bytes_seen(&self, to_server: bool, seq: u32, len: u64) -> u64 {
        let (all, base) = (&self.bytes[usize::from(to_server)], self.base[usize::from(to_server)]);
        let start = seq.wrapping_sub(base);
        let end = u64::from(start) + len;
        let from = all.partition_point(|(at, _)| *at < start.saturating_sub(LONGEST));
        let near = all.get(from..).unwrap_or_default().iter().take_while(|(at, _)| u64::from(*at) < end);
        let inside = |(at, len): &(u32, u32)| {
            let (first, last) = (u64::from(*at).max(start.into()), (u64::from(*at) + u64::from(*len)).min(end));
            last.saturating_sub(first)
        };
        near.map(inside).sum()
    }
}

/// Disjoint sets of numbers.
struct Sets(Vec<usize>);

impl Sets {
    fn find(&mut self, mut i: usize) -> usize {
        while self.0[i] != i {
            self.0[i] = self.0[self.0[i]];
            i = self.0[i];
        }
        i
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a.max(b)] = a.min(b);
    }
}

/// The same requests in several captures: capture and number of each span.
fn requests(captures: &[Capture]) -> Vec<Vec<(usize, usize)>> {
    let all: Vec<(usize, usize)> =
        captures.iter().enumerate().flat_map(|(c, of)| (0..of.spans.len()).map(move |s| (c, s))).collect();
    let mut sets = Sets((0..all.len()).collect());
    let mut first: FxHashMap<Key, usize> = FxHashMap::default();
    for (i, (c, s)) in all.iter().enumerate() {
        let span = &captures[*c].spans[*s];
        if span.tap != TapSide::Capture {
            continue;
        }
        for key in span.wire_keys() {
            sets.join(*first.entry(key).or_insert(i), i);
        }
    }
    let mut groups: FxHashMap<usize, Vec<(usize, usize)>> = FxHashMap::default();
    for (i, at) in all.iter().enumerate() {
        groups.entry(sets.find(i)).or_default().push(*at);
    }
    let several = |group: &Vec<(usize, usize)>| group.len() > 1;
    // Ids of datagrams come back. Where one capture has two requests of one name, it is not known which is meant.
    let distinct = |group: &Vec<(usize, usize)>| {
        let place = |(c, s): &(usize, usize)| (*c, captures[*c].spans[*s].socket);
        let mut places: Vec<_> = group.iter().map(place).collect();
        places.sort_unstable();
        places.windows(2).all(|w| w[0] != w[1])
    };
    let mut groups: Vec<_> = groups.into_values().filter(|group| several(group) && distinct(group)).collect();
    groups.sort_unstable();
    groups
}

/// All connections that several captures saw.
pub(super) fn find(captures: &mut [Capture]) -> Vec<Way> {
    for capture in captures.iter_mut() {
        capture.passages.sort_by_key(|p| p.socket);
    }
    let captures = &*captures;
    let requests = requests(captures);
    let mut numbers: FxHashMap<(usize, u64), usize> = FxHashMap::default();
    let place = |(c, s): (usize, usize)| (c, captures[c].spans[s].socket);
    for at in requests.iter().flatten() {
        let next = numbers.len();
        numbers.entry(place(*at)).or_insert(next);
    }
    let mut sets = Sets((0..numbers.len()).collect());
    for request in &requests {
        request.iter().for_each(|at| sets.join(numbers[&place(request[0])], numbers[&place(*at)]));
    }
    let indices: Vec<_> = captures.iter().map(index).collect();
    let mut ways: FxHashMap<usize, Way> = FxHashMap::default();
    for request in &requests {
        let way = ways
            .entry(sets.find(numbers[&place(request[0])]))
            .or_insert_with(|| Way { views: Vec::new(), exchanges: Vec::new() });
        let exchange = request.iter().map(|(c, s)| {
            let span = &captures[*c].spans[*s];
            let known = way.views.iter().position(|v| (v.capture, v.socket) == (*c, span.socket));
            let view = known.unwrap_or_else(|| {
                let ascends = span.tuple.client < span.tuple.server;
                way.views.push(View::of(*c, span.socket, &captures[*c], &indices[*c], ascends));
                way.views.len() - 1
            });
            (view, *s)
        });
        let exchange: Vec<_> = exchange.collect();
        way.exchanges.push(exchange);
    }
    let mut ways: Vec<Way> = ways.into_values().collect();
    ways.sort_by_key(|way| way.exchanges.first().and_then(|e| e.first()).copied());
    ways.iter_mut().for_each(|way| add_datagrams(way, captures));
    ways
}

/// Where the segments of each connection lie.
fn index(capture: &Capture) -> FxHashMap<u64, Range<usize>> {
    let mut index: FxHashMap<u64, Range<usize>> = FxHashMap::default();
    for (i, Passage { socket, .. }) in capture.passages.iter().enumerate() {
        index.entry(*socket).or_insert(i..i).end = i + 1;
    }
    index
}

/// Datagrams have no sequence numbers: the first byte of request and response stand for them.
fn add_datagrams(way: &mut Way, captures: &[Capture]) {
    for (n, exchange) in (0u64..).zip(&way.exchanges) {
        for (view, span) in exchange {
            let Some(view) = way.views.get_mut(*view) else { continue };
            let Span { start_ns, response_ns, request_seq, response_seq, .. } = captures[view.capture].spans[*span];
            if request_seq.is_some() || response_seq.is_some() {
                continue;
            }
            for (to_server, time_ns) in [(true, start_ns), (false, response_ns)].into_iter().filter(|(_, t)| *t > 0) {
                view.sights.insert((to_server, n), Sight { time_ns, ttl: None });
            }
        }
    }
}
