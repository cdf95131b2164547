//! The capabilities that tracing uses: which are there, and what is lost without each. `docs/security.md` has the same
//! table; a test keeps it true.

use crate::error::CaptureError;
use crate::features::Feature;
use rustix::thread::CapabilitySet as Set;

/// A capability and its use.
#[derive(Clone, Copy, Debug)]
pub struct Privilege {
    /// Name, as `setpriv`, `capsh` and systemd write it.
    pub name: &'static str,
    pub(crate) set: Set,
    /// Whether nothing is traced without it.
    pub required: bool,
    /// Action for which the kernel asks for it.
    pub used: &'static str,
    /// What is lost without it.
    pub lost: &'static str,
}

/// All capabilities that tracing uses, those without which nothing is traced first.
pub const PRIVILEGES: &[Privilege] = &[
    Privilege {
        name: "CAP_BPF",
        set: Set::BPF,
        required: true,
        used: "loading kernel programs and their tables",
        lost: "nothing is traced",
    },
    Privilege {
        name: "CAP_PERFMON",
        set: Set::PERFMON,
        required: true,
        used: "attaching them to tracepoints and functions",
        lost: "nothing is traced",
    },
    Privilege {
        name: "CAP_NET_ADMIN",
        set: Set::NET_ADMIN,
        required: false,
        used: "programs of sockets and control groups",
        lost: "who sent a datagram to a socket that is not connected; --propagate",
    },
    Privilege {
        name: "CAP_SYS_PTRACE",
        set: Set::SYS_PTRACE,
        required: false,
        used: "looking at processes of other users: files that they have mapped and opened",
        lost: "processes of other users: no TLS in clear text, no runtimes, no connections from before the start",
    },
    Privilege {
        name: "CAP_CHECKPOINT_RESTORE",
        set: Set::CHECKPOINT_RESTORE,
        required: false,
        used: "opening the files that a process of another user has mapped (/proc/PID/map_files)",
        lost: "processes of other users: no libraries that only their container has: no TLS in clear text, no runtimes",
    },
    Privilege {
        name: "CAP_DAC_READ_SEARCH",
        set: Set::DAC_READ_SEARCH,
        required: false,
        used: "reading what only its owner may read: programs, libraries, /proc/PID/map_files",
        lost: "processes of other users: no programs and libraries that only they or their container can read",
    },
    Privilege {
        name: "CAP_SYSLOG",
        set: Set::SYSLOG,
        required: false,
        used: "reading where functions of the kernel are (/proc/kallsyms)",
        lost: "stacks of slow requests: no names of the kernel's functions",
    },
    Privilege {
        name: "CAP_SYS_ADMIN",
        set: Set::SYS_ADMIN,
        required: false,
        used: "entering the network namespaces of targets",
        lost: "targets in other network namespaces: no connections from before the start",
    },
];

/// Capabilities of root that stay with those who serve: files of the store may be another user's, ports may be low.
const SERVES: Set = Set::DAC_OVERRIDE.union(Set::DAC_READ_SEARCH).union(Set::NET_BIND_SERVICE);
/// Capabilities of root that `--attach-java` uses: a Java machine listens to its own user only.
const ATTACHES: Set =
    Set::FOWNER.union(Set::CHOWN).union(Set::KILL).union(Set::SETUID).union(Set::SETGID).union(Set::MKNOD);

fn effective() -> Set {
    rustix::thread::capabilities(None).map_or(Set::empty(), |sets| sets.effective)
}

/// The capabilities that this thread lacks. `CAP_SYS_ADMIN` includes what the kernel has split off it.
pub fn missing() -> Vec<&'static Privilege> {
    let mut have = effective();
    if have.contains(Set::SYS_ADMIN) {
        have |= Set::BPF | Set::PERFMON | Set::CHECKPOINT_RESTORE;
    }
    PRIVILEGES.iter().filter(|p| !have.contains(p.set)).collect()
}

/// An error if a capability is missing without which no kernel program runs.
pub(crate) fn require() -> Result<(), CaptureError> {
    if missing().iter().any(|p| p.required) {
        return Err(CaptureError::Privilege);
    }
    Ok(())
}

/// Whether programs of sockets and control groups can be loaded, and socket maps be made.
pub(crate) fn may_change_networks() -> bool {
    !missing().iter().any(|p| p.set == Set::NET_ADMIN)
}

/// A row of `wirespan check` for each capability that is missing.
pub(crate) fn features() -> Vec<Feature> {
    let row = |p: &Privilege| Feature {
        feature: p.name,
        rung: "none",
        active: false,
        costs: "",
        lost: p.lost.to_string(),
        remedy: format!("needed for {}: run as root, or give this capability (docs/security.md)", p.used),
    };
    missing().into_iter().map(row).collect()
}

/// Gives up, in this thread and in those that it starts, every capability that tracing does not use. Commands that are
/// started later inherit none beyond what their user has. `attaches`: agents are loaded into Java machines.
pub fn keep_what_tracing_uses(attaches: bool) {
    let more = if attaches { ATTACHES } else { Set::empty() };
    keep(PRIVILEGES.iter().fold(SERVES | more, |all, p| all | p.set));
}

/// Gives up every capability except those of reading and writing files of other users, and of serving low ports.
pub fn keep_what_serving_uses() {
    keep(SERVES);
}

fn keep(kept: Set) {
    // A failure leaves what was there.
    let _ = rustix::thread::clear_ambient_capability_set();
    if let Ok(mut sets) = rustix::thread::capabilities(None) {
        sets.effective &= kept;
        sets.permitted &= kept;
        sets.inheritable = Set::empty();
        let _ = rustix::thread::set_capabilities(None, sets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_up_is_missing_and_named() {
        std::thread::spawn(|| {
            keep_what_serving_uses();
            let names: Vec<_> = missing().iter().map(|p| p.name).collect();
            assert!(names.starts_with(&["CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN"]), "{names:?}");
            assert!(!effective().intersects(!SERVES));
            assert!(features().iter().all(|row| !row.active && row.remedy.contains("capability")));
        })
        .join()
        .expect("the thread");
    }

    #[test]
    fn the_document_has_every_capability() {
        let page = include_str!("../../../docs/security.md");
        for p in PRIVILEGES {
            let row = format!("| `{}` | {} | {} |", p.name, p.used, p.lost);
            assert!(page.contains(&row), "docs/security.md lacks the row {row}");
        }
    }
}
