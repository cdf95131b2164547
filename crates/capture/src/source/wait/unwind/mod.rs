//! Callers of a function that keeps no frame pointer. The kernel programs copy the memory of the stack; a thread here
//! follows it by the tables in the files of the program (docs/decisions/0028). The copy is dropped then.

mod copies;
mod process;
mod tables;

pub(super) use copies::{Copies, Memory};

use crate::runtime::hotspot::{Address, Caller, Registers};
use crate::wire::contract::StackCopy;
use framehop::{CacheNative, FrameAddress, MayAllocateDuringUnwind, UnwindRegsNative, Unwinder as _};
use process::{Files, Process};
use rustc_hash::{FxHashMap, FxHashSet};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use wirespan_model::stack::Frame;

/// Copies that wait; with at most 16 KiB each.
const MOST_WAITING: usize = 256;
/// Frames of a stack, the innermost.
const MOST_FRAMES: usize = 128;
/// Processes whose mappings are kept.
const MOST_PROCESSES: usize = 256;
/// Modules for which one cache is used.
const MOST_ADDED: usize = 30_000;
/// After so long without a copy, tables that were read are forgotten.
const IDLE: Duration = Duration::from_secs(60);
/// A stack waits at most so long for its callers.
const PATIENCE: Duration = Duration::from_secs(1);

/// A copy, and what is known of the stack without it.
pub(super) struct Job {
    pub(super) pid: u32,
    pub(super) head: StackCopy,
    pub(super) memory: Memory,
    /// The stack by frame pointers: it goes on where the copy ends, if the program keeps them there.
    pub(super) by_pointers: Vec<u64>,
}

/// A stack that was followed.
#[derive(Default)]
pub(super) struct Followed {
    /// As elsewhere, the first address is of an instruction, the others are return addresses. Empty if the copy led
    /// nowhere.
    pub(super) stack: Vec<u64>,
    /// Functions of JavaScript or Java, innermost first, with their places in `stack`.
    pub(super) functions: Vec<(usize, Vec<Frame>)>,
}

impl Followed {
    /// What the next address of the stack is.
    fn address(&self, at: FrameAddress) -> Address {
        let is_last = |(place, _): &(usize, Vec<Frame>)| place + 1 == self.stack.len();
        match at {
            FrameAddress::InstructionPointer(_) => Address::Runs,
            FrameAddress::ReturnAddress(_) if self.functions.last().is_some_and(is_last) => Address::CalledMade,
            FrameAddress::ReturnAddress(_) => Address::CalledLibrary,
        }
    }
}

type Cell = Arc<OnceLock<Followed>>;

/// A stack that comes later.
pub(super) struct Later(Cell);

impl Later {
    /// Waits for the stack; `None` if it does not come.
    pub(super) fn wait(&self) -> Option<&Followed> {
        let since = Instant::now();
        loop {
            // The thread keeps the other reference until it has written the stack.
            let is_alone = Arc::strong_count(&self.0) == 1;
            match self.0.get() {
                Some(stack) => return Some(stack),
                None if is_alone || since.elapsed() >= PATIENCE => return None,
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }
}

#[derive(Default)]
struct Counts {
    whole: AtomicU64,
    partly: AtomicU64,
    failed: AtomicU64,
    lost: AtomicU64,
}

/// The thread that finds callers. It ends when this is dropped.
pub(super) struct Unwinding {
    to: SyncSender<(Job, Cell)>,
    counts: Arc<Counts>,
}

impl Unwinding {
    /// Starts the thread.
    pub(super) fn start() -> Option<Unwinding> {
        let (to, from) = sync_channel(MOST_WAITING);
        let counts = Arc::new(Counts::default());
        let own = Arc::clone(&counts);
        let thread = std::thread::Builder::new().name("ws-unwind".into()).spawn(move || serve(&from, &own));
        thread.inspect_err(|error| tracing::warn!(%error, "programs without frame pointers have no stacks")).ok()?;
        Some(Unwinding { to, counts })
    }

    /// Asks for the callers of a stack; `None` if too many copies wait already.
    pub(super) fn ask(&self, job: Job) -> Option<Later> {
        let cell = Cell::default();
        let sent = self.to.try_send((job, Arc::clone(&cell)));
        sent.inspect_err(|_| self.lost()).ok()?;
        Some(Later(cell))
    }

    /// Counts a copy that nobody looks at.
    pub(super) fn lost(&self) {
        self.counts.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Stacks that were followed to their end, to some place before it, or not at all, and copies that were lost.
    pub(super) fn counts(&self) -> [u64; 4] {
        let Counts { whole, partly, failed, lost } = &*self.counts;
        [whole, partly, failed, lost].map(|n| n.load(Ordering::Relaxed))
    }
}

fn serve(from: &Receiver<(Job, Cell)>, counts: &Counts) {
    let mut callers: Option<Callers> = None;
    let mut refused = FxHashSet::default();
    loop {
        match from.recv_timeout(IDLE) {
            Ok((job, cell)) => {
                let all = callers.get_or_insert_with(Callers::default);
                let found = if refused.contains(&job.pid) { None } else { all.try_find(&job) };
                let found = found.unwrap_or_else(|| {
                    refused.insert(job.pid);
                    Default::default()
                });
                let counted = match found {
                    (_, true) => &counts.whole,
                    (Followed { ref stack, .. }, _) if stack.len() > 1 => &counts.partly,
                    _ => &counts.failed,
                };
                counted.fetch_add(1, Ordering::Relaxed);
                let _ = cell.set(found.0);
            }
            Err(RecvTimeoutError::Timeout) => {
                callers = None;
                refused.clear();
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// What is known of the processes whose stacks were followed.
#[derive(Default)]
struct Callers {
    files: Files,
    processes: FxHashMap<u32, Process>,
    cache: CacheNative<MayAllocateDuringUnwind>,
    /// Modules that were added since the cache was made.
    added: usize,
}

impl Callers {
    /// The same as [`Callers::find`]. The tables are of programs that others have built, and the library that reads
    /// them panics at some that are damaged: then no stack of this process is followed any more.
    fn try_find(&mut self, job: &Job) -> Option<(Followed, bool)> {
        let found = catch_unwind(AssertUnwindSafe(|| self.find(job))).ok();
        if found.is_none() {
            *self = Callers::default();
        }
        found
    }

    /// The stack, and whether its outermost function was reached.
    fn find(&mut self, job: &Job) -> (Followed, bool) {
        self.refresh(job.pid, job.head.ip);
        let (mut followed, mut end) = self.follow(job);
        // A runtime may have made new code since the mappings were read.
        if let End::NoCode(at) = end {
            if self.refresh(job.pid, at) {
                (followed, end) = self.follow(job);
            }
        }
        let is_whole = matches!(end, End::Whole);
        if !matches!(end, End::Whole | End::Away) {
            go_on(&mut followed.stack, &job.by_pointers);
        }
        (followed, is_whole)
    }

    /// Reads what the process has mapped, if that may not be known, or not any more, and this address is of interest.
    /// Returns whether there is something new.
    fn refresh(&mut self, pid: u32, at: u64) -> bool {
        let Callers { files, processes, cache, added } = self;
        let is_believed = |known: &mut Process| !known.is_old(at) || known.is_unchanged(pid);
        if processes.get_mut(&pid).is_some_and(is_believed) {
            return false;
        }
        if processes.len() >= MOST_PROCESSES {
            processes.clear();
        }
        // The cache tells modules apart by numbers, which begin again after 65,536.
        if *added > MOST_ADDED {
            *cache = CacheNative::default();
            *added = 0;
        }
        let Some(process) = Process::read(pid, files) else { return false };
        *added += process.modules();
        processes.insert(pid, process);
        true
    }

    fn follow(&mut self, job: &Job) -> (Followed, End) {
        let mut followed = Followed::default();
        let Some(process) = self.processes.get_mut(&job.pid) else { return (followed, End::Lost) };
        let mut registers = registers(&job.head);
        let mut at = FrameAddress::from_instruction_pointer(job.head.ip);
        while followed.stack.len() < MOST_FRAMES {
            if !process.has_code(at.address_for_lookup()) {
                return (followed, End::NoCode(at.address_for_lookup()));
            }
            let address = followed.address(at);
            if let Some(made) = process.java(registers_at(at, &registers), address, |at| job.memory.word(at)) {
                followed.functions.push((followed.stack.len(), made.functions));
                followed.stack.push(at.address());
                match made.caller {
                    Caller::At(before) => {
                        registers = registers_of(before);
                        let Some(caller) = FrameAddress::from_return_address(before.ip) else { break };
                        at = caller;
                        continue;
                    }
                    Caller::Outermost => return (followed, End::Whole),
                    Caller::Away => return (followed, End::Away),
                    Caller::Unknown => break,
                }
            }
            let function = process.function(frame_pointer(&registers), |at| job.memory.word(at));
            followed.functions.extend(function.map(|function| (followed.stack.len(), vec![function])));
            followed.stack.push(at.address());
            let interrupted = process.interrupted(at.address(), &registers, |at| job.memory.word(at));
            if let Some((ip, before)) = interrupted {
                registers = before;
                at = FrameAddress::from_instruction_pointer(ip);
                continue;
            }
            let mut read = |at: u64| job.memory.word(at).ok_or(());
            match process.unwinder.unwind_frame(at, &mut registers, &mut self.cache, &mut read) {
                Ok(caller) => match caller.and_then(FrameAddress::from_return_address) {
                    Some(caller) => at = caller,
                    None => return (followed, End::Whole),
                },
                Err(_) => break,
            }
        }
        (followed, End::Lost)
    }
}

/// Where a stack ended.
enum End {
    /// At its outermost function.
    Whole,
    /// At this address, where no code is mapped.
    NoCode(u64),
    /// The other functions are not on the stack now.
    Away,
    /// Neither tables nor frame pointers lead to a caller, or the copy ends.
    Lost,
}

#[cfg(target_arch = "x86_64")]
fn frame_pointer(registers: &UnwindRegsNative) -> u64 {
    registers.bp()
}

#[cfg(target_arch = "aarch64")]
fn frame_pointer(registers: &UnwindRegsNative) -> u64 {
    registers.fp()
}

/// The registers at an address of a stack.
fn registers_at(at: FrameAddress, registers: &UnwindRegsNative) -> Registers {
    Registers { ip: at.address(), sp: registers.sp(), fp: frame_pointer(registers) }
}

/// The first one is the instruction pointer on x86-64, and the link register on arm64, which has the same address.
fn registers_of(at: Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(at.ip, at.sp, at.fp)
}

#[cfg(target_arch = "x86_64")]
fn registers(of: &StackCopy) -> UnwindRegsNative {
    UnwindRegsNative::new(of.ip, of.sp, of.fp)
}

#[cfg(target_arch = "aarch64")]
fn registers(of: &StackCopy) -> UnwindRegsNative {
    // Addresses of programs have 48 bits; above them may stand a signature.
    let mask = framehop::aarch64::PtrAuthMask(u64::MAX >> 16);
    UnwindRegsNative::new_with_ptr_auth_mask(mask, of.lr, of.sp, of.fp)
}

/// A stack that was followed to some place goes on by frame pointers, if it meets them.
fn go_on(stack: &mut Vec<u64>, by_pointers: &[u64]) {
    let Some(last) = stack.last().filter(|_| stack.len() > 1) else { return };
    if let Some(at) = by_pointers.iter().skip(1).position(|address| address == last) {
        let rest = by_pointers.iter().skip(at + 2);
        stack.extend(rest.take(MOST_FRAMES.saturating_sub(stack.len())));
    }
}

#[cfg(test)]
mod tests;
