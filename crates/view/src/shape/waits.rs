//! What the threads of a span waited for, as JSON.

use super::FlameBoxView;
use serde::Serialize;
use utoipa::ToSchema;
use wirespan_model::attr::WAIT_REASON;
use wirespan_model::stack::{Frame, Stack};
use wirespan_model::wait::{SpanWait, SpanWaits};
use wirespan_model::Span;
use wirespan_trace::{Flame, Waited};

/// The recorded waits of a span.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SpanWaitsView {
    /// Why they were recorded: `slow` or `sample`.
    pub reason: String,
    /// The longest of them, in the order of their beginning.
    pub waits: Vec<WaitView>,
    /// Number of shorter ones that are left out.
    pub left_out: u32,
    /// A flame graph of the code in which the span ran and waited; empty if that is not known.
    pub flame: Vec<FlameBoxView>,
}

/// One wait of a thread.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct WaitView {
    /// `lock`, `socket`, `disk`, …, as in `wirespan.wait.kind`.
    pub kind: &'static str,
    /// Name of the thread.
    pub thread: String,
    /// When it began, since the start of the span, ns.
    pub offset_ns: u64,
    /// How long the thread did not run, ns.
    pub duration_ns: u64,
    /// The part of it in which the thread was ready, ns.
    pub ready_ns: u64,
    /// Whether a call of the request was under way.
    pub in_call: bool,
    /// What it waited for, what woke it, and who held it up: `waited for a lock held by thread b, which …`.
    pub words: String,
    /// Id of the span for which the thread acted that ended the wait; absent if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub woken_by_span: Option<String>,
    /// What ran while the thread was ready: `thread b`, `service shop`, `another process`; absent if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ran_by: Option<String>,
    /// Id of the span for which it ran; absent if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ran_by_span: Option<String>,
    /// In which code of the program it waited, innermost function first; empty if that is not known.
    pub stack: Vec<String>,
    /// What the kernel did then, innermost function first.
    pub kernel_stack: Vec<String>,
}

impl SpanWaitsView {
    /// The waits that a span carries; `None` if they were not recorded.
    pub(crate) fn of(span: &Span) -> Option<Self> {
        let mut told = SpanWaits::of(span)?;
        let reason = span.text(WAIT_REASON).unwrap_or_default().to_string();
        let waits = std::mem::take(&mut told.waits);
        let waits = waits.into_iter().map(|wait| WaitView::of(span, told.stack(&wait), wait)).collect();
        let flame = Flame::of_span(span).map_or_else(Vec::new, |flame| flame.boxes());
        let flame = flame.into_iter().map(FlameBoxView::from).collect();
        Some(SpanWaitsView { reason, waits, left_out: told.left_out, flame })
    }
}

impl WaitView {
    fn of(span: &Span, stack: Option<&Stack>, wait: SpanWait) -> Self {
        let told =
            |frames: fn(&Stack) -> &[Frame]| stack.map_or(&[][..], frames).iter().map(Frame::to_string).collect();
        let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        WaitView {
            woken_by_span: known(&wait.woken_for),
            ran_by: known(&wait.ran_by),
            ran_by_span: known(&wait.ran_for),
            stack: told(|stack| &stack.user),
            kernel_stack: told(|stack| &stack.kernel),
            kind: wait.kind.as_str(),
            thread: wait.thread.to_string(),
            offset_ns: wait.start_ns.saturating_sub(span.start_ns),
            duration_ns: wait.duration_ns,
            ready_ns: wait.ready_ns,
            in_call: wait.in_call,
            words: Waited::from(wait).text(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use wirespan_model::wait::WaitKind;
    use wirespan_model::Value;

    #[test]
    fn waits_are_told_since_the_start_of_the_span_and_in_words() {
        let mut span = Span { start_ns: 1_000, ..Span::default() };
        assert!(SpanWaitsView::of(&span).is_none());
        let wait = SpanWait {
            kind: WaitKind::Socket,
            start_ns: 1_250,
            duration_ns: 700,
            syscall: "recvfrom".into(),
            resource: "10.0.0.7:5432".into(),
            woken_by: "network".into(),
            thread: "worker".into(),
            ..SpanWait::default()
        };
        let waits = SpanWaits { waits: vec![wait], left_out: 2, ..SpanWaits::default() };
        span.attrs = vec![waits.attribute(), (WAIT_REASON.into(), Value::from("slow"))];
        let view = SpanWaitsView::of(&span).unwrap();
        assert_eq!((&*view.reason, view.left_out, view.waits.len()), ("slow", 2, 1));
        let wait = &view.waits[0];
        assert_eq!((wait.offset_ns, wait.duration_ns, wait.kind, &*wait.thread), (250, 700, "socket", "worker"));
        assert_eq!(wait.words, "waited for data from 10.0.0.7:5432, woken by network");
    }
}
