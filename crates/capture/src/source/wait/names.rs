//! Names of the functions of a stack. A thread of its own looks them up: to read the symbols of a large program takes
//! longer than the thread that reads the kernel's records may stand still.

use super::frames::{base_name, cut_kernel, from_perf_map, with_interpreted, with_made};
use super::stacks::Taken;
use super::unwind::Later;
use crate::runtime::Functions;
use blazesym::symbolize::source::{Kernel, Process, Source};
use blazesym::symbolize::{CodeInfo, Input, Symbolized, Symbolizer};
use blazesym::MaybeDefault;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wirespan_model::stack::{Frame, NamedLater, Stack};

/// Stacks that wait for their names.
const MOST_WAITING: usize = 4_096;
/// Stacks whose names are kept, and for how long: a process may load another library at the same place.
const MOST_KEPT: usize = 8_192;
const KEPT: Duration = Duration::from_secs(10);
/// After so long without a stack, symbols that were read are forgotten.
const IDLE: Duration = Duration::from_secs(60);

/// A stack of a process. The first address of each part is of an instruction, the others are return addresses.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    pub(super) pid: u32,
    pub(super) kernel: Vec<u64>,
    pub(super) user: Vec<u64>,
    /// Functions that an interpreter runs there (runtime_frames()).
    pub(super) interpreted: Vec<u64>,
    /// `user` was followed by the tables of the program: each address is of code.
    pub(super) is_followed: bool,
    /// Functions of JavaScript or Java, with their places in `user`.
    pub(super) functions: Vec<(usize, Vec<Frame>)>,
}

impl Taken {
    /// The stack with all callers that were found.
    fn settled(self) -> Asked {
        let Taken { mut stack, later } = self;
        if let Some(found) = later.as_ref().and_then(Later::wait).filter(|found| found.stack.len() > 1) {
            stack.user.clone_from(&found.stack);
            stack.functions.clone_from(&found.functions);
            stack.is_followed = true;
        }
        stack
    }
}

#[derive(Default)]
struct Counts {
    named: AtomicU64,
    without_name: AtomicU64,
    lost: AtomicU64,
    damaged: AtomicU64,
}

/// The thread that looks names up. It ends when this is dropped, and has named by then what was asked before.
pub(super) struct Names {
    to: SyncSender<(Taken, NamedLater)>,
    counts: Arc<Counts>,
}

impl Names {
    /// Starts the thread.
    pub(super) fn start(functions: Option<Functions>) -> Option<Names> {
        let (to, from) = sync_channel(MOST_WAITING);
        let counts = Arc::new(Counts::default());
        let own = Arc::clone(&counts);
        let thread = std::thread::Builder::new().name("ws-names".into()).spawn(move || serve(&from, functions, &own));
        thread.inspect_err(|error| tracing::warn!(%error, "stacks have no names")).ok()?;
        Some(Names { to, counts })
    }

    /// Asks for the names of a stack. If too many wait already, it gets none.
    pub(super) fn ask(&self, stack: Taken) -> NamedLater {
        let later = NamedLater::default();
        if self.to.try_send((stack, later.clone())).is_err() {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
            later.set(Arc::default());
        }
        later
    }

    /// Frames with a name, frames without one, stacks that were not looked at, and stacks with a frame whose debugging
    /// information cannot be read.
    pub(super) fn counts(&self) -> [u64; 4] {
        let Counts { named, without_name, lost, damaged } = &*self.counts;
        [named, without_name, lost, damaged].map(|n| n.load(Ordering::Relaxed))
    }
}

fn serve(from: &Receiver<(Taken, NamedLater)>, mut functions: Option<Functions>, counts: &Counts) {
    let mut namer: Option<Namer> = None;
    loop {
        match from.recv_timeout(IDLE) {
            Ok((taken, later)) => {
                let asked = taken.settled();
                later.set(namer.get_or_insert_with(Namer::new).stack(asked, functions.as_mut(), counts));
            }
            Err(RecvTimeoutError::Timeout) => namer = None,
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Symbols, and stacks that were named lately.
struct Namer {
    symbols: Symbolizer,
    kernel: Source<'static>,
    kept: FxHashMap<Asked, Arc<Stack>>,
    since: Instant,
}

impl Namer {
    fn new() -> Namer {
        let kernel = Kernel { vmlinux: MaybeDefault::None, ..Kernel::default() };
        Namer {
            symbols: Symbolizer::new(),
            kernel: Source::Kernel(kernel),
            kept: FxHashMap::default(),
            since: Instant::now(),
        }
    }

    fn stack(&mut self, asked: Asked, mut functions: Option<&mut Functions>, counts: &Counts) -> Arc<Stack> {
        if self.since.elapsed() > KEPT || self.kept.len() >= MOST_KEPT {
            self.kept.clear();
            functions.iter_mut().for_each(|functions| functions.forget());
            self.since = Instant::now();
        }
        if let Some(known) = self.kept.get(&asked) {
            return Arc::clone(known);
        }
        let process = Process::new(asked.pid.into());
        let symbols_only = Process { debug_syms: false, ..process.clone() };
        let sources = [process, symbols_only].map(Source::Process);
        let mut user = self.frames(&sources, &asked.user, counts);
        with_made(&mut user, &asked.functions);
        if let Some(functions) = functions.filter(|_| !asked.interpreted.is_empty()) {
            user = with_interpreted(user, functions.name(asked.pid, &asked.interpreted), asked.is_followed);
        }
        let user = user.concat();
        let kernel = cut_kernel(self.frames(std::slice::from_ref(&self.kernel), &asked.kernel, counts).concat());
        let without_name = user.iter().chain(&kernel).filter(|frame| frame.function.is_empty()).count();
        let named = user.len() + kernel.len() - without_name;
        counts.named.fetch_add(named as u64, Ordering::Relaxed);
        counts.without_name.fetch_add(without_name as u64, Ordering::Relaxed);
        let stack = Arc::new(Stack { user, kernel });
        self.kept.insert(asked, Arc::clone(&stack));
        stack
    }

    /// The functions of each address, by the first of these sources that can be read.
    fn frames(&self, sources: &[Source<'_>], addresses: &[u64], counts: &Counts) -> Vec<Vec<Frame>> {
        // The call that a return address belongs to is the instruction before it.
        let calls: Vec<u64> = addresses.iter().enumerate().map(|(n, at)| at.saturating_sub((n > 0).into())).collect();
        let Some(first) = sources.first().filter(|_| !calls.is_empty()) else { return Vec::new() };
        let found: Vec<Option<Symbolized<'_>>> = match self.symbols.symbolize(first, Input::AbsAddr(&calls)) {
            Ok(found) => found.into_iter().map(Some).collect(),
            Err(error) => {
                tracing::debug!(%error, "a stack has no names at once");
                self.one_by_one(sources, &calls, counts)
            }
        };
        // A program without frame pointers uses the register otherwise: what follows then is no code.
        let is_known = |found: &Option<Symbolized<'_>>| found.as_ref().is_some_and(|found| found.as_sym().is_some());
        let end = found.iter().rposition(is_known).map_or(0, |last| last + 1);
        counts.without_name.fetch_add((found.len() - end) as u64, Ordering::Relaxed);
        let known = found.into_iter().take(end);
        known.map(|found| found.map_or_else(|| vec![Frame::default()], frames_of)).collect()
    }

    /// Each address alone: a file whose debugging information is damaged costs its own files and lines, and no other
    /// file's.
    fn one_by_one(&self, sources: &[Source<'_>], calls: &[u64], counts: &Counts) -> Vec<Option<Symbolized<'_>>> {
        let mut damaged = 0;
        let of = |at: u64| {
            let mut tried = sources.iter().map(|source| self.symbols.symbolize(source, Input::AbsAddr(&[at])));
            let (n, mut found) = tried.by_ref().enumerate().find_map(|(n, found)| Some((n, found.ok()?)))?;
            damaged |= u64::from(n > 0);
            found.pop()
        };
        let found = calls.iter().copied().map(of).collect();
        counts.damaged.fetch_add(damaged, Ordering::Relaxed);
        found
    }
}

/// The functions at an address: the one that has it, and those that were inlined there, innermost first.
fn frames_of(found: Symbolized<'_>) -> Vec<Frame> {
    let Symbolized::Sym(symbol) = found else { return vec![Frame::default()] };
    let module = symbol.module.as_deref().map(|module| base_name(&module.to_string_lossy())).unwrap_or_default();
    if let Some(frame) = from_perf_map(&symbol.name, &module) {
        return vec![frame];
    }
    let frame = |name: &str, code: Option<&CodeInfo<'_>>| Frame {
        function: name.into(),
        file: code.map(|code| base_name(&code.file.to_string_lossy())).unwrap_or_default(),
        line: code.and_then(|code| code.line).unwrap_or(0),
        module: module.clone(),
    };
    let outer = frame(&symbol.name, symbol.code_info.as_deref());
    let inlined = symbol.inlined.iter().rev().map(|inner| frame(&inner.name, inner.code_info.as_ref()));
    inlined.chain([outer]).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[inline(never)]
    fn a_function_with_a_name() -> u64 {
        std::hint::black_box(a_function_with_a_name as fn() -> u64) as usize as u64
    }

    fn of(pid: u32) -> Asked {
        Asked {
            pid,
            kernel: Vec::new(),
            user: Vec::new(),
            interpreted: Vec::new(),
            is_followed: false,
            functions: Vec::new(),
        }
    }

    fn named(asked: Asked) -> Arc<Stack> {
        let names = Names::start(None).unwrap();
        let later = names.ask(Taken { stack: asked, later: None });
        for _ in 0..2_000 {
            if let Some(stack) = later.get() {
                return Arc::clone(stack);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("no names came in 20 s");
    }

    #[test]
    fn functions_of_a_process_have_names_files_and_lines() {
        let at = a_function_with_a_name() + 1;
        let stack = named(Asked { user: vec![at, at + 1, 8], ..of(std::process::id()) });
        // What was inlined there has frames, too; the last address is no code.
        let is_own = |frame: &&Frame| frame.function.ends_with("a_function_with_a_name");
        assert_eq!(stack.user.iter().filter(is_own).count(), 2, "{stack:?}");
        assert!(stack.user.last().is_some_and(|last| is_own(&last)), "{stack:?}");
        for frame in stack.user.iter().filter(is_own) {
            assert_eq!(frame.file, "names.rs");
            assert!(frame.line > 0 && !frame.module.contains('/'), "{frame:?}");
        }
    }

    #[test]
    fn a_process_that_has_ended_costs_its_names_only() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let stack = named(Asked { user: vec![0x1000, 0x2000], ..of(child.id()) });
        assert!(stack.is_empty(), "{stack:?}");
    }
}
