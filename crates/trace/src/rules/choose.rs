//! Which of several spans with the same name (trace context, X-Request-ID) made a request.

use crate::related::same_process;
use std::sync::Arc;
use wirespan_model::{Span, Text};

/// Why a span was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chosen {
    /// No other span fits.
    Only,
    /// Of those that fit it alone has the operation and the target of the request.
    SameCall,
    /// It lies within all others that fit, which are other processes' spans: the nearest in a chain of calls.
    Nearest,
}

/// Chooses among the spans that fit in time, in order of start. `None` if nothing tells them apart.
pub(super) fn choose(span: &Span, fits: &[u32], spans: &[Arc<Span>]) -> Option<(u32, Chosen)> {
    match fits {
        [] => return None,
        [only] => return Some((*only, Chosen::Only)),
        _ => {}
    }
    let same: Vec<u32> = fits.iter().copied().filter(|p| is_same_call(&spans[*p as usize], span)).collect();
    match same.as_slice() {
        [only] => Some((*only, Chosen::SameCall)),
        [] => nearest(fits, spans),
        _ => nearest(&same, spans),
    }
}

/// The last to start, if all others lie around it. Two calls of one process at a time are not a chain.
fn nearest(fits: &[u32], spans: &[Arc<Span>]) -> Option<(u32, Chosen)> {
    let (last, others) = fits.split_last()?;
    let inner = &spans[*last as usize];
    let around = |p: &u32| {
        let outer = &spans[*p as usize];
        outer.start_ns < inner.start_ns && inner.end_ns < outer.end_ns && !same_process(outer, inner)
    };
    others.iter().all(around).then_some((*last, Chosen::Nearest))
}

/// Whether operation and target are the same.
pub(super) fn is_same_call(a: &Span, b: &Span) -> bool {
    !b.target.is_empty() && a.target == b.target && a.operation == b.operation
}

/// Whether one request cannot have become the other on its way: no proxy changes the method of HTTP.
pub(super) fn is_other_method(a: &Span, b: &Span) -> bool {
    let method = |s: &Span| matches!(&*s.protocol, "http" | "http2").then(|| s.operation.clone());
    let known = |m: Option<Text>| m.filter(|m| !m.is_empty());
    matches!((known(method(a)), known(method(b))), (Some(a), Some(b)) if a != b)
}
