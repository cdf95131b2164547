//! Waits: times in which a thread did not run, and why.

use crate::attr::{Attr, Text, Value, WAITS};
use crate::listed::listed_enum;
use crate::stack::{NamedLater, Stack};
use crate::Span;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

listed_enum! {
    /// What a thread waited for.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum WaitKind {
        /// Something that is not told apart.
        #[default]
        Other = 0,
        /// A lock, or a condition that another thread makes true.
        Lock = 1,
        /// A socket: bytes to read, room to write, a connection.
        Socket = 2,
        /// A file.
        Disk = 3,
        /// A time.
        Sleep = 4,
        /// An event of one of several files.
        Epoll = 5,
        /// A pipe, an eventfd or a terminal.
        Pipe = 6,
        /// A page of memory.
        PageFault = 7,
        /// A processor: the thread was ready, and others ran.
        RunQueue = 8,
        /// The CPU limit of its cgroup.
        CpuLimit = 9,
        /// The end of a process.
        Process = 10,
        /// The runtime of its language, which had stopped it.
        Runtime = 11,
    }
}

impl WaitKind {
    /// Short name, as in `wirespan.wait.kind`.
    pub fn as_str(self) -> &'static str {
        match self {
            WaitKind::Other => "other",
            WaitKind::Lock => "lock",
            WaitKind::Socket => "socket",
            WaitKind::Disk => "disk",
            WaitKind::Sleep => "sleep",
            WaitKind::Epoll => "epoll",
            WaitKind::Pipe => "pipe",
            WaitKind::PageFault => "page-fault",
            WaitKind::RunQueue => "run-queue",
            WaitKind::CpuLimit => "cpu-limit",
            WaitKind::Process => "process",
            WaitKind::Runtime => "runtime",
        }
    }
}

/// What ended a wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Waker {
    /// Nothing: the thread was ready all the time; or it is not known.
    #[default]
    Unknown,
    /// A thread of a target.
    Thread {
        /// Its process.
        pid: u32,
        /// Its id.
        tid: u32,
        /// Its name.
        name: Text,
        /// Its service, if it is of another process than the thread that waited.
        service: Text,
    },
    /// A thread of a process that is no target. Nothing is told of it.
    Another,
    /// A thread of the kernel.
    Kernel,
    /// A packet that came.
    Network,
    /// A device that had finished.
    Disk,
    /// A time that had come.
    Timer,
}

/// One wait of a thread. Times are Unix ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadWait {
    /// It stopped.
    pub stopped_ns: u64,
    /// It was ready again; equal to `stopped_ns` if it was all the time.
    pub woken_ns: u64,
    /// It went on; 0 if it still waits.
    pub ran_ns: u64,
    /// What it waited for.
    pub kind: WaitKind,
    /// Its system call; empty if it ran its own code.
    pub syscall: &'static str,
    /// File, peer or lock.
    pub resource: Text,
    /// Cookie of the socket that the call was about; 0 if it was about none.
    pub socket: u64,
    /// What woke it.
    pub waker: Waker,
    /// What ran while it was ready: a thread of a target, another process, or the kernel.
    pub ran: Waker,
    /// In which code it stopped; `None` if that was not taken.
    pub stack: Option<NamedLater>,
}

/// Waits of a thread, in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadWaits {
    /// Its process.
    pub pid: u32,
    /// Its id.
    pub tid: u32,
    /// Its name.
    pub thread: Text,
    /// Exchange whose answer it was sending, as in [`DataEvent::exchange`](crate::DataEvent::exchange); 0 if the waits
    /// were asked for.
    pub exchange: u64,
    /// The request had taken long; else it is one of a sample.
    pub slow: bool,
    /// The thread runs actors of its runtime in turns.
    pub runs_actors: bool,
    /// The waits.
    pub waits: Vec<ThreadWait>,
    /// Where it ran when the clock of its processor rang, since the request began.
    pub samples: Vec<ThreadSample>,
    /// When which thread ran the actor that answered, in their order; empty if it is the thread, or that is not known.
    pub turns: Vec<ActorTurn>,
}

/// Why an actor did not run that awaited something; the function in which it did follows.
pub const AWAITS: &str = "awaits: ";

/// Why an actor did not run that waited for nothing: its runtime ran others.
pub const READY: &str = "ready";

/// A thread ran an actor of its runtime. Times are Unix ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActorTurn {
    /// The thread.
    pub tid: u32,
    /// From then on.
    pub from_ns: u64,
    /// Until then.
    pub to_ns: u64,
    /// How much of it the thread was on a processor, ns; 0 if that is not known.
    pub ran_ns: u64,
    /// The actor was ready since then, and its runtime did not run it; `from_ns` or 0 if that is not known.
    pub ready_ns: u64,
    /// Why it did not run before, as its runtime says, [`READY`], or [`AWAITS`] and where; empty if not known.
    pub parked: Text,
}

/// A clock rings on each processor so often, ns: a sample stands for so much time.
pub const SAMPLE_NS: u64 = 1_000_000_000 / 99;

/// Where a thread ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadSample {
    /// When, Unix ns.
    pub time_ns: u64,
    /// In which code.
    pub stack: NamedLater,
}

/// What the holder of a lock did meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The thread: `thread worker-3`, `a thread of payments`.
    pub who: Text,
    /// It waited for this; `None`: it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<WaitKind>,
    /// In this system call.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub syscall: Text,
    /// As in [`SpanWait::resource`].
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub resource: Text,
    /// For so long, ns.
    pub duration_ns: u64,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.who)?;
        let facts = [self.kind.map_or("", WaitKind::as_str), &self.syscall, &self.resource];
        for (at, fact) in facts.into_iter().filter(|fact| !fact.is_empty()).enumerate() {
            write!(f, "{}{fact}", if at == 0 { " (" } else { " " })?;
        }
        f.write_str(if self.kind.is_some() { ")" } else { "" })
    }
}

/// A wait of a span's thread, within the span.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpanWait {
    /// What it waited for.
    pub kind: WaitKind,
    /// When it began, Unix ns.
    pub start_ns: u64,
    /// How long the thread did not run, ns.
    pub duration_ns: u64,
    /// Part of that in which it was ready, and had no processor, ns.
    #[serde(default, skip_serializing_if = "crate::skip::is_default")]
    pub ready_ns: u64,
    /// Name of its system call; empty if it ran its own code.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub syscall: Text,
    /// What the call was about: a file (its path is masked), the peer of a socket, a lock.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub resource: Text,
    /// What woke the thread: `thread worker-3`, a service, `network`, `disk`, `timer`, `another process`.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub woken_by: Text,
    /// The span for which the thread acted that woke it; empty if it acted for none, or for this one.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub woken_for: Text,
    /// What ran while the thread was ready, as in `woken_by`.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub ran_by: Text,
    /// The span for which it ran, as in `woken_for`.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub ran_for: Text,
    /// Who held the lock, and on whom that thread waited in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<Holder>,
    /// A call of the request was under way.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_call: bool,
    /// Name of the thread.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub thread: Text,
    /// In which code it waited: a place in [`SpanWaits::stacks`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<u32>,
}

impl SpanWait {
    /// The attributes of the event `wirespan.wait`, by which other systems get this wait. `stack`: the one that it has.
    pub fn attributes(&self, stack: Option<&Stack>) -> Vec<Attr> {
        let held_by: Vec<String> = self.held_by.iter().map(Holder::to_string).collect();
        let ns = |ns: u64| Value::Int(i64::try_from(ns).unwrap_or(i64::MAX));
        let mut all: Vec<Attr> = vec![
            ("wirespan.wait.kind".into(), self.kind.as_str().into()),
            ("wirespan.wait.duration".into(), ns(self.duration_ns)),
        ];
        if self.ready_ns > 0 {
            all.push(("wirespan.wait.ready".into(), ns(self.ready_ns)));
        }
        let texts = [
            ("wirespan.wait.syscall", &*self.syscall),
            ("wirespan.wait.resource", &*self.resource),
            ("wirespan.wait.woken_by", &*self.woken_by),
            ("wirespan.wait.woken_by.span_id", &*self.woken_for),
            ("wirespan.wait.ran_by", &*self.ran_by),
            ("wirespan.wait.ran_by.span_id", &*self.ran_for),
            ("wirespan.wait.held_by", &held_by.join(", ")),
            ("thread.name", &*self.thread),
            ("code.stacktrace", &stack.map(|s| Stack::text(&s.user)).unwrap_or_default()),
            ("wirespan.wait.stack.kernel", &stack.map(|s| Stack::text(&s.kernel)).unwrap_or_default()),
        ];
        all.extend(texts.into_iter().filter(|(_, text)| !text.is_empty()).map(|(key, text)| (key.into(), text.into())));
        if self.in_call {
            all.push(("wirespan.wait.in_call".into(), true.into()));
        }
        all
    }
}

/// How often a span's threads were seen in the same code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpanSample {
    /// A place in [`SpanWaits::stacks`].
    pub stack: u32,
    /// Each time stands for [`SAMPLE_NS`].
    pub times: u32,
}

/// The waits of a span, in the order of their beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpanWaits {
    /// The longest of them.
    pub waits: Vec<SpanWait>,
    /// Number of shorter ones that are left out.
    #[serde(default)]
    pub left_out: u32,
    /// How long the waits took that are left out, together.
    #[serde(default, skip_serializing_if = "crate::skip::is_default")]
    pub left_out_ns: u64,
    /// How often the threads were woken, and how long they then were ready until they ran, together, ns; of all waits.
    #[serde(default, skip_serializing_if = "is_never")]
    pub woken: (u32, u64),
    /// The stacks of these waits, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<Stack>,
    /// Where it ran, most often first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<SpanSample>,
    /// Number of further samples, whose stack is not known or rare.
    #[serde(default, skip_serializing_if = "crate::skip::is_default")]
    pub samples_left_out: u32,
}

impl SpanWaits {
    /// The waits that a span carries; `None` if its waits were not recorded.
    pub fn of(span: &Span) -> Option<Self> {
        serde_json::from_str(span.text(WAITS)?).ok()
    }

    /// The stack of one of these waits.
    pub fn stack(&self, wait: &SpanWait) -> Option<&Stack> {
        self.stacks.get(wait.stack? as usize)
    }

    /// The attribute that carries them within wirespan. Other systems get them as events of the span.
    pub fn attribute(&self) -> Attr {
        let json = serde_json::to_string(self).unwrap_or_default();
        (Cow::Borrowed(WAITS), Value::Str(json.into()))
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde wants a reference
fn is_never(woken: &(u32, u64)) -> bool {
    woken.0 == 0
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::stack::Frame;

    #[test]
    fn what_a_span_carries_comes_back() {
        let held_by = vec![Holder { who: "thread b".into(), kind: Some(WaitKind::Disk), ..Holder::default() }];
        let wait = SpanWait { kind: WaitKind::Lock, duration_ns: 7, held_by, ..SpanWait::default() };
        let stacks =
            vec![Stack { user: vec![Frame { function: "f".into(), line: 2, ..Frame::default() }], kernel: vec![] }];
        let waits = SpanWaits {
            waits: vec![SpanWait { stack: Some(0), ..wait }, SpanWait::default()],
            left_out: 3,
            left_out_ns: 9,
            woken: (4, 5),
            stacks,
            samples: vec![SpanSample { stack: 0, times: 2 }],
            samples_left_out: 1,
        };
        assert_eq!(waits.stack(&waits.waits[0]).unwrap().user[0].line, 2);
        assert_eq!(waits.stack(&waits.waits[1]), None);
        let span = Span { attrs: vec![waits.attribute()], ..Span::default() };
        assert_eq!(SpanWaits::of(&span), Some(waits));
        assert_eq!(SpanWaits::of(&Span::default()), None);
    }

    #[test]
    fn other_systems_get_each_wait_in_words_that_are_not_empty() {
        let disk = Holder { syscall: "fsync".into(), kind: Some(WaitKind::Disk), ..Holder::default() };
        let held_by =
            vec![Holder { who: "thread b".into(), ..disk }, Holder { who: "thread c".into(), ..Holder::default() }];
        let wait = SpanWait { kind: WaitKind::Lock, duration_ns: 7, held_by, ..SpanWait::default() };
        let frame = |name: &str| Frame { function: name.into(), ..Frame::default() };
        let stack = Stack { user: vec![frame("f"), frame("main")], kernel: vec![frame("futex_wait")] };
        let told: Vec<String> =
            wait.attributes(Some(&stack)).iter().map(|(key, value)| format!("{key}={value}")).collect();
        let held = "wirespan.wait.held_by=thread b (disk fsync), thread c";
        let (user, kernel) = ("code.stacktrace=f\nmain", "wirespan.wait.stack.kernel=futex_wait");
        assert_eq!(told, ["wirespan.wait.kind=lock", "wirespan.wait.duration=7", held, user, kernel]);
    }

    #[test]
    fn kinds_have_distinct_names_and_codes() {
        for kind in WaitKind::ALL {
            assert_eq!(WaitKind::from_code(kind as u8), Some(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
            assert_eq!(WaitKind::ALL.iter().filter(|k| k.as_str() == kind.as_str()).count(), 1);
        }
    }
}
