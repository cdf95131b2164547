//! Which processes are traced. Only processes that the user has chosen are.

use std::path::{Path, PathBuf};

/// Explicit targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// Processes, with all their present and future descendants.
    pub pids: Vec<u32>,
    /// Cgroup v2 directories, with all cgroups below.
    pub cgroups: Vec<PathBuf>,
    /// Inodes of network namespaces.
    pub netns: Vec<u32>,
    /// Everything on the machine. Never set by default.
    pub all: bool,
}

impl Targets {
    /// Living processes of all targets, sorted.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let mut pids: Vec<u32> = self.pids.iter().flat_map(|p| descendants(*p)).collect();
        pids.extend(self.members());
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Whether nothing was chosen.
    pub fn is_empty(&self) -> bool {
        self.pids.is_empty() && self.cgroups.is_empty() && self.netns.is_empty() && !self.all
    }

    /// Living processes that were chosen by their cgroup or namespace, or with all others.
    pub(crate) fn members(&self) -> Vec<u32> {
        let mut pids = Vec::new();
        for cgroup in &self.cgroups {
            processes_of_cgroup(cgroup, &mut pids);
        }
        if self.all || !self.netns.is_empty() {
            let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
            let all = entries.filter_map(|e| e.file_name().to_str()?.parse().ok());
            pids.extend(all.filter(|pid| self.is_chosen(*pid)));
        }
        pids
    }

    fn is_chosen(&self, pid: u32) -> bool {
        if self.all {
            return pid != std::process::id();
        }
        netns_inode(&format!("pid:{pid}")).is_ok_and(|netns| self.netns.contains(&netns))
    }
}

fn processes_of_cgroup(folder: &Path, into: &mut Vec<u32>) {
    let text = std::fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    into.extend(text.lines().filter_map(|l| l.parse::<u32>().ok()));
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            processes_of_cgroup(&entry.path(), into);
        }
    }
}

/// Parent of a process (`/proc/PID/stat`, field 4). The second field, the name, may hold spaces and parentheses.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.get(stat.rfind(')')? + 1..)?.split_whitespace().nth(1)?.parse().ok()
}

/// The process and all its living descendants.
pub fn descendants(root: u32) -> Vec<u32> {
    let Ok(dir) = std::fs::read_dir("/proc") else { return vec![root] };
    let parents: Vec<(u32, u32)> = dir
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, parent_of(pid)?)))
        .collect();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&of) = found.get(next) {
        found.extend(parents.iter().filter(|(pid, parent)| *parent == of && *pid != root).map(|p| p.0));
        next += 1;
    }
    found.dedup();
    found
}

/// The file of a network namespace that is given as for [`netns_inode`].
pub fn netns_file(text: &str) -> Result<std::path::PathBuf, String> {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(inode) = text.parse::<u64>() else { return Ok(netns_path(text).into()) };
    let files = |folder: &str| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let of_processes = files("/proc").map(|process| process.join("ns/net"));
    let mut all = files("/run/netns").chain(of_processes);
    all.find(|path| std::fs::metadata(path).is_ok_and(|meta| meta.ino() == inode))
        .ok_or_else(|| format!("network namespace {text}: no process is in it, and `ip netns` does not name it"))
}

fn netns_path(text: &str) -> String {
    match text.strip_prefix("pid:") {
        Some(pid) => format!("/proc/{pid}/ns/net"),
        None if text.contains('/') => text.to_string(),
        None => format!("/run/netns/{text}"),
    }
}

/// Inode of a network namespace given as a number, a name of `ip netns`, a path, or `pid:N`.
pub fn netns_inode(text: &str) -> Result<u32, String> {
    use std::os::unix::fs::MetadataExt as _;
    if let Ok(inode) = text.parse() {
        return Ok(inode);
    }
    let path = netns_path(text);
    let meta = std::fs::metadata(&path).map_err(|e| {
        format!("network namespace {text}: {path}: {e}; give a name of `ip netns list`, a path, an inode, or pid:N")
    })?;
    Ok(meta.ino() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_include_grandchildren() {
        let mut child =
            std::process::Command::new("sh").args(["-c", "sh -c 'sleep 5; :' & wait"]).spawn().expect("sh starts");
        let pid = child.id();
        let seen = (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            descendants(pid).len() >= 3
        });
        let all = descendants(pid);
        for pid in all.iter().rev() {
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_raw(*pid as i32).expect("not zero"),
                rustix::process::Signal::KILL,
            );
        }
        let _ = child.wait();
        assert!(seen, "sh, sh and sleep: {all:?}");
    }

    #[test]
    fn a_missing_namespace_is_refused_with_the_accepted_forms() {
        let error = netns_inode("no-such-ns").expect_err("it is not there");
        assert!(error.contains("/run/netns/no-such-ns") && error.contains("pid:N"), "{error}");
        assert!(netns_inode(&format!("pid:{}", std::process::id())).is_ok());
    }
}
