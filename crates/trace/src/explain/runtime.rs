//! Threads by which a runtime stops those of its program. They are known by the names that the runtime gives them.

use wirespan_model::wait::{Holder, WaitKind, Waker};

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

#[cfg(test)]
mod tests {
    use super::*;

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
