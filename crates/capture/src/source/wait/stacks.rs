//! Stacks on which threads stopped: the kernel's table of them, made while waits are asked for.

use super::names::{Asked, Names};
use super::unwind::{Copies, Job, Later, Unwinding};
use crate::boxes::{self, Shown};
use crate::object::WirespanSkel;
use crate::runtime::Functions;
use crate::wire::contract::{Stack, StackCopy, WS_STACKS_KEPT, WS_STACK_KERNEL, WS_STACK_NATIVE, WS_STACK_USER};
use libbpf_rs::MapCore as _;
use std::os::fd::AsFd as _;
use wirespan_model::stack::NamedLater;

/// Bytes of an entry.
const ENTRY: u32 = Stack::SIZE as u32 + 8 * (WS_STACK_KERNEL + WS_STACK_USER);

/// The tables of the kernel programs, and the threads that make stacks of them.
struct Tables {
    stacks: Shown,
    names: Names,
    /// `None` if stacks of programs are not wanted, or if there is no memory for copies: frame pointers are followed
    /// then, and nothing else.
    copies: Option<(Copies, Unwinding)>,
}

impl Tables {
    fn make(skel: &WirespanSkel<'static>, with_copies: bool) -> Option<Tables> {
        let names = Names::start(Functions::open(skel))?;
        let place = &skel.maps.wait_stacks;
        let stacks = boxes::make_array(place, "wait_stacks", ENTRY, WS_STACKS_KEPT);
        let stacks = stacks.inspect_err(|error| {
            tracing::warn!(%error, "no memory for stacks: where requests waited is not told");
        });
        let stacks = Shown::of(stacks.ok()?.as_fd(), ENTRY, WS_STACKS_KEPT);
        let stacks = stacks.inspect_err(|error| {
            tracing::warn!(%error, "stacks cannot be read: where requests waited is not told");
        });
        let copies = || with_copies.then(|| Some((Copies::keep(skel)?, Unwinding::start()?))).flatten();
        Some(Tables { stacks: stacks.ok()?, names, copies: copies() })
    }

    /// Counters of this table, in the order of [`COUNTERS`].
    fn counts(&self) -> [u64; COUNTERS.len()] {
        let [named, unnamed, not_named, damaged] = self.names.counts();
        let copies = self.copies.as_ref().map_or([0; 4], |(_, unwinding)| unwinding.counts());
        let [whole, partly, failed, lost] = copies;
        [named, unnamed, not_named, damaged, whole, partly, failed, lost]
    }
}

/// Names of the counters.
const COUNTERS: [&str; 8] = [
    "stack_frames_named",
    "stack_frames_without_name",
    "stacks_not_named",
    "stacks_debug_damaged",
    "stack_copies_followed",
    "stack_copies_followed_partly",
    "stack_copies_not_followed",
    "stack_copies_lost",
];

/// The tables while waits are asked for.
#[derive(Default)]
pub(crate) struct Stacks {
    tables: Option<Tables>,
    /// Whether those of the kernel and those of programs are taken.
    wanted: (bool, bool),
    /// Stacks that gave way to newer ones before they were read.
    overwritten: u64,
    /// Counters of former tables.
    before: [u64; COUNTERS.len()],
}

/// A stack as the kernel programs have taken it.
pub(super) struct Taken {
    pub(super) stack: Asked,
    /// The same part of the program with the callers that keep no frame pointer, if they are looked for.
    pub(super) later: Option<Later>,
}

impl Stacks {
    /// Makes the tables and puts them where the kernel programs find them, or takes them away. `wanted`: whether stacks
    /// of the kernel and of programs are.
    pub(super) fn keep(&mut self, skel: &WirespanSkel<'static>, wanted: (bool, bool)) {
        if wanted == self.wanted {
            return;
        }
        self.wanted = wanted;
        if let Some(tables) = self.tables.take() {
            let _ = skel.maps.wait_stacks.delete(&boxes::PLACE);
            Copies::end(skel);
            for (sum, n) in self.before.iter_mut().zip(tables.counts()) {
                *sum += n;
            }
        }
        if wanted.0 || wanted.1 {
            self.tables = Tables::make(skel, wanted.1);
        }
    }

    /// The stack with this number of a thread of this process. Its names come later.
    pub(super) fn find(&mut self, pid: u32, number: u64) -> Option<NamedLater> {
        let table = self.tables.as_ref().map(|tables| &tables.stacks).filter(|_| number != 0)?;
        let mut bytes = Vec::new();
        let is_there = table.read(number, 0..ENTRY as usize, &mut bytes);
        let copied = Stack::read(&bytes).filter(|head| is_there && head.pid == u64::from(pid));
        let Some(stack) = copied.and_then(|_| self.take(&bytes)) else {
            self.overwritten += 1;
            return None;
        };
        self.name(stack)
    }

    /// Reads a stack as the kernel programs take it, with its copy; `None` if it is cut off.
    pub(super) fn take(&self, bytes: &[u8]) -> Option<Taken> {
        let (stack, head) = read_stack(bytes)?;
        let later = || {
            let (copies, unwinding) = self.tables.as_ref()?.copies.as_ref().filter(|_| head.first != 0)?;
            let Some(memory) = copies.read(&head) else {
                unwinding.lost();
                return None;
            };
            unwinding.ask(Job { pid: stack.pid, head, memory, by_pointers: stack.user.clone() })
        };
        Some(Taken { later: later(), stack })
    }

    /// Asks for the names of a stack.
    pub(super) fn name(&self, stack: Taken) -> Option<NamedLater> {
        self.tables.as_ref().map(|tables| tables.names.ask(stack))
    }

    /// Counters since the start.
    pub(crate) fn counters(&self) -> [(&'static str, u64); COUNTERS.len() + 1] {
        let now = self.tables.as_ref().map_or([0; COUNTERS.len()], Tables::counts);
        std::array::from_fn(|n| match COUNTERS.get(n) {
            Some(name) => (*name, now[n] + self.before[n]),
            None => ("stacks_overwritten", self.overwritten),
        })
    }
}

/// A stack as the kernel programs take it; `None` if it is cut off.
fn read_stack(bytes: &[u8]) -> Option<(Asked, StackCopy)> {
    let head = Stack::read(bytes)?;
    let frames = bytes.get(Stack::SIZE..)?;
    let words = |from: u32, n: u16| -> Option<Vec<u64>> {
        let words = match n {
            0 => &[],
            _ => frames.get(from as usize * 8..)?.get(..usize::from(n) * 8)?,
        };
        Some(words.chunks_exact(8).filter_map(|word| word.first_chunk().copied().map(u64::from_ne_bytes)).collect())
    };
    let stack = Asked {
        pid: u32::try_from(head.pid).ok()?,
        kernel: words(0, head.kernel)?,
        user: words(WS_STACK_KERNEL, head.user)?,
        interpreted: words(WS_STACK_KERNEL + WS_STACK_NATIVE, head.interpreted)?,
        is_followed: false,
        functions: Vec::new(),
    };
    Some((stack, head.copy))
}
