//! Whether a program of a tracepoint may be preempted on this kernel (`docs/preemption.md`).

use libbpf_rs::btf::types::{Composite, Struct, Var};
use libbpf_rs::btf::Btf;

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
pub(crate) fn tracepoints_are_preemptible(btf: &Btf<'_>) -> bool {
    let variable = |name: &str| btf.type_by_name::<Var<'_>>(name).is_some();
    let nests = btf
        .type_by_name::<Struct<'_>>("task_struct")
        .is_some_and(|task| Composite::from(task).iter().any(|m| m.name == Some("rcu_read_lock_nesting".as_ref())));
    let facts = Facts {
        preemptible_rcu: nests,
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
    fn this_kernel_answers_as_its_release_says() {
        let Ok(btf) = Btf::from_vmlinux() else { return };
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let major: u32 = release.split('.').next().and_then(|n| n.parse().ok()).unwrap();
        // Without a backport, 7.0 is the first.
        assert_eq!(tracepoints_are_preemptible(&btf), major >= 7, "{release}");
    }
}
