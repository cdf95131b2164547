//! Which programs must switch preemption off on this kernel (`docs/preemption.md`).

use libbpf_rs::btf::types::{Composite, Struct, Var};
use libbpf_rs::btf::Btf;

/// What may happen between two steps of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Preemption {
    /// Another task may run on the processor while a tracepoint's program is under way there.
    pub(crate) tracepoints: bool,
    /// The same holds for programs of uprobes, and their stack belongs to the processor (Linux 6.13).
    pub(crate) uprobes_share_a_stack: bool,
}

/// Where the scheduler of a kernel with `PREEMPT_DYNAMIC` says how it preempts tasks: `none voluntary (full) lazy`.
const SCHEDULER: &str = "/sys/kernel/debug/sched/preempt";

impl Preemption {
    pub(crate) fn of(btf: &Btf<'_>) -> Self {
        let facts = StackFacts {
            of_processor: has_field(btf, "bpf_prog_aux", "priv_stack_ptr"),
            preemptible_rcu: readers_are_preemptible(btf),
            held_calls: has_field(btf, "bpf_subprog_info", "might_sleep"),
        };
        Preemption {
            tracepoints: tracepoints_are_preemptible(btf),
            uprobes_share_a_stack: facts.must_hold(std::fs::read_to_string(SCHEDULER).ok().as_deref()),
        }
    }
}

/// What the kernel's types say about stacks of programs of uprobes.
#[derive(Clone, Copy)]
struct StackFacts {
    /// The stack may belong to the processor (6.13).
    of_processor: bool,
    preemptible_rcu: bool,
    /// A program may call global functions with preemption off (6.15).
    held_calls: bool,
}

impl StackFacts {
    /// Whether programs of uprobes must switch preemption off.
    ///
    /// Linux 6.13 and 6.14 refuse to call global functions then, so the programs of Go and tokio would be lost. There
    /// the programs go without, if the scheduler says that it preempts no task within the kernel. If it says nothing,
    /// they switch preemption off: a lost program is a row in `wirespan check`, a shared stack is a crash.
    fn must_hold(self, scheduler: Option<&str>) -> bool {
        let never_preempts = scheduler.is_some_and(|s| s.contains("(none)") || s.contains("(voluntary)"));
        self.of_processor && self.preemptible_rcu && (self.held_calls || !never_preempts)
    }
}

fn has_field(btf: &Btf<'_>, of: &str, field: &str) -> bool {
    btf.type_by_name::<Struct<'_>>(of)
        .is_some_and(|found| Composite::from(found).iter().any(|m| m.name == Some(field.as_ref())))
}

/// RCU readers may be preempted, programs among them.
fn readers_are_preemptible(btf: &Btf<'_>) -> bool {
    has_field(btf, "task_struct", "rcu_read_lock_nesting")
}

/// Whether another task may run on the processor while a tracepoint's program is under way there.
///
/// The answer follows from what the kernel has, so that a backport is seen, too. Kernels up to 6.18 switch preemption
/// off around the programs of a tracepoint. Later kernels enter a tracepoint under `tracepoint_srcu`, a domain of
/// SRCU-fast. Three facts of the kernel's types tell them apart:
/// - `task_struct.rcu_read_lock_nesting`: RCU readers may be preempted at all. Without it, `rcu_read_lock()` around the
///   program switches preemption off.
/// - `struct srcu_ctr`: the kernel has SRCU-fast (6.15).
/// - the per-CPU variable `tracepoint_srcu_srcu_data`: tracepoints have a domain. Kernels up to 6.12 had one beside
///   preemption that is off.
///
/// A kernel whose types name no per-CPU variables counts as preemptible: that costs some nanoseconds a message.
fn tracepoints_are_preemptible(btf: &Btf<'_>) -> bool {
    let variable = |name: &str| btf.type_by_name::<Var<'_>>(name).is_some();
    let facts = Facts {
        preemptible_rcu: readers_are_preemptible(btf),
        srcu_fast: btf.type_by_name::<Struct<'_>>("srcu_ctr").is_some(),
        tracepoint_domain: variable("tracepoint_srcu_srcu_data"),
        names_variables: variable("runqueues"),
    };
    facts.preemptible()
}

/// What the kernel's types say.
#[derive(Clone, Copy)]
struct Facts {
    preemptible_rcu: bool,
    srcu_fast: bool,
    tracepoint_domain: bool,
    names_variables: bool,
}

impl Facts {
    fn preemptible(self) -> bool {
        self.preemptible_rcu && self.srcu_fast && (self.tracepoint_domain || !self.names_variables)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// The facts as read from Debian's kernels, and from the 6.18 that the tests run on.
    #[test]
    fn kernels_are_told_apart_by_what_they_have() {
        let kernel = |srcu_fast, tracepoint_domain| Facts {
            preemptible_rcu: true,
            srcu_fast,
            tracepoint_domain,
            names_variables: true,
        };
        assert!(!kernel(false, true).preemptible(), "6.1 and 6.12");
        assert!(!kernel(true, false).preemptible(), "6.18");
        assert!(kernel(true, true).preemptible(), "7.2");
        assert!(!Facts { preemptible_rcu: false, ..kernel(true, true) }.preemptible(), "no preemption in readers");
        assert!(Facts { names_variables: false, ..kernel(true, false) }.preemptible(), "not known");
    }

    #[test]
    fn uprobes_are_held_unless_that_loses_programs_for_nothing() {
        let linux_6_14 = StackFacts { of_processor: true, preemptible_rcu: true, held_calls: false };
        assert!(linux_6_14.must_hold(Some("none voluntary (full) lazy\n")));
        assert!(linux_6_14.must_hold(Some("none voluntary full (lazy)\n")));
        assert!(!linux_6_14.must_hold(Some("none (voluntary) full lazy\n")));
        assert!(!linux_6_14.must_hold(Some("(none) voluntary full lazy\n")));
        assert!(linux_6_14.must_hold(None), "not known");
        let linux_6_18 = StackFacts { held_calls: true, ..linux_6_14 };
        assert!(linux_6_18.must_hold(Some("none (voluntary) full lazy\n")), "the mode may change later");
        assert!(!StackFacts { of_processor: false, ..linux_6_18 }.must_hold(None), "6.12");
        assert!(!StackFacts { preemptible_rcu: false, ..linux_6_18 }.must_hold(None), "no preemption in readers");
    }

    #[test]
    fn this_kernel_answers_as_its_release_says() {
        let Ok(btf) = Btf::from_vmlinux() else { return };
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let major: u32 = release.split('.').next().and_then(|n| n.parse().ok()).unwrap();
        // Without a backport, 7.0 is the first.
        assert_eq!(tracepoints_are_preemptible(&btf), major >= 7, "{release}");
        let minor: u32 = release.split('.').nth(1).and_then(|n| n.parse().ok()).unwrap();
        let shared = Preemption::of(&btf).uprobes_share_a_stack;
        if !matches!((major, minor), (6, 13 | 14)) {
            assert_eq!(shared, (major, minor) >= (6, 13) && readers_are_preemptible(&btf), "{release}");
        }
        assert_eq!(has_field(&btf, "bpf_subprog_info", "might_sleep"), (major, minor) >= (6, 15), "{release}");
    }
}
