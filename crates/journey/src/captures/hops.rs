//! What the spans of a request say of its hops.

use super::offsets::{set, Offsets};
use super::order::Order;
use super::ways::{View, Way};
use super::Capture;
use crate::clocks::{difference, Bounds, Drift};
use wirespan_model::{hop, Span, TapSide, Value};

/// Values of the time to live with which systems send. A packet that has one has passed no router.
const INITIAL_TTLS: [u8; 4] = [32, 64, 128, 255];

/// Whether the packets of this direction have passed no router before the view. Where it is not known, they have not.
fn is_fresh(view: &View, to_server: bool) -> bool {
    let of_direction = view.sights.iter().filter(|((to, _), _)| *to == to_server);
    let mut ttls = of_direction.filter_map(|(_, sight)| sight.ttl);
    ttls.all(|ttl| INITIAL_TTLS.contains(&ttl))
}

/// Tap side of the `at`th of `points` views.
fn tap(view: &View, at: usize, points: usize) -> TapSide {
    let (by_client, by_server) = (is_fresh(view, true), is_fresh(view, false));
    match (at == 0, at + 1 == points) {
        (true, _) if by_client => TapSide::ClientNic,
        (_, true) if by_server => TapSide::ServerNic,
        // A router lies between this point and one of the two ends only.
        (false, false) if by_client && !by_server => TapSide::ClientNode,
        (false, false) if by_server && !by_client => TapSide::ServerNode,
        _ => TapSide::Gateway,
    }
}

/// Writes tap sides and attributes into the spans of all requests of a connection.
pub(super) fn write(way: &Way, order: &Order, offsets: &Offsets, captures: &mut [Capture]) {
    for exchange in &way.exchanges {
        let on_way = order.views.iter().enumerate().filter_map(|(at, view)| {
            let (_, span) = exchange.iter().find(|(v, _)| v == view)?;
            Some((at, *view, *span))
        });
        let on_way: Vec<_> = on_way.collect();
        let points = on_way.len();
        let mut before: Option<(usize, &View, Span)> = None;
        for (n, (at, view, span)) in on_way.into_iter().enumerate() {
            let view = &way.views[view];
            let name = captures[view.capture].name.clone();
            let span = &mut captures[view.capture].spans[span];
            let seen = span.clone();
            span.tap = tap(view, n, points);
            set(span, hop::POSITION, n as f64 + 1.0);
            set(span, hop::POINTS, points as f64);
            if !name.is_empty() {
                span.attrs.push((hop::CAPTURE_FILE.into(), name.into()));
            }
            if let Some((_, from, earlier)) = &before {
                // Of views that lie between and did not see this request, the weakest proof counts.
                let since = before.as_ref().map_or(0, |(at, ..)| *at);
                let proof = order.proofs.get(since..at).and_then(|proofs| proofs.iter().max());
                if let Some(proof) = proof {
                    span.attrs.push((hop::EVIDENCE.into(), Value::Str(proof.as_str().into())));
                }
                let ahead = offsets.between(from.capture, view.capture, seen.start_ns);
                let drift = offsets.drift(from.capture, view.capture);
                hop(span, earlier, &seen, ahead, drift);
                let lost = lost(from, view, earlier, &seen);
                if lost > 0 {
                    set(span, hop::LOST_BYTES, lost as f64);
                }
            }
            before = Some((at, view, seen));
        }
    }
}

/// Says that the order of the places is not known.
pub(super) fn write_unordered(way: &Way, captures: &mut [Capture]) {
    for (view, span) in way.exchanges.iter().filter(|views| views.len() > 1).flatten() {
        let span = &mut captures[way.views[*view].capture].spans[*span];
        span.attrs.push((hop::EVIDENCE.into(), hop::UNORDERED.into()));
    }
}

/// Times of the hop between two views of a request. `ahead`, `drift`: of the clock of the second one.
fn hop(span: &mut Span, from: &Span, to: &Span, ahead: Option<Bounds>, drift: Drift) {
    let answered = from.response_ns > 0 && to.response_ns > 0;
    let both = drift.both_ways((from.start_ns, from.response_ns), (to.start_ns, to.response_ns)).filter(|_| answered);
    if let Some(both) = both {
        set(span, hop::ROUND_TRIP, both.middle_ns());
        set(span, hop::ROUND_TRIP_ERROR, (both.width_ns() / 2.0).ceil());
    }
    let Some(ahead) = ahead else { return };
    let forth = difference(to.start_ns, from.start_ns);
    let forth = Bounds { low_ns: forth - ahead.high_ns, high_ns: forth - ahead.low_ns };
    let back = difference(from.response_ns, to.response_ns);
    let back = Bounds { low_ns: back + ahead.low_ns, high_ns: back + ahead.high_ns };
    let most = if answered { both.map_or(0.0, |both| both.high_ns) } else { f64::MAX };
    for (bounds, key, error, is_known) in
        [(forth, hop::REQUEST, hop::REQUEST_ERROR, true), (back, hop::RESPONSE, hop::RESPONSE_ERROR, answered)]
    {
        // If the clocks leave all of the hop open, the time of one direction is not known.
        let is_told = ahead.width_ns() == 0.0 || ahead.width_ns() < most;
        if is_known && is_told {
            let told = Bounds { low_ns: bounds.low_ns.max(0.0), high_ns: bounds.high_ns.min(most.max(bounds.low_ns)) };
            set(span, key, told.middle_ns());
            set(span, error, told.width_ns() / 2.0);
        }
    }
}

/// Bytes of the request that the second view did not see as often as the first, and of the response the other way.
fn lost(near: &View, far: &View, at_near: &Span, at_far: &Span) -> u64 {
    let entered_and_left = |to_server: bool, seq: Option<u32>, len: u64| {
        let Some(seq) = seq else { return 0 };
        let [near, far] = [near, far].map(|view| view.bytes_seen(to_server, seq, len));
        if to_server {
            near.saturating_sub(far)
        } else {
            far.saturating_sub(near)
        }
    };
    entered_and_left(true, at_far.request_seq, at_near.request_bytes)
        + entered_and_left(false, at_near.response_seq, at_far.response_bytes)
}
