//! Errors of the capture, and the lines of libbpf's log that explain them.

use libbpf_rs::PrintLevel;
use std::cell::RefCell;

/// Why capturing cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The process is not root, and lacks the capabilities.
    #[error(
        "tracing needs root, or at least the capabilities CAP_BPF and CAP_PERFMON; missing here: {}. Run it with sudo, \
         or give them (docs/security.md)",
        names()
    )]
    Privilege,
    /// The kernel describes its types nowhere.
    #[error(
        "this kernel has no BTF (/sys/kernel/btf/vmlinux): wirespan needs a kernel built with CONFIG_DEBUG_INFO_BTF, \
         as all distributions' since 2021 are"
    )]
    NoBtf,
    /// The kernel has no task storage, or no atomic operations that return the old value.
    #[error(
        "Linux {release} is too old: wirespan needs 5.12 or newer, and 6.6 or newer for all its features \
         (docs/kernels.md); the kernel's error: {source}"
    )]
    Old {
        /// The kernel's release.
        release: String,
        /// The kernel's error.
        source: Box<CaptureError>,
    },
    /// A required program does not load.
    #[error("the kernel refused {program}, and without it {lost}: {reason}")]
    Refused {
        /// Name of the program.
        program: &'static str,
        /// The consequence for the user.
        lost: &'static str,
        /// The line of the kernel's log that explains the refusal.
        reason: String,
    },
    /// An option has a value that cannot be used.
    #[error("{0}")]
    Config(String),
    /// A call of libbpf failed.
    #[error("{context}: {source}")]
    Bpf {
        /// The action that failed, as a phrase with a gerund.
        context: &'static str,
        /// The error.
        source: libbpf_rs::Error,
    },
}

fn names() -> String {
    let names: Vec<_> = crate::privilege::missing().iter().map(|p| p.name).collect();
    names.join(", ")
}

pub(crate) fn bpf(context: &'static str) -> impl FnOnce(libbpf_rs::Error) -> CaptureError {
    move |source| CaptureError::Bpf { context, source }
}

thread_local! {
    /// The last lines of libbpf's log about what this thread loads. The verifier's reason stands near their end.
    static LAST_LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn listen_to_libbpf() {
    fn note(level: PrintLevel, text: String) {
        tracing::debug!(target: "libbpf", ?level, "{}", text.trim_end());
        LAST_LINES.with_borrow_mut(|lines| {
            lines.extend(text.lines().map(str::to_string));
            let surplus = lines.len().saturating_sub(200);
            lines.drain(..surplus);
        });
    }
    libbpf_rs::set_print(Some((PrintLevel::Warn, note)));
}

/// The line of the log that explains a refusal: the line before the verifier's statistics, or else libbpf's last line.
pub(crate) fn reason() -> String {
    LAST_LINES.with_borrow(|lines| {
        let end = lines.iter().rposition(|l| l.starts_with("processed ")).unwrap_or(lines.len());
        let line = lines[..end].iter().rev().find(|l| !l.trim().is_empty() && !l.contains("-- END PROG"));
        line.map(|l| l.trim().trim_start_matches("libbpf: ").to_string()).unwrap_or_default()
    })
}

/// The program that failed to load. libbpf logs it as `prog 'NAME': failed to load: …`.
pub(crate) fn failed_program() -> Option<String> {
    LAST_LINES.with_borrow(|lines| {
        let line = lines.iter().rev().find(|l| l.contains("': failed to load"))?;
        line.split('\'').nth(1).map(str::to_string)
    })
}

/// Clears the kept lines, so that they explain only the next failure.
pub(crate) fn clear_log() {
    LAST_LINES.with_borrow_mut(Vec::clear);
}
