//! Programs that most targets never need are attached once one does: a hook costs every call on every socket of the
//! machine, also where its program has nothing to do. The kernel programs say what is needed (`hooks_wanted`).
//!
//! What came first is not lost without a trace: a first long send seems to begin when its last packet left, bytes that
//! a first splice() took are a gap in the sequence numbers, first bytes of an io_uring that is used within some 20 ms
//! of its making count as unreadable.

use crate::object::WirespanSkel;
use crate::targets::Targets;
use crate::wire::contract::{WS_HOOK_IO_URING, WS_HOOK_SENDS, WS_HOOK_SPLICE};
use libbpf_rs::skel::Skel as _;
use libbpf_rs::Link;
use std::path::Path;

const PROGRAMS: [(&str, u32); 3] = [
    ("tcp_sendmsg_locked", WS_HOOK_SENDS),
    ("skb_copy_datagram_iovec", WS_HOOK_IO_URING),
    ("tcp_rcv_space_adjust", WS_HOOK_SPLICE),
];

/// Whether the program waits until it is needed.
pub(crate) fn waits(program: &str) -> bool {
    PROGRAMS.iter().any(|(name, _)| *name == program)
}

/// Those that are not attached yet.
#[derive(Default)]
pub(crate) struct OnDemand {
    waiting: Vec<(&'static str, u32)>,
    /// How many were attached since the start.
    pub(crate) attached: u64,
}

impl OnDemand {
    /// Of what was loaded; those that a target needs already, or that nobody would tell of, are to be attached at once.
    pub(crate) fn new(loaded: &[&str], skel: &mut WirespanSkel<'static>, targets: &Targets) -> Self {
        let waiting = PROGRAMS.into_iter().filter(|(name, _)| loaded.contains(name)).collect();
        if !loaded.contains(&"io_uring_create") || targets.all {
            want(skel, WS_HOOK_SENDS | WS_HOOK_IO_URING);
        }
        look_for_rings(skel, &targets.processes());
        OnDemand { waiting, attached: 0 }
    }

    /// Nothing more is attached.
    pub(crate) fn end(&mut self) {
        self.waiting.clear();
    }

    /// Attaches what has become needed.
    pub(crate) fn attach(&mut self, skel: &mut WirespanSkel<'static>, links: &mut Vec<Link>) {
        let wanted = skel.maps.bss_data.as_ref().map_or(0, |bss| bss.hooks_wanted);
        if self.waiting.iter().all(|(_, hook)| wanted & hook == 0) {
            return;
        }
        let (now, later): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(|(_, hook)| wanted & hook != 0);
        self.waiting = later;
        for program in skel.object_mut().progs_mut() {
            if !now.iter().any(|(name, _)| program.name().to_str() == Some(*name)) {
                continue;
            }
            match program.attach() {
                Ok(link) => {
                    links.push(link);
                    self.attached += 1;
                }
                Err(error) => tracing::warn!(%error, program = ?program.name(), "a kernel program was not attached"),
            }
        }
    }
}

fn want(skel: &mut WirespanSkel<'static>, hooks: u32) {
    if let Some(bss) = skel.maps.bss_data.as_mut() {
        bss.hooks_wanted |= hooks;
    }
}

/// The begin of long sends: who puts something beside their first byte has to know when that was, also of the first.
pub(crate) fn want_sends(skel: &mut WirespanSkel<'static>) {
    want(skel, WS_HOOK_SENDS);
}

/// Everything, whether needed or not.
pub(crate) fn want_all(skel: &mut WirespanSkel<'static>) {
    want(skel, WS_HOOK_SENDS | WS_HOOK_IO_URING | WS_HOOK_SPLICE);
}

/// Processes that have an io_uring already.
pub(crate) fn look_for_rings(skel: &mut WirespanSkel<'static>, pids: &[u32]) {
    let has = |pid: &u32| {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.into_iter().any(|f| std::fs::read_link(f.path()).is_ok_and(|to| to == Path::new("anon_inode:[io_uring]")))
    };
    if pids.iter().any(has) {
        want(skel, WS_HOOK_SENDS | WS_HOOK_IO_URING);
    }
}
