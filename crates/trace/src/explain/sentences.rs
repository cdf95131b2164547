//! What says most of a span, in a sentence: what is new in it, else what took most of its time.

use super::story::{short, Step};
use super::usual::{blocks, Change};
use super::words::{place, Waited};
use super::Parts;

/// Most waits that are named if it is not known which of them is new.
const MOST_NAMED: usize = 3;

/// How it differs from usual ones, in a line or two.
pub(super) fn against_usual(step: &Step) -> String {
    let Some(usual) = &step.usual else {
        return "No other request like this one was seen in the hour before: what is new in it is not known.".into();
    };
    let told = format!("Usual for this endpoint (median of {}): {}.", usual.spans, short(usual.duration_ns));
    match step.change() {
        Some(Change { part, above_ns, then_ns, .. }) => {
            let what = Parts::WORDS[part];
            format!("{told}\n  Most of what is new: {what}, {} more than {}.", short(above_ns), short(then_ns))
        }
        None if step.above_ns() == 0 => format!("{told}\n  This one took no longer."),
        None => format!("{told}\n  No part of this one took much longer."),
    }
}

/// What says most of a span: what is new in it, else what took most of its time. `is_last`: nothing is known of what
/// happened at the other end of a call.
pub(super) fn sentence(step: &Step, is_last: bool) -> String {
    let all = short(step.duration_ns);
    let (Some(parts), Some(part)) = (&step.parts, step.telling_part()) else {
        return format!("{}, {all}: where it went is not known", step.name);
    };
    let did = did(step, part, is_last);
    match (step.change(), &step.usual) {
        (Some(change), Some(usual)) => {
            let (name, usual) = (&step.name, short(usual.duration_ns));
            let (more, now, then) = match change.wait {
                Some(w) => (w.now_ns - w.then_ns, w.now_ns, w.then_ns),
                None => (change.above_ns, parts.values()[part], change.then_ns),
            };
            let (more, now, then) = (short(more), short(now), short(then));
            format!("{name}, {all} instead of {usual}: {more} more than usual ({now}, not {then}) it {did}")
        }
        _ => {
            let longest = step.waits.iter().flatten().find(|w| part == Parts::BLOCKED && blocks(w));
            let ns = longest.map_or(parts.values()[part], |w| w.duration_ns);
            format!("{}, for {} of {all} it {did}", step.name, short(ns))
        }
    }
}

/// What a span did in one of its parts: `ran`, `waited in its calls`.
fn did(step: &Step, part: usize, is_last: bool) -> String {
    match part {
        Parts::ON_CPU => match step.ran_in.as_ref().map(|(stack, ns)| (place(stack), ns)) {
            Some((place, ns)) if !place.is_empty() => {
                format!("ran: the work itself takes the time, about {} of it in {place}", short(*ns))
            }
            _ => "ran: the work itself takes the time".into(),
        },
        Parts::RUN_QUEUE => "was ready and got no processor: something else ran there".into(),
        Parts::CPU_LIMIT => "was held back by the CPU limit of its cgroup".into(),
        Parts::RUNTIME_QUEUE => "was ready, and the runtime of its program ran others".into(),
        Parts::BLOCKED => blocked(step),
        Parts::CHILDREN => match &step.asked {
            Some(end) if is_last => format!("waited for the answer of {end}, of which no span was seen"),
            Some(end) => format!("waited for the answer of {end}"),
            None => "waited in its calls".into(),
        },
        Parts::OTHER_REQUESTS => "waited because its thread worked for other requests".into(),
        _ => "did what is not known: another thread took over, and how long that waited was not seen".into(),
    }
}

/// What a span waited for that was not in a call: what is new, else the longest.
fn blocked(step: &Step) -> String {
    let mut waits = step.waits.iter().flatten().filter(|w| blocks(w));
    let change = step.change();
    match (change.and_then(|change| change.wait), change.is_some()) {
        (Some(new), _) => new.longest.text(),
        // Which of its waits is new is not known.
        (None, true) if step.waits.is_some() => {
            let told: Vec<String> =
                waits.take(MOST_NAMED).map(|w| format!("{} it {}", short(w.duration_ns), w.text())).collect();
            format!("did not run. What usual requests wait for was not recorded; this one: {}", told.join("; "))
        }
        _ => waits.next().map_or_else(
            || "was blocked outside of calls that were seen: by a lock, a timer, a disk, or traffic that is not traced \
                (--threshold records by which)"
                .into(),
            Waited::text,
        ),
    }
}
