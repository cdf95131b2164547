//! Boxes of a flame graph, as JSON.

use serde::Serialize;
use utoipa::ToSchema;
use wirespan_trace::{FlameBox, FlameKind};

/// A box of a flame graph.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct FlameBoxView {
    /// Number of boxes above it.
    pub depth: u32,
    /// Where it begins, from the left, ns.
    pub from_ns: u64,
    /// Time in which it was under way, ns.
    pub ns: u64,
    /// The same of usual requests, ns; 0 if there are none.
    pub usual_ns: u64,
    /// Function, or a wait in brackets.
    pub name: String,
    /// `request`, `program`, `kernel` or `wait`.
    pub kind: &'static str,
}

impl From<FlameBox> for FlameBoxView {
    fn from(of: FlameBox) -> Self {
        let kind = match of.kind {
            FlameKind::Request => "request",
            FlameKind::Program => "program",
            FlameKind::Kernel => "kernel",
            FlameKind::Wait => "wait",
        };
        let FlameBox { depth, from_ns, ns, usual_ns, name, .. } = of;
        FlameBoxView { depth, from_ns, ns, usual_ns, name, kind }
    }
}
