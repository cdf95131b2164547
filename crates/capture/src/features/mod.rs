//! What this kernel allows: one row per feature, the best rung that works, and what is lost without it.
//!
//! Nothing here stops the agent: a program that is missing or refused costs its own feature, and the row says so in
//! words an operator can act on.

mod program;

pub use program::Program;
pub(crate) use program::PERF_EVENT;

use crate::privilege;
use crate::source::SOURCES;

use serde::Serialize;

/// How messages are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MessageRung {
    /// `sock_send_length` and `sock_recv_length` (Linux 6.3).
    SocketTracepoints,
    /// `sys_enter` and `sys_exit`: works everywhere, taxes every system call of the machine by 25–35 ns.
    SyscallTracepoints,
}

impl MessageRung {
    /// Name, as in `WIRESPAN_RUNG` and in `wirespan check`.
    pub fn as_str(self) -> &'static str {
        match self {
            MessageRung::SocketTracepoints => "socket-tracepoints",
            MessageRung::SyscallTracepoints => "syscall-tracepoints",
        }
    }
}

/// State of one feature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Feature {
    /// What it gives, in a few words.
    pub feature: &'static str,
    /// Which mechanism serves it; `none` if nothing does.
    pub rung: &'static str,
    /// Whether it works.
    pub active: bool,
    /// What it costs others while it is used; empty if that is nothing to speak of.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub costs: &'static str,
    /// What is lost (empty if it works wholly).
    pub lost: String,
    /// Why, or how to get it back (empty if it works wholly).
    pub remedy: String,
}

/// Every program of every source, TLS library and runtime.
pub(crate) fn programs() -> impl Iterator<Item = &'static Program> {
    SOURCES.iter().flat_map(|source| source.programs())
}

/// Chooses the message rung: the best one whose tracepoints this kernel has, or the one forced by `WIRESPAN_RUNG`.
pub fn choose_rung(has_type: impl Fn(&str) -> bool, forced: Option<&str>) -> Result<MessageRung, String> {
    match forced {
        Some("socket-tracepoints") => return Ok(MessageRung::SocketTracepoints),
        Some("syscall-tracepoints") => return Ok(MessageRung::SyscallTracepoints),
        Some(other) => {
            return Err(format!(
                "WIRESPAN_RUNG={other} is not a rung; use socket-tracepoints or syscall-tracepoints, or leave it out"
            ))
        }
        None => {}
    }
    let sockets = ["sock_send_length", "sock_recv_length"].iter().all(|t| has_type(&format!("btf_trace_{t}")));
    Ok(if sockets { MessageRung::SocketTracepoints } else { MessageRung::SyscallTracepoints })
}

/// Which programs to load on this kernel.
pub fn wanted(rung: MessageRung, has_type: impl Fn(&str) -> bool) -> Vec<&'static Program> {
    programs().filter(|p| p.rung.is_none_or(|r| r == rung) && p.fits(&has_type)).collect()
}

/// The table of `wirespan check`. `refused` holds the programs that did not load, with the kernel's reason.
pub fn table(
    rung: MessageRung,
    loaded: &[&'static str],
    refused: &[(&'static str, String)],
    has_type: impl Fn(&str) -> bool,
) -> Vec<Feature> {
    programs()
        .filter(|p| p.rung.is_none_or(|r| r == rung))
        .map(|p| {
            let active = loaded.contains(&p.name);
            let reason = refused.iter().find(|r| r.0 == p.name).map(|r| r.1.as_str());
            Feature {
                feature: p.feature,
                rung: if active { p.mechanism() } else { "none" },
                active,
                costs: if active { p.costs } else { "" },
                lost: if active { String::new() } else { p.lost.to_string() },
                remedy: match (active, reason) {
                    (true, _) => String::new(),
                    (_, Some(why)) => format!("the kernel refused it: {why}"),
                    _ if !has_type(&p.kernel_type()) && p.is_uprobe() => format!("needs uprobe_multi ({})", p.since),
                    _ if p.is_cgroup() && !privilege::may_change_networks() => "needs CAP_NET_ADMIN".to_string(),
                    _ if !has_type(&p.kernel_type()) && p.is_cgroup() => {
                        format!("needs {} ({})", p.tracepoint, p.since)
                    }
                    _ if !has_type(&p.kernel_type()) => format!("needs tracepoint {} ({})", p.tracepoint, p.since),
                    _ if !p.fits(&has_type) => format!("needs the kernel's function {} ({})", p.calls, p.since),
                    _ => "not asked for".to_string(),
                },
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_kernel_falls_to_the_next_rung() {
        let old = |t: &str| !t.contains("sock_send_length") && !t.contains("sock_recv_length");
        assert_eq!(choose_rung(|_| true, None), Ok(MessageRung::SocketTracepoints));
        assert_eq!(choose_rung(old, None), Ok(MessageRung::SyscallTracepoints));
        assert_eq!(choose_rung(|_| true, Some("syscall-tracepoints")), Ok(MessageRung::SyscallTracepoints));
        assert!(choose_rung(|_| true, Some("kprobes")).is_err_and(|e| e.contains("kprobes")));
        let names: Vec<_> = wanted(MessageRung::SyscallTracepoints, old).iter().map(|p| p.name).collect();
        assert!(names.contains(&"sys_exit") && !names.contains(&"sock_send_length"), "{names:?}");
    }

    #[test]
    fn a_program_whose_function_the_kernel_lacks_is_left_out_and_the_row_says_so() {
        let old = |t: &str| t != "bpf_task_from_pid";
        let rung = MessageRung::SocketTracepoints;
        let names = |has: &dyn Fn(&str) -> bool| wanted(rung, has).iter().map(|p| p.name).collect::<Vec<_>>();
        assert!(names(&|_| true).contains(&"wait_take"));
        let names = names(&old);
        assert!(!names.contains(&"wait_take") && names.contains(&"wait_switch"), "{names:?}");
        let rows = table(rung, &names, &[], old);
        let row = rows.iter().find(|f| f.remedy.contains("bpf_task_from_pid (Linux 6.10)")).expect("the row");
        assert!(!row.active && row.rung == "none" && row.lost.contains("lock"));
    }

    #[test]
    fn a_refused_program_is_a_row_with_its_reason() {
        let refused = [("tcp_sendmsg_locked", "invalid mem access".to_string())];
        let rows = table(MessageRung::SocketTracepoints, &["sock_send_length"], &refused, |_| true);
        let row = rows.iter().find(|f| f.remedy.contains("invalid mem access")).expect("the row");
        assert!(!row.active && !row.lost.is_empty() && row.rung == "none");
    }
}
