//! The same bytes at the next observation point of their path.

use super::{nearest, Candidate, Rule};
use crate::related::same_bytes;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use wirespan_model::{Evidence, Key, Span, TapSide};

/// Place on the path from caller to called. A capture file lies somewhere between.
fn rank(tap: TapSide) -> Option<u8> {
    match tap {
        TapSide::App => None,
        TapSide::Capture => Some(TapSide::Gateway as u8),
        other => Some(other as u8),
    }
}

pub(super) fn propose(spans: &[Arc<Span>], out: &mut Vec<Candidate>) {
    let mut lists: FxHashMap<(Key, u8), Vec<u32>> = FxHashMap::default();
    for (i, span) in spans.iter().enumerate() {
        let Some(rank) = rank(span.tap) else { continue };
        for key in span.wire_keys() {
            lists.entry((key, rank)).or_default().push(i as u32);
        }
    }
    for (i, span) in spans.iter().enumerate() {
        let Some(rank) = rank(span.tap) else { continue };
        if let Some((parent, confidence)) = previous(i as u32, rank, span, spans, &lists) {
            out.push(Candidate { child: i as u32, parent, rule: Rule::Wire, evidence: Evidence::Wire, confidence });
        }
    }
}

/// The nearest point before this one that saw the same bytes.
fn previous(
    child: u32,
    rank: u8,
    span: &Span,
    spans: &[Arc<Span>],
    lists: &FxHashMap<(Key, u8), Vec<u32>>,
) -> Option<(u32, f32)> {
    let keys = span.wire_keys();
    // Points of the same rank between the ends (two captures) have positions, or else follow each other in time.
    let position = span.hop_position();
    let between = rank != TapSide::ClientProcess as u8 && rank != TapSide::ServerProcess as u8;
    for r in (TapSide::ClientProcess as u8..=rank).rev() {
        if r == rank && !between {
            continue;
        }
        let mut best: Option<(u32, f32, i64, u64)> = None;
        for list in keys.iter().filter_map(|k| lists.get(&(*k, r))) {
            for &p in nearest(list, spans, span.start_ns) {
                let parent = &spans[p as usize];
                let place = parent.hop_position();
                if r == rank && (place, p) >= (position, child) {
                    continue;
                }
                let Some(confidence) = same_bytes(parent, span) else { continue };
                let distance = parent.start_ns.abs_diff(span.start_ns);
                let better = best.is_none_or(|(b, c, at, d)| {
                    let nearer = (place, std::cmp::Reverse((distance, p))) > (at, std::cmp::Reverse((d, b)));
                    confidence > c || confidence == c && nearer
                });
                if better {
                    best = Some((p, confidence, place, distance));
                }
            }
        }
        if let Some((p, confidence, ..)) = best {
            return Some((p, confidence));
        }
    }
    None
}
