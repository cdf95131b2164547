//! Waits in words.

use super::runtime::INTERPRETER_LOCK;
use super::turns::PARKED;
use crate::tree::duration;
use serde::Serialize;
use std::fmt::Write as _;
use wirespan_model::stack::{Frame, Stack};
use wirespan_model::wait::{Holder, SpanWait, SpanWaits, WaitKind, AWAITS, READY};
use wirespan_model::{plain, Span, Text};

/// Waits of a span that are alike.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Waited {
    /// What for.
    pub kind: WaitKind,
    /// Number of waits.
    pub times: usize,
    /// All together, ns.
    pub duration_ns: u64,
    /// System call; empty if there was none.
    pub syscall: Text,
    /// File, peer or lock.
    pub resource: Text,
    /// What ended the longest of them.
    pub woken_by: Text,
    /// The span for which that thread acted; empty if that is not known.
    #[serde(skip_serializing_if = "Text::is_empty")]
    pub woken_for: Text,
    /// What ran while the thread was ready, in the longest of them.
    #[serde(skip_serializing_if = "Text::is_empty")]
    pub ran_by: Text,
    /// The span for which it ran.
    #[serde(skip_serializing_if = "Text::is_empty")]
    pub ran_for: Text,
    /// Who held the lock of the longest of them, and on whom that thread waited in turn.
    pub held_by: Vec<Holder>,
    /// Calls of the request were under way.
    pub in_call: bool,
    /// In which code the longest of them was; empty if that is not known.
    #[serde(skip_serializing_if = "Stack::is_empty")]
    pub stack: Stack,
}

impl Waited {
    /// Of a span, longest first; `None` if its waits were not recorded.
    pub fn of(span: &Span) -> Option<Vec<Self>> {
        let mut all: Vec<(Waited, u64)> = Vec::new();
        let mut told = SpanWaits::of(span)?;
        for w in std::mem::take(&mut told.waits) {
            let stack = told.stack(&w).cloned().unwrap_or_default();
            let alike = |(g, _): &&mut (Waited, u64)| {
                (g.kind, &g.syscall, &g.resource, g.in_call) == (w.kind, &w.syscall, &w.resource, w.in_call)
            };
            match all.iter_mut().find(alike) {
                Some((group, longest)) => {
                    group.times += 1;
                    group.duration_ns += w.duration_ns;
                    if w.duration_ns > *longest {
                        *longest = w.duration_ns;
                        *group =
                            Waited { stack, times: group.times, duration_ns: group.duration_ns, ..Waited::from(w) };
                    }
                }
                None => {
                    let longest = w.duration_ns;
                    all.push((Waited { stack, ..Waited::from(w) }, longest));
                }
            }
        }
        let mut groups: Vec<Waited> = all.into_iter().map(|(group, _)| group).collect();
        groups.sort_by_key(|w| std::cmp::Reverse(w.duration_ns));
        Some(groups)
    }

    /// What the thread did, and who kept it waiting: `waited for a lock held by thread b, which slept for 80.0ms`.
    pub fn text(&self) -> String {
        let mut text = phrase(self.kind, &self.syscall, &self.resource);
        text.push_str(&self.ended_by());
        if self.times > 1 {
            let _ = write!(text, " ({} times)", self.times);
        }
        text
    }

    /// The same of several requests that do it for so much longer than others: `wait 86.0ms longer for a lock held by
    /// thread b`.
    pub(super) fn longer(&self, ns: &str) -> String {
        let did = phrase(self.kind, &self.syscall, &self.resource);
        let more = |of: &str, to: &str| did.strip_prefix(of).map(|rest| to.replace("NS", ns) + rest);
        let verbs = [
            ("waited", "wait NS longer"),
            ("slept", "sleep NS longer"),
            ("read", "read NS longer"),
            ("wrote", "write NS longer"),
            ("was ready", "are ready NS longer"),
            ("was held back by its", "are held back NS longer by their"),
            ("was stopped by its", "are stopped NS longer by their"),
            ("was parked by its", "are parked NS longer by their"),
            ("was suspended", "are suspended NS longer"),
        ];
        let told = verbs.iter().find_map(|(of, to)| more(of, to));
        told.unwrap_or_else(|| format!("take {ns} longer where each {did}")) + &self.ended_by()
    }

    /// Who kept it waiting, or what woke it.
    fn ended_by(&self) -> String {
        if self.kind == WaitKind::RunQueue && !self.ran_by.is_empty() {
            return format!(": {} ran{}", plain::line(&self.ran_by), acts_for(&self.ran_for));
        }
        let holders = holders(&self.held_by, &acts_for(&self.woken_for));
        if !holders.is_empty() {
            let by = match self.kind {
                WaitKind::Lock => " held by ",
                WaitKind::Runtime if self.resource == INTERPRETER_LOCK => " held by ",
                WaitKind::Runtime => " by ",
                _ => ", woken by ",
            };
            format!("{by}{holders}")
        } else if !self.woken_by.is_empty() && self.woken_by != "timer" {
            format!(", woken by {}{}", plain::line(&self.woken_by), acts_for(&self.woken_for))
        } else {
            String::new()
        }
    }
}

/// Most functions that are told of a stack.
const MOST_FRAMES: usize = 5;

/// In which code a wait was: `price (cart.c:17) ← checkout (shop.c:40) ← main (shop.c:9)`. Empty if that is not known.
pub(crate) fn place(stack: &Stack) -> String {
    let told: Vec<String> = telling(stack, MOST_FRAMES).map(|f| plain::line(&f.to_string()).into_owned()).collect();
    told.join(" ← ")
}

/// The functions that say most of a place, innermost first, at most so many.
pub(super) fn telling(stack: &Stack, most: usize) -> impl Iterator<Item = &Frame> {
    let frames = match stack.telling() {
        [] => &stack.kernel,
        user => user,
    };
    frames.iter().filter(|frame| !frame.function.is_empty()).take(most)
}

impl From<SpanWait> for Waited {
    fn from(w: SpanWait) -> Self {
        let SpanWait { kind, duration_ns, syscall, resource, woken_by, woken_for, ran_by, ran_for, held_by, .. } = w;
        let (times, in_call, stack) = (1, w.in_call, Stack::default());
        Waited {
            kind,
            times,
            duration_ns,
            syscall,
            resource,
            woken_by,
            woken_for,
            ran_by,
            ran_for,
            held_by,
            in_call,
            stack,
        }
    }
}

/// For which request a thread acted: ` (for span 00f067aa0ba902b7)`.
fn acts_for(span: &str) -> String {
    if span.is_empty() {
        String::new()
    } else {
        format!(" (for span {span})")
    }
}

/// A chain of holders: `thread b, which waited for a lock held by thread c, which slept for 80.0ms`. `first_for`: for
/// which request the first one acted.
fn holders(chain: &[Holder], first_for: &str) -> String {
    let mut text = String::new();
    for (at, holder) in chain.iter().enumerate() {
        text.push_str(&plain::line(&holder.who));
        if at == 0 {
            text.push_str(first_for);
        }
        let last = at + 1 == chain.len();
        match holder.kind {
            None if holder.duration_ns > 0 => text.push_str(", which ran"),
            None => {}
            Some(kind) => {
                let did = phrase(kind, &holder.syscall, &holder.resource);
                let _ = write!(text, ", which {did} for {}", duration(i128::from(holder.duration_ns)));
                if !last {
                    text.push_str(if kind == WaitKind::Lock { ", held by " } else { ", woken by " });
                }
            }
        }
    }
    text
}

/// What a thread did that waited.
fn phrase(kind: WaitKind, syscall: &str, resource: &str) -> String {
    let resource = plain::line(resource);
    let of = |what: &str, other: &str| {
        if resource.is_empty() {
            other.to_string()
        } else {
            format!("{what} {resource}")
        }
    };
    match kind {
        WaitKind::Lock if resource.starts_with("0x") || resource.is_empty() => "waited for a lock".into(),
        WaitKind::Lock => format!("waited for a lock on {resource}"),
        WaitKind::Socket => match syscall {
            "connect" => of("waited for a connection to", "waited for a connection"),
            "accept" | "accept4" => "waited for somebody to connect".into(),
            "write" | "writev" | "sendto" | "sendmsg" | "sendmmsg" | "sendfile" => {
                of("waited for room to send to", "waited for room to send")
            }
            _ if resource == "unix socket" => "waited for data from a unix socket".into(),
            _ => of("waited for data from", "waited for data from a socket"),
        },
        WaitKind::Disk => match syscall {
            "fsync" | "fdatasync" | "sync" | "syncfs" | "msync" | "sync_file_range" => {
                format!("{} ({syscall})", of("waited until the disk had", "waited until the disk had a file"))
            }
            "read" | "pread64" | "readv" | "preadv" | "preadv2" => of("read from", "read from a file"),
            "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" => of("wrote to", "wrote to a file"),
            _ => format!("{} ({syscall})", of("waited for the file", "waited for the file system")),
        },
        WaitKind::Sleep => "slept".into(),
        WaitKind::Epoll => "waited for events".into(),
        WaitKind::Pipe => format!("waited at a pipe ({syscall})"),
        WaitKind::PageFault => "waited for a page of memory".into(),
        WaitKind::RunQueue => "was ready and got no processor".into(),
        WaitKind::CpuLimit => "was held back by its CPU limit".into(),
        WaitKind::Process => "waited for a process to end".into(),
        WaitKind::Runtime if resource == "safepoint" => "was stopped by its runtime (safepoint)".into(),
        WaitKind::Runtime if resource == PARKED => {
            "was parked by its runtime, for a lock, a channel, a timer or a connection".into()
        }
        WaitKind::Runtime if resource == READY => "was ready, and its runtime did not run it".into(),
        WaitKind::Runtime if resource.starts_with(PARKED) => {
            format!("was parked by its runtime ({})", resource.trim_start_matches(PARKED).trim_start_matches(": "))
        }
        WaitKind::Runtime if resource.starts_with(AWAITS) => {
            format!("was suspended in {}", resource.trim_start_matches(AWAITS))
        }
        WaitKind::Runtime if resource == INTERPRETER_LOCK => "waited for the interpreter lock".into(),
        WaitKind::Runtime => format!("was stopped by its runtime for a {resource} (safepoint)"),
        WaitKind::Other if syscall.is_empty() => "waited in the kernel".into(),
        WaitKind::Other => format!("waited in the kernel ({syscall})"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn waits_that_are_alike_are_told_once_with_the_longest_holder() {
        let held = |who: &str, kind| Holder { who: who.into(), kind, duration_ns: 80_000_000, ..Holder::default() };
        let lock = |ns, held_by| SpanWait { kind: WaitKind::Lock, duration_ns: ns, held_by, ..SpanWait::default() };
        let chain = vec![held("thread b", Some(WaitKind::Lock)), held("thread c", Some(WaitKind::Sleep))];
        let fsync = SpanWait {
            kind: WaitKind::Disk,
            syscall: "fsync".into(),
            resource: "/var/log/app.log".into(),
            woken_by: "disk".into(),
            duration_ns: 50,
            ..SpanWait::default()
        };
        let waits = SpanWaits {
            waits: vec![lock(5, vec![held("thread a", None)]), lock(90, chain), fsync],
            left_out: 0,
            ..SpanWaits::default()
        };
        let queue = |ran_by: &str, ran_for: &str| {
            let wait = SpanWait { kind: WaitKind::RunQueue, ran_by: ran_by.into(), ..SpanWait::default() };
            Waited::from(SpanWait { ran_for: ran_for.into(), ..wait }).text()
        };
        assert_eq!(queue("", ""), "was ready and got no processor");
        assert_eq!(queue("service shop", "0a"), "was ready and got no processor: service shop ran (for span 0a)");
        let woken = SpanWait { woken_by: "thread b".into(), woken_for: "0a".into(), ..lock(5, vec![]) };
        assert_eq!(Waited::from(woken.clone()).text(), "waited for a lock, woken by thread b (for span 0a)");
        let held_by = vec![held("thread b", Some(WaitKind::Sleep))];
        let text = Waited::from(SpanWait { held_by, ..woken }).text();
        assert_eq!(text, "waited for a lock held by thread b (for span 0a), which slept for 80.0ms");
        let parked = |resource: &str| phrase(WaitKind::Runtime, "", resource);
        assert_eq!(parked("parked: sync.Mutex.Lock"), "was parked by its runtime (sync.Mutex.Lock)");
        assert_eq!(parked("awaits: Lock.acquire"), "was suspended in Lock.acquire");
        let span = Span { attrs: vec![waits.attribute()], ..Span::default() };
        let told: Vec<_> = Waited::of(&span).unwrap().iter().map(|w| (w.duration_ns, w.text())).collect();
        let lock = "waited for a lock held by thread b, which waited for a lock for 80.0ms, held by thread c, which \
                    slept for 80.0ms (2 times)";
        let disk = "waited until the disk had /var/log/app.log (fsync), woken by disk";
        assert_eq!(told, [(95, lock.to_string()), (50, disk.to_string())]);
    }
}
