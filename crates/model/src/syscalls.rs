//! System calls that threads made for a request, in the form in which they are shown.

use crate::attr::{Attr, Text, Value, CALLS, CALLS_AS};
use crate::key::hash64;
use crate::span::{Span, SpanId, SpanKind, TapSide};
use crate::trace::{Evidence, ParentLink, Trace, TraceSpan};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

/// One system call of a thread. Times are Unix ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCall {
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// When it began.
    pub began_ns: u64,
    /// When it ended.
    pub ended_ns: u64,
    /// Its name.
    pub name: &'static str,
    /// What it returned; negative: an error.
    pub result: i64,
    /// Calls of the thread since the one before this that were lost.
    pub lost_before: u32,
}

/// How the calls of a span are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallForm {
    /// Each call is a span below its request.
    Spans,
    /// Each call is an event of the span of its request.
    Events,
    /// Number, total and longest time by name, as attributes of the span.
    #[default]
    Attributes,
}

impl CallForm {
    /// Every form.
    pub const ALL: [CallForm; 3] = [CallForm::Spans, CallForm::Events, CallForm::Attributes];

    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            CallForm::Spans => "spans",
            CallForm::Events => "events",
            CallForm::Attributes => "attributes",
        }
    }

    /// Reads the word.
    pub fn read(word: &str) -> Option<CallForm> {
        CallForm::ALL.into_iter().find(|form| form.as_str() == word)
    }

    /// The form in which the calls of a span are wanted; `None` if they are not.
    pub fn of(span: &Span) -> Option<CallForm> {
        CallForm::read(span.text(CALLS_AS)?)
    }

    /// The attribute that says so.
    pub fn attribute(self) -> Attr {
        (Cow::Borrowed(CALLS_AS), Value::Str(self.as_str().into()))
    }
}

/// The calls of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSum {
    /// Name of the system call.
    pub name: Text,
    /// How many.
    pub count: u64,
    /// How many of them returned an error.
    #[serde(default, skip_serializing_if = "crate::skip::is_default")]
    pub failed: u64,
    /// How long all took together, ns.
    pub total_ns: u64,
    /// How long the longest took, ns.
    pub longest_ns: u64,
}

/// One call of a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpanCall {
    /// Its name: a place in [`SpanCalls::sums`].
    pub sum: u32,
    /// When it began, Unix ns.
    pub start_ns: u64,
    /// How long it took.
    pub duration_ns: u64,
    /// What it returned; negative: an error.
    pub result: i64,
    /// The thread.
    pub tid: u32,
}

/// The system calls of a span.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpanCalls {
    /// How they are shown.
    pub form: CallForm,
    /// All calls by name, those that took longest first.
    pub sums: Vec<CallSum>,
    /// Each call, in the order of their beginning, unless they are shown as attributes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<SpanCall>,
    /// Number of further calls, which are in the sums only.
    #[serde(default, skip_serializing_if = "crate::skip::is_default")]
    pub left_out: u64,
    /// Number of calls that the kernel could not tell; they are in no sum.
    #[serde(default, skip_serializing_if = "crate::skip::is_default")]
    pub lost: u64,
    /// Some of its calls gave way to newer ones before it ended: the sums are too small.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
}

impl SpanCalls {
    /// The calls that a span carries; `None` if its calls were not recorded.
    pub fn of(span: &Span) -> Option<Self> {
        serde_json::from_str(span.text(CALLS)?).ok()
    }

    /// The attribute that carries them within wirespan.
    pub fn attribute(&self) -> Attr {
        let json = serde_json::to_string(self).unwrap_or_default();
        (Cow::Borrowed(CALLS), Value::Str(json.into()))
    }

    /// The name of a call.
    pub fn name(&self, call: &SpanCall) -> &str {
        self.sums.get(call.sum as usize).map_or("", |sum| &sum.name)
    }

    /// The attributes that every other system gets: what is missing, and the sums if that is the form.
    pub fn attributes(&self) -> Vec<Attr> {
        let number = |key: String, n: u64| (Cow::Owned(key), Value::Int(i64::try_from(n).unwrap_or(i64::MAX)));
        let all: u64 = self.sums.iter().map(|sum| sum.count).sum();
        let mut told = vec![number("wirespan.syscalls".into(), all)];
        let missing = [("wirespan.syscalls.left_out", self.left_out), ("wirespan.syscalls.lost", self.lost)];
        told.extend(missing.into_iter().filter(|(_, n)| *n > 0).map(|(key, n)| number(key.into(), n)));
        if self.incomplete {
            told.push(("wirespan.syscalls.incomplete".into(), true.into()));
        }
        for sum in self.sums.iter().filter(|_| self.form == CallForm::Attributes) {
            let key = |what: &str| format!("wirespan.syscall.{}.{what}", sum.name);
            told.push(number(key("count"), sum.count));
            told.push(number(key("total"), sum.total_ns));
            told.push(number(key("longest"), sum.longest_ns));
            told.extend((sum.failed > 0).then(|| number(key("failed"), sum.failed)));
        }
        told
    }

    /// The calls that are events of the span.
    pub fn events(&self) -> &[SpanCall] {
        if self.form == CallForm::Events {
            &self.calls
        } else {
            &[]
        }
    }

    /// The attributes of one call, as an event or a span.
    pub fn call_attributes(&self, call: &SpanCall) -> Vec<Attr> {
        let duration_ns = Value::Int(i64::try_from(call.duration_ns).unwrap_or(i64::MAX));
        vec![
            ("wirespan.syscall.name".into(), self.name(call).into()),
            ("wirespan.syscall.duration".into(), duration_ns),
            ("wirespan.syscall.result".into(), Value::Int(call.result)),
            ("thread.id".into(), Value::Int(i64::from(call.tid))),
        ]
    }
}

/// The calls of a span that are spans themselves. They are below it, and are made each time that they are shown.
pub fn call_spans(of: &Span) -> Vec<Span> {
    let Some(all) = SpanCalls::of(of).filter(|all| all.form == CallForm::Spans) else { return Vec::new() };
    let span = |(n, call): (usize, &SpanCall)| Span {
        id: SpanId(hash64(&[b"syscall", &of.id.0.to_le_bytes(), &(n as u64).to_le_bytes()]).max(1)),
        kind: SpanKind::Internal,
        tap: TapSide::App,
        operation: all.name(call).into(),
        protocol: "syscall".into(),
        start_ns: call.start_ns,
        end_ns: call.start_ns + call.duration_ns,
        trace_id: of.trace_id,
        parent_span_id: Some(of.id),
        host_id: of.host_id,
        pid: of.pid,
        tid: call.tid,
        resource: of.resource.clone(),
        attrs: all.call_attributes(call),
        ..Span::default()
    };
    all.calls.iter().enumerate().map(span).collect()
}

/// A trace with the calls of its spans that are spans themselves, each among the children of its request.
pub fn with_calls(trace: Trace) -> Trace {
    let mut spans: Vec<TraceSpan> = Vec::with_capacity(trace.spans.len());
    // Of each span above the present one: its calls that are not in the list yet.
    let mut above: Vec<(u32, VecDeque<TraceSpan>)> = Vec::new();
    for span in trace.spans {
        while above.last().is_some_and(|(depth, _)| *depth >= span.depth) {
            spans.extend(above.pop().into_iter().flat_map(|(_, calls)| calls));
        }
        if let Some((_, calls)) = above.last_mut().filter(|(depth, _)| depth + 1 == span.depth) {
            while calls.front().is_some_and(|call| call.span.start_ns <= span.span.start_ns) {
                spans.extend(calls.pop_front());
            }
        }
        let link = Some(ParentLink { parent: span.span.id, evidence: Evidence::Thread, confidence: 1.0 });
        let below = |call| TraceSpan { span: Arc::new(call), link, depth: span.depth + 1, links: Vec::new() };
        let calls: VecDeque<TraceSpan> = call_spans(&span.span).into_iter().map(below).collect();
        if !calls.is_empty() {
            above.push((span.depth, calls));
        }
        spans.push(span);
    }
    while let Some((_, calls)) = above.pop() {
        spans.extend(calls);
    }
    Trace { spans, ..trace }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn calls(form: CallForm) -> SpanCalls {
        let sum = |name: &str, count| CallSum { name: name.into(), count, total_ns: 9, longest_ns: 7, failed: 0 };
        let call = |sum, start_ns| SpanCall { sum, start_ns, duration_ns: 2, result: -2, tid: 8 };
        let calls = if form == CallForm::Attributes { Vec::new() } else { vec![call(1, 15), call(0, 35)] };
        SpanCalls { form, sums: vec![sum("openat", 3), sum("read", 1)], calls, left_out: 2, lost: 0, incomplete: false }
    }

    fn span(id: u64, start_ns: u64, depth: u32, attrs: Vec<Attr>) -> TraceSpan {
        let span = Arc::new(Span { id: SpanId(id), start_ns, attrs, ..Span::default() });
        TraceSpan { span, depth, ..TraceSpan::default() }
    }

    #[test]
    fn what_a_span_carries_comes_back_in_each_form() {
        for form in CallForm::ALL {
            assert_eq!(CallForm::read(form.as_str()), Some(form));
            let told = calls(form);
            let carrier = Span { attrs: vec![told.attribute(), form.attribute()], ..Span::default() };
            assert_eq!((SpanCalls::of(&carrier), CallForm::of(&carrier)), (Some(told.clone()), Some(form)));
            assert_eq!(told.events().len(), if form == CallForm::Events { 2 } else { 0 });
            assert_eq!(call_spans(&carrier).len(), if form == CallForm::Spans { 2 } else { 0 });
        }
        assert_eq!((SpanCalls::of(&Span::default()), CallForm::read("span")), (None, None));
    }

    #[test]
    fn sums_are_attributes_and_what_is_missing_is_told_in_every_form() {
        let told = |form| calls(form).attributes().iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>();
        assert_eq!(told(CallForm::Spans), ["wirespan.syscalls=4", "wirespan.syscalls.left_out=2"]);
        let sums = told(CallForm::Attributes);
        assert_eq!(sums.len(), 8);
        assert!(sums.contains(&"wirespan.syscall.openat.count=3".into()), "{sums:?}");
        assert!(sums.contains(&"wirespan.syscall.read.longest=7".into()), "{sums:?}");
    }

    #[test]
    fn calls_stand_among_the_children_of_their_request() {
        let carrier = vec![calls(CallForm::Spans).attribute()];
        let spans = vec![
            span(1, 0, 0, Vec::new()),
            span(2, 10, 1, carrier),
            span(3, 20, 2, Vec::new()),
            span(4, 40, 1, vec![]),
        ];
        let trace = with_calls(Trace { id: Default::default(), spans, complete: true });
        let order: Vec<_> = trace.spans.iter().map(|s| (s.depth, s.span.start_ns)).collect();
        assert_eq!(order, [(0, 0), (1, 10), (2, 15), (2, 20), (2, 35), (1, 40)]);
        let call = &trace.spans[2];
        assert_eq!((call.span.name(), call.link.unwrap().parent), ("read".into(), SpanId(2)));
        assert_ne!(call.span.id, trace.spans[4].span.id);
    }
}
