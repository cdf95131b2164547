//! Reads `/proc/PID`: the facts that name a process, and nothing else of it.
//!
//! Only pids that the caller gives are read (they are targets). Of the environment two variables are read,
//! `OTEL_SERVICE_NAME` and `service.name` in `OTEL_RESOURCE_ATTRIBUTES`; the rest is dropped unread. Of its memory,
//! what it publishes for readers like this one ([`published`]).

use crate::cgroup;
use crate::name::{self, Named};
use crate::published::{self, Published, Refused};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use wirespan_model::percent::percent_decode;

/// Most bytes read of one file: arguments and environments can be megabytes.
const MAX_READ: u64 = 256 * 1024;
/// Most arguments looked at.
const MAX_ARGS: usize = 64;

/// Facts of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// Field 22 of `/proc/PID/stat`: with the pid it names one process.
    pub(crate) start_ticks: u64,
    pub(crate) named: Named,
    pub(crate) executable: Box<str>,
    pub(crate) container: cgroup::Container,
    /// What the process publishes of itself.
    pub(crate) published: Result<Published, Refused>,
    /// Something could not be read for lack of permission.
    pub(crate) denied: bool,
    /// There is a program but no argument, not even its name: as a rule `execve` is not over yet, for the kernel shows
    /// the new executable before the new arguments and environment (`begin_new_exec`, then `create_elf_tables`).
    pub(crate) too_early: bool,
}

/// Reads a process. `None` if it is gone, or if another process took its pid meanwhile.
pub(crate) fn look(proc: &Path, pid: u32, comm: &str) -> Option<Look> {
    let dir = proc.join(pid.to_string());
    let (start_ticks, task_name) = stat(&dir)?;
    let mut denied = false;
    let mut note = |e: io::Error| denied |= e.kind() == io::ErrorKind::PermissionDenied;

    let exe = fs::read_link(dir.join("exe")).map_err(&mut note).unwrap_or_default();
    let exe = exe.to_string_lossy();
    let args = read_bounded(&dir.join("cmdline")).map_err(&mut note).unwrap_or_default();
    let args: Vec<String> =
        args.split(|b| *b == 0).take(MAX_ARGS).map(|a| String::from_utf8_lossy(a).into_owned()).collect();
    let args = args.strip_suffix(&[String::new()]).unwrap_or(&args);
    let container = cgroup::parse(&String::from_utf8_lossy(&read_bounded(&dir.join("cgroup")).unwrap_or_default()));
    let declared = read_bounded(&dir.join("environ")).map_err(&mut note).ok().and_then(|e| declared_name(&e));

    let comm = if task_name.is_empty() { comm } else { &task_name };
    let mut named = name::name(&exe, args, comm);
    let published = published::read(&dir);
    let told = published.as_ref().ok().and_then(|published| published.service.clone());
    if let Some(service) = declared.or(told) {
        named.service = service;
    }
    let too_early = args.is_empty() && !exe.is_empty();
    let executable = exe.strip_suffix(" (deleted)").unwrap_or(&exe).into();
    // The pid may have been given to another process while we read.
    let look = Look { start_ticks, named, executable, container, published, denied, too_early };
    (stat(&dir)?.0 == start_ticks).then_some(look)
}

/// Start time and name of the main thread, from `/proc/PID/stat`.
pub(crate) fn stat(dir: &Path) -> Option<(u64, String)> {
    let text = read_bounded(&dir.join("stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    // The name is in parentheses and may itself contain any character, parentheses and spaces included.
    let (open, close) = (text.find('(')?, text.rfind(')')?);
    let comm = text.get(open + 1..close)?.to_string();
    // Behind the name stands field 3; the start time is field 22.
    let start = text.get(close + 1..)?.split_ascii_whitespace().nth(19)?.parse().ok()?;
    Some((start, comm))
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_READ).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The service name that the environment declares, if any.
fn declared_name(environ: &[u8]) -> Option<String> {
    let mut from_attributes = None;
    for var in environ.split(|b| *b == 0) {
        if let Some(value) = var.strip_prefix(b"OTEL_SERVICE_NAME=") {
            if let Some(name) = clean(&String::from_utf8_lossy(value)) {
                return Some(name);
            }
        } else if let Some(value) = var.strip_prefix(b"OTEL_RESOURCE_ATTRIBUTES=") {
            let value = String::from_utf8_lossy(value);
            let pairs = value.split(',').filter_map(|p| p.split_once('='));
            from_attributes = pairs
                .filter(|(key, _)| key.trim() == "service.name")
                // Percent-encoded like W3C baggage.
                .find_map(|(_, value)| clean(&String::from_utf8_lossy(&percent_decode(value.trim().as_bytes()))));
        }
    }
    from_attributes
}

pub(crate) fn clean(name: &str) -> Option<String> {
    let name: String = name.trim().chars().filter(|c| !c.is_control()).take(128).collect();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_may_declare_the_name() {
        let declared = |e: &str| declared_name(e.replace('|', "\0").as_bytes());
        assert_eq!(declared("A=b|OTEL_SERVICE_NAME=cart|C=d"), Some("cart".into()));
        assert_eq!(declared("OTEL_RESOURCE_ATTRIBUTES=a=b, service.name = my%20cart ,c=d"), Some("my cart".into()));
        assert_eq!(
            declared("OTEL_RESOURCE_ATTRIBUTES=service.name=weak|OTEL_SERVICE_NAME=strong"),
            Some("strong".into())
        );
        assert_eq!(declared("OTEL_SERVICE_NAME=|XOTEL_SERVICE_NAME=no|service.name=no"), None);
        assert_eq!(declared("OTEL_RESOURCE_ATTRIBUTES=service.name=50%|"), Some("50%".into()));
    }
}
