//! Why there is nothing to see, with the last words of libbpf.

use libbpf_rs::PrintLevel;
use std::sync::Mutex;

/// Why there is nothing to see.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// Not root, and without the capabilities.
    #[error(
        "tracing needs root, or the capabilities CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN and CAP_SYS_RESOURCE: \
         run it with sudo"
    )]
    Privilege,
    /// No BTF.
    #[error(
        "this kernel has no BTF (/sys/kernel/btf/vmlinux): wirespan needs a kernel built with CONFIG_DEBUG_INFO_BTF, \
         as all distributions' since 2021 are"
    )]
    NoBtf,
    /// Before task storage and atomic operations that return what was there.
    #[error(
        "Linux {release} is too old: wirespan needs 5.12 or newer, for all it does 6.6 (docs/kernels.md); \
         it said: {source}"
    )]
    Old {
        /// The kernel's release.
        release: String,
        /// What it refused.
        source: Box<CaptureError>,
    },
    /// A required program does not load.
    #[error("the kernel refused {program}, and without it {lost}: {reason}")]
    Refused {
        /// Program.
        program: &'static str,
        /// What is lost.
        lost: &'static str,
        /// The kernel's words.
        reason: String,
    },
    /// Bad input.
    #[error("{0}")]
    Config(String),
    /// libbpf said no.
    #[error("{context}: {source}")]
    Bpf {
        /// What was being done.
        context: &'static str,
        /// The error.
        source: libbpf_rs::Error,
    },
}

pub(crate) fn bpf(context: &'static str) -> impl FnOnce(libbpf_rs::Error) -> CaptureError {
    move |source| CaptureError::Bpf { context, source }
}

/// The last words of libbpf: the verifier's reason stands near the end of its log.
static LAST_WORDS: Mutex<Vec<String>> = Mutex::new(Vec::new());

pub(crate) fn listen_to_libbpf() {
    fn note(level: PrintLevel, text: String) {
        tracing::debug!(target: "libbpf", ?level, "{}", text.trim_end());
        if let Ok(mut lines) = LAST_WORDS.lock() {
            lines.extend(text.lines().map(str::to_string));
            let surplus = lines.len().saturating_sub(200);
            lines.drain(..surplus);
        }
    }
    libbpf_rs::set_print(Some((PrintLevel::Warn, note)));
}

/// The line of the log that tells why: the one before the verifier's statistics, or libbpf's last.
pub(crate) fn reason() -> String {
    let Ok(lines) = LAST_WORDS.lock() else { return String::new() };
    let end = lines.iter().rposition(|l| l.starts_with("processed ")).unwrap_or(lines.len());
    let line = lines[..end].iter().rev().find(|l| !l.trim().is_empty() && !l.contains("-- END PROG"));
    line.map(|l| l.trim().trim_start_matches("libbpf: ").to_string()).unwrap_or_default()
}

/// The program at which loading ended, by libbpf's words: `prog 'NAME': failed to load: …`.
pub(crate) fn failed_program() -> Option<String> {
    let lines = LAST_WORDS.lock().ok()?;
    let line = lines.iter().rev().find(|l| l.contains("': failed to load"))?;
    line.split('\'').nth(1).map(str::to_string)
}

pub(crate) fn forget_words() {
    if let Ok(mut lines) = LAST_WORDS.lock() {
        lines.clear();
    }
}
