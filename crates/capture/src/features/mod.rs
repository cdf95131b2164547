//! What this kernel allows: one row per feature, the best rung that works, and what is lost without it.
//!
//! Nothing here stops the agent: a program that is missing or refused costs its own feature, and the row says so in
//! words an operator can act on.

mod program;

pub use program::Program;

use crate::privilege;
use crate::source::SOURCES;

use serde::Serialize;
use std::collections::HashSet;

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
    programs().filter(|p| p.rung.is_none_or(|r| r == rung) && has_type(&p.kernel_type())).collect()
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
                    _ => "not asked for".to_string(),
                },
            }
        })
        .collect()
}

/// Those of the kernel types that programs ask for which this kernel has.
pub(crate) fn known_types(has_type: impl Fn(&str) -> bool) -> HashSet<String> {
    programs().map(Program::kernel_type).filter(|t| has_type(t)).collect()
}

/// What the table is made of, except for the programs that were loaded.
pub(crate) struct Table {
    pub(crate) rung: MessageRung,
    /// Kernel types that this kernel has.
    pub(crate) known: HashSet<String>,
    /// Features that the user wants.
    pub(crate) asked: HashSet<&'static str>,
    /// Further rows.
    pub(crate) others: Vec<Feature>,
}

impl Table {
    /// The rows, if these programs are loaded.
    pub(crate) fn features(&self, loaded: &[&'static str], refused: &[(&'static str, String)]) -> Vec<Feature> {
        let mut rows = table(self.rung, loaded, refused, |t| self.known.contains(t));
        rows.retain(|row| self.asked.contains(row.feature));
        rows.extend(self.others.iter().cloned());
        rows
    }
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
    fn a_refused_program_is_a_row_with_its_reason() {
        let refused = [("tcp_sendmsg_locked", "invalid mem access".to_string())];
        let rows = table(MessageRung::SocketTracepoints, &["sock_send_length"], &refused, |_| true);
        let row = rows.iter().find(|f| f.remedy.contains("invalid mem access")).expect("the row");
        assert!(!row.active && !row.lost.is_empty() && row.rung == "none");
    }
}
