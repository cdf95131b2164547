//! One kernel program: its hook, what it gives, and what is lost without it.

use super::MessageRung;

/// Kernel with `uprobe_multi`.
const UPROBE_SINCE: &str = "Linux 6.6";

/// What a program hangs on that clocks of processors run.
pub(crate) const PERF_EVENT: &str = "perf_event";

/// One kernel program.
#[derive(Debug)]
pub struct Program {
    /// Its name in `bpf/`.
    pub name: &'static str,
    /// The tracepoint it hangs on, or `cgroup/…` for a hook of the root cgroup; empty for uprobes.
    pub tracepoint: &'static str,
    /// Kernel that brought the tracepoint.
    pub since: &'static str,
    /// Only on this message rung; `None` on all.
    pub rung: Option<MessageRung>,
    /// What it gives.
    pub feature: &'static str,
    /// What is lost without it.
    pub lost: &'static str,
    /// Without it there is nothing to see.
    pub required: bool,
    /// It serves every source, and is loaded whichever are wanted.
    pub always: bool,
    /// A function of the kernel without which it does nothing; empty if there is none.
    pub calls: &'static str,
    /// What it costs others while it is attached; empty if that is nothing to speak of.
    pub costs: &'static str,
}

impl Program {
    /// A program that is attached to functions of target processes.
    pub(crate) const fn uprobe(name: &'static str, feature: &'static str, lost: &'static str) -> Self {
        Program { tracepoint: "", since: UPROBE_SINCE, ..Self::tracepoint(name, "", feature, lost) }
    }

    /// A program that hangs on the tracepoint of its own name.
    pub(crate) const fn tracepoint(
        name: &'static str,
        since: &'static str,
        feature: &'static str,
        lost: &'static str,
    ) -> Self {
        Program {
            name,
            tracepoint: name,
            since,
            rung: None,
            feature,
            lost,
            required: false,
            always: false,
            calls: "",
            costs: "",
        }
    }

    /// The same program on another hook.
    pub(crate) const fn at(self, tracepoint: &'static str) -> Self {
        Program { tracepoint, ..self }
    }

    /// The same program, used on one rung only.
    pub(crate) const fn on(self, rung: MessageRung) -> Self {
        Program { rung: Some(rung), ..self }
    }

    /// The same program, without which there is nothing to see.
    pub(crate) const fn required(self) -> Self {
        Program { required: true, ..self }
    }

    /// The same program, loaded whichever sources are wanted.
    pub(crate) const fn always(self) -> Self {
        Program { always: true, ..self }
    }

    /// The same program, which is of use only if the kernel has this function.
    pub(crate) const fn calls(self, function: &'static str) -> Self {
        Program { calls: function, ..self }
    }

    /// The same program, of which users are told what it costs others.
    pub(crate) const fn costs(self, what: &'static str) -> Self {
        Program { costs: what, ..self }
    }

    /// Whether the kernel has what the program hangs on, and the function that it calls.
    pub(super) fn fits(&self, has_type: impl Fn(&str) -> bool) -> bool {
        has_type(&self.kernel_type()) && (self.calls.is_empty() || has_type(self.calls))
    }

    /// Mechanism, as shown in the table.
    pub fn mechanism(&self) -> &'static str {
        if self.is_uprobe() {
            return "uprobe-multi";
        }
        if self.is_cgroup() {
            return "cgroup";
        }
        if self.tracepoint == PERF_EVENT {
            return "perf-event";
        }
        self.rung.map_or("tracepoint", MessageRung::as_str)
    }

    /// Whether it is attached to functions of programs, process by process.
    pub fn is_uprobe(&self) -> bool {
        self.tracepoint.is_empty()
    }

    /// Whether it hangs on the root cgroup.
    pub fn is_cgroup(&self) -> bool {
        self.tracepoint.starts_with("cgroup/")
    }

    /// The kernel type whose presence says that it can be attached.
    pub(super) fn kernel_type(&self) -> String {
        if self.is_uprobe() {
            "bpf_uprobe_multi_link".to_string()
        } else if self.is_cgroup() {
            "bpf_sock_addr_kern".to_string()
        } else if self.tracepoint == PERF_EVENT {
            "bpf_perf_event_data_kern".to_string()
        } else {
            format!("btf_trace_{}", self.tracepoint)
        }
    }
}
