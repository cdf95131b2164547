//! The events of a span, as OTLP and Jaeger show them: what its threads waited for, where they ran, which system calls
//! they made, and what its SDK noted. Names are in docs/attributes.md.

use crate::stack::Stack;
use crate::syscalls::SpanCalls;
use crate::wait::{SpanSample, SpanWait, SpanWaits, SAMPLE_NS};
use crate::{Attr, SdkEvent, Span, Value};
use std::borrow::Cow;

/// Most places that are told in which a span ran.
const MOST_PLACES: usize = 5;

/// Something that happened within a span.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanEvent {
    /// When it began.
    pub time_ns: u64,
    /// Its kind: `wirespan.wait`, `wirespan.cpu` or `wirespan.syscall`; of an SDK's event its name.
    pub name: Cow<'static, str>,
    /// What is known of it.
    pub attributes: Vec<Attr>,
}

/// The events of a span. Its own are `waits` ([`SpanWaits::of`]) and what its SDK `told` ([`crate::SdkTold::of`]).
pub fn span_events(span: &Span, waits: Option<&SpanWaits>, told: Vec<SdkEvent>) -> Vec<SpanEvent> {
    let mut events: Vec<SpanEvent> = told.into_iter().map(SpanEvent::from).collect();
    if let Some(all) = waits {
        let wait = |of: &SpanWait| SpanEvent {
            time_ns: of.start_ns,
            name: "wirespan.wait".into(),
            attributes: of.attributes(all.stack(of)),
        };
        events.extend(all.waits.iter().map(wait));
        events.extend(all.samples.iter().take(MOST_PLACES).filter_map(|sample| place(span, all, sample)));
    }
    // They may be spans or attributes instead.
    if let Some(all) = SpanCalls::of(span) {
        events.extend(all.events().iter().map(|call| SpanEvent {
            time_ns: call.start_ns,
            name: "wirespan.syscall".into(),
            attributes: all.call_attributes(call),
        }));
    }
    events
}

/// In which code the span's threads ran. It is told at the span's start.
fn place(span: &Span, all: &SpanWaits, sample: &SpanSample) -> Option<SpanEvent> {
    let stack = all.stacks.get(sample.stack as usize)?;
    let times = i64::from(sample.times);
    let mut attributes: Vec<Attr> = vec![
        ("wirespan.cpu.samples".into(), Value::Int(times)),
        ("wirespan.cpu.time".into(), Value::Int(times.saturating_mul(SAMPLE_NS as i64))),
    ];
    for (key, frames) in [("code.stacktrace", &stack.user), ("wirespan.cpu.stack.kernel", &stack.kernel)] {
        if !frames.is_empty() {
            attributes.push((key.into(), Stack::text(frames).into()));
        }
    }
    Some(SpanEvent { time_ns: span.start_ns, name: "wirespan.cpu".into(), attributes })
}
