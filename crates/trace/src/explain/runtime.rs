//! Waits that a runtime makes the threads of its program wait: stops by its own threads, which are known by the names
//! that the runtime gives them, and the lock of an interpreter, which is known by the functions that take it.

use wirespan_model::stack::{Frame, Stack};
use wirespan_model::wait::{Holder, SpanWaits, WaitKind, Waker};

/// The thread of HotSpot that stops all others, each at its next safepoint, and lets them go on.
const STOPS: &str = "VM Thread";
/// Threads of HotSpot that collect while the others are stopped: of G1 and the parallel collector;
/// of Shenandoah; of ZGC. The kernel keeps 15 bytes of a name.
const COLLECT: [&str; 3] = ["thread GC Thread#", "thread Shenandoah GC", "thread ZWorker"];

/// What a lock's wait is about if a runtime has stopped the thread; `None` if it has not.
pub(super) fn stopped_for(kind: WaitKind, waker: &Waker, held_by: &[Holder]) -> Option<&'static str> {
    let Waker::Thread { name, .. } = waker else { return None };
    if kind != WaitKind::Lock || name != STOPS {
        return None;
    }
    let collects = |holder: &Holder| COLLECT.iter().any(|name| holder.who.starts_with(name));
    Some(if held_by.iter().any(collects) { "garbage collection" } else { "safepoint" })
}

/// What a wait for the lock of an interpreter is about.
pub(super) const INTERPRETER_LOCK: &str = "interpreter lock";
/// Functions of CPython and CRuby in which a thread waits for that lock and for nothing else. Of programs whose inner
/// functions have no names, the exported ones that call those. A lock of the program has other functions in front.
const TAKE_IT: [&str; 10] = [
    "take_gil",
    "PyEval_RestoreThread",
    "PyEval_AcquireThread",
    "PyGILState_Ensure",
    "_PyEval_EvalFrameDefault",
    "_Py_HandlePending",
    "gvl_acquire_worker",
    "thread_sched_to_running",
    "thread_sched_wait_running_turn",
    "rb_thread_schedule",
];

/// Tells waits for the lock of an interpreter as those of the runtime: every thread that runs code of the language
/// needs it.
pub(super) fn tell_interpreter_locks(told: &mut SpanWaits) {
    let takes: Vec<bool> = told.stacks.iter().map(takes_interpreter_lock).collect();
    for wait in told.waits.iter_mut().filter(|wait| wait.kind == WaitKind::Lock) {
        if wait.stack.is_some_and(|stack| takes.get(stack as usize) == Some(&true)) {
            (wait.kind, wait.resource) = (WaitKind::Runtime, INTERPRETER_LOCK.into());
        }
    }
}

fn takes_interpreter_lock(stack: &Stack) -> bool {
    let is_interpreter =
        |frame: &Frame| ["python", "libpython", "ruby", "libruby"].iter().any(|m| frame.module.starts_with(m));
    let is_library =
        |frame: &Frame| ["libc.", "libc-", "libpthread", "ld-musl"].iter().any(|m| frame.module.starts_with(m));
    let mut inner = stack.user.iter().skip_while(|frame| is_library(frame)).take_while(|frame| is_interpreter(frame));
    let named = inner.find(|frame| !frame.function.is_empty());
    named.is_some_and(|frame| TAKE_IT.contains(&&*frame.function))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use wirespan_model::wait::SpanWait;

    fn waited_in(functions: &[(&str, &str)]) -> (WaitKind, String) {
        let frame = |(function, module): &(&str, &str)| Frame {
            function: (*function).into(),
            module: (*module).into(),
            ..Frame::default()
        };
        let stacks = vec![Stack { user: functions.iter().map(frame).collect(), kernel: Vec::new() }];
        let wait = SpanWait { kind: WaitKind::Lock, resource: "0x7f".into(), stack: Some(0), ..SpanWait::default() };
        let mut told = SpanWaits { waits: vec![wait], stacks, ..SpanWaits::default() };
        tell_interpreter_locks(&mut told);
        let wait = told.waits.pop().unwrap();
        (wait.kind, wait.resource.to_string())
    }

    #[test]
    fn the_lock_of_an_interpreter_is_known_by_the_functions_that_take_it() {
        let clock = ("pthread_cond_timedwait", "libc.so.6");
        let gil = (WaitKind::Runtime, INTERPRETER_LOCK.to_string());
        let lock = (WaitKind::Lock, "0x7f".to_string());
        assert_eq!(waited_in(&[clock, ("take_gil", "python3.11"), ("PyEval_RestoreThread", "python3.11")]), gil);
        // A stripped program.
        assert_eq!(waited_in(&[clock, ("", "python3.11"), ("_PyEval_EvalFrameDefault", "python3.11")]), gil);
        let acquire = ("PyThread_acquire_lock_timed", "python3.11");
        let eval = ("_PyEval_EvalFrameDefault", "python3.11");
        assert_eq!(waited_in(&[("sem_clockwait", "libc.so.6"), acquire, ("", "python3.11"), eval]), lock);
        // A module in C that waits by itself.
        assert_eq!(waited_in(&[clock, ("wait_for_row", "_db.so"), eval]), lock);
        assert_eq!(waited_in(&[clock, ("thread_sched_to_running", "libruby-3.1.so.3.1")]), gil);
        // What Ruby calls without its lock may wait for another one.
        assert_eq!(waited_in(&[clock, ("", "libruby-3.1.so.3.1"), ("rb_nogvl", "libruby-3.1.so.3.1")]), lock);
        assert_eq!(waited_in(&[clock]), lock);
    }

    #[test]
    fn a_collection_is_known_by_the_threads_that_collect() {
        let waker = |name: &str| Waker::Thread { pid: 7, tid: 9, name: name.into(), service: "".into() };
        let holder = |who: &str| Holder { who: who.into(), ..Holder::default() };
        let held = [holder("thread VM Thread"), holder("thread GC Thread#3")];
        let of = |name, held| stopped_for(WaitKind::Lock, &waker(name), held);
        assert_eq!(of("VM Thread", &held), Some("garbage collection"));
        assert_eq!(of("VM Thread", &held[..1]), Some("safepoint"));
        assert_eq!(of("worker", &held), None);
        assert_eq!(stopped_for(WaitKind::Sleep, &waker("VM Thread"), &held), None);
        assert_eq!(stopped_for(WaitKind::Lock, &Waker::Timer, &held), None);
    }
}
