//! Times on the way of a request, as JSON.

use serde::Serialize;
use utoipa::ToSchema;
use wirespan_model::Latency;
use wirespan_trace::Hop;

/// A time with its error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct TimeView {
    /// At least, ns.
    pub low_ns: u64,
    /// At most, ns.
    pub high_ns: u64,
    /// The middle; missing if the bounds are farther apart than that: then only the upper bound is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns: Option<u64>,
    /// How far the truth may be from the middle.
    pub error_ns: u64,
}

impl From<Latency> for TimeView {
    fn from(of: Latency) -> Self {
        let Latency { low_ns, high_ns } = of;
        let (ns, error_ns) = match of.known() {
            Some((ns, error_ns)) => (Some(ns), error_ns),
            None => (None, high_ns.saturating_sub(low_ns).div_ceil(2)),
        };
        TimeView { low_ns, high_ns, ns, error_ns }
    }
}

/// The way of a request from one point to another, and of its response back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct HopView {
    /// The request's first byte; missing if nothing compares the clocks of the two points well enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub there: Option<TimeView>,
    /// The response's first byte; missing in this case, too, and where one of the points saw no response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back: Option<TimeView>,
    /// Both together. How far the clocks differ does not matter, only how much they go apart meanwhile. Missing where
    /// one of the points saw no response, or where what they saw contradicts each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub both: Option<TimeView>,
}

impl From<Hop> for HopView {
    fn from(of: Hop) -> Self {
        HopView {
            there: of.there.map(TimeView::from),
            back: of.back.map(TimeView::from),
            both: of.both.map(TimeView::from),
        }
    }
}
