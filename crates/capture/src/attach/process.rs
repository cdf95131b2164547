//! What must be known of a process before it is asked: the signal that asks it would end a program that does not expect
//! it, and would make one that refuses print all its threads.

use rustix::fd::OwnedFd;
use rustix::fs::{open, Mode, OFlags};
use rustix::process::{pidfd_open, Pid, PidfdFlags};
use std::fs::read;
use std::io::Error;

/// Why a machine is given up that never expects the signal.
pub(super) const NO_SIGNAL: &str = "it does not listen for the signal SIGQUIT (it was started with -Xrs?)";

/// Number of SIGQUIT, as a bit in the masks of `/proc/PID/status`.
const QUIT: u64 = 1 << (3 - 1);

/// Options that forbid what is asked. The last of several that name the same flag counts.
const ATTACH: Flag = Flag { name: "DisableAttachMechanism", forbids: true };
const LOADING: Flag = Flag { name: "EnableDynamicAgentLoading", forbids: false };

struct Flag {
    name: &'static str,
    /// The value with which it forbids.
    forbids: bool,
}

impl Flag {
    /// The option that forbids, if the last option of this name does.
    fn found(&self, options: &[String]) -> Option<String> {
        let value = |option: &String| {
            let option = option.strip_prefix("-XX:")?;
            (option.get(1..)? == self.name).then(|| option.starts_with('+'))
        };
        let last = options.iter().filter_map(value).next_back()?;
        let sign = if self.forbids { '+' } else { '-' };
        (last == self.forbids).then(|| format!("-XX:{sign}{}", self.name))
    }
}

/// Variables whose options come before those of the command line, and after them.
const BEFORE: [&str; 2] = ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"];
const AFTER: &str = "_JAVA_OPTIONS";

/// A Java machine that can be asked.
pub(super) struct Machine {
    pub(super) pid: u32,
    /// Its process id in its own namespace.
    pub(super) own_pid: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// The process itself, whatever happens to its number.
    pub(super) process: OwnedFd,
    /// Its root folder and its working folder.
    pub(super) root: OwnedFd,
    pub(super) folder: OwnedFd,
}

/// Whether a machine can be asked.
pub(super) enum State {
    Ready(Machine),
    /// It does not expect the signal yet, or has not begun.
    Starts,
}

/// Looks at a process; an error if it must not be asked.
pub(super) fn look(pid: u32) -> Result<State, String> {
    let at = |file: &str| format!("/proc/{pid}/{file}");
    let gone = |error: Error| format!("it has ended: {error}");
    let status = String::from_utf8_lossy(&read(at("status")).map_err(gone)?).into_owned();
    let (own_pid, uid, gid, caught) = parse(&status).ok_or("its status was not understood")?;
    let options = options(&read(at("cmdline")).map_err(gone)?, &read(at("environ")).unwrap_or_default());
    if let Some(option) = [ATTACH, LOADING].iter().find_map(|flag| flag.found(&options)) {
        return Err(format!("it was started with {option}"));
    }
    if caught & QUIT == 0 || !has_begun(pid) {
        return Ok(State::Starts);
    }
    let id = Pid::from_raw(pid.cast_signed()).ok_or("it has no number")?;
    let process = pidfd_open(id, PidfdFlags::empty()).map_err(|e| gone(e.into()))?;
    let folder = |name| open(at(name), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let root = folder("root").map_err(|e| gone(e.into()))?;
    let folder = folder("cwd").map_err(|e| gone(e.into()))?;
    Ok(State::Ready(Machine { pid, own_pid, uid, gid, process, root, folder }))
}

/// Whether the machine is past the point at which it removes the socket that an earlier process may have left. A
/// machine that is asked before removes its own, and is not heard of again. It starts this thread soon afterwards.
fn has_begun(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().any(|thread| read(thread.path().join("comm")).is_ok_and(|name| name == b"Service Thread\n"))
}

/// Process id in the innermost namespace, effective user and group, and the signals that are caught.
fn parse(status: &str) -> Option<(u32, u32, u32, u64)> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let effective = |name| field(name)?.split_whitespace().nth(1)?.parse().ok();
    let own_pid = field("NSpid").or_else(|| field("Pid"))?.split_whitespace().next_back()?.parse().ok()?;
    let caught = u64::from_str_radix(field("SigCgt")?.trim(), 16).ok()?;
    Some((own_pid, effective("Uid")?, effective("Gid")?, caught))
}

/// The options of a machine, in the order in which it reads them. Of the command line only those before the program's
/// name would count; all are taken.
fn options(command: &[u8], environment: &[u8]) -> Vec<String> {
    let texts = |bytes: &[u8]| -> Vec<String> {
        bytes.split(|b| *b == 0).map(|text| String::from_utf8_lossy(text).into_owned()).collect()
    };
    let environment = texts(environment);
    let variable = |name: &str| {
        let value = environment.iter().find_map(|v| v.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_default().split_whitespace().map(str::to_string).collect::<Vec<_>>()
    };
    let before = BEFORE.iter().flat_map(|name| variable(name));
    before.chain(texts(command)).chain(variable(AFTER)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_names_the_innermost_process_and_the_effective_user() {
        let status = "Name:\tjava\nPid:\t4711\nUid:\t1000\t1001\t1000\t1000\nGid:\t5\t6\t5\t5\n\
                      NSpid:\t4711\t7\nSigIgn:\t0000000000000000\nSigCgt:\t2000000181005ccf\n";
        assert_eq!(parse(status), Some((7, 1001, 6, 0x2000_0001_8100_5ccf)));
        assert_eq!(parse(&status.replace("NSpid", "Other")).map(|s| s.0), Some(4711));
        assert_eq!(parse("Name:\tjava\n"), None);
    }

    #[test]
    fn the_last_option_of_a_name_counts() {
        let found = |command: &str, environment: &str| {
            let options =
                options(&command.replace(' ', "\0").into_bytes(), &environment.replace(';', "\0").into_bytes());
            [ATTACH, LOADING].iter().find_map(|flag| flag.found(&options))
        };
        assert_eq!(found("java -XX:+UseSerialGC App", "HOME=/"), None);
        assert_eq!(found("java -XX:+DisableAttachMechanism App", "").as_deref(), Some("-XX:+DisableAttachMechanism"));
        assert_eq!(found("java -XX:-DisableAttachMechanism App", ""), None);
        let off = Some("-XX:-EnableDynamicAgentLoading");
        assert_eq!(found("java -XX:-EnableDynamicAgentLoading App", "").as_deref(), off);
        let both = "java -XX:-EnableDynamicAgentLoading -XX:+EnableDynamicAgentLoading App";
        assert_eq!(found(both, ""), None);
        assert_eq!(found("java App", "A=b;JAVA_TOOL_OPTIONS=-Xmx1g -XX:-EnableDynamicAgentLoading").as_deref(), off);
        let overruled = "JAVA_TOOL_OPTIONS=-XX:-EnableDynamicAgentLoading";
        assert_eq!(found("java -XX:+EnableDynamicAgentLoading App", overruled), None);
        let last = "_JAVA_OPTIONS=-XX:-EnableDynamicAgentLoading";
        assert_eq!(found("java -XX:+EnableDynamicAgentLoading App", last).as_deref(), off);
    }
}
