//! Which targets each wirespan of this machine traces. Two that trace the same process for the same server or collector
//! would double its spans there, so the second one is refused. If their spans go to different places it is only said.
//!
//! A claim is a file that its process keeps locked: a claim whose lock is free belongs to nobody, and is removed. Other
//! containers may have a `/run` of their own; claims there are not seen.

use anyhow::{bail, Result};
use rustix::fs::{flock, FlockOperation};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use wirespan_capture::Targets;

/// Where claims are.
const DIR: &str = "/run/wirespan";
/// Most ancestors of a process that are looked at.
const MAX_ANCESTORS: usize = 64;

/// What a claim says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Claimed {
    pid: u32,
    mode: String,
    pids: Vec<u32>,
    cgroups: Vec<PathBuf>,
    netns: Vec<u32>,
    all: bool,
    /// Servers and collectors that get the spans.
    to: Vec<String>,
}

/// The claim of this process on some targets. It ends when dropped.
pub(crate) struct Claim {
    path: PathBuf,
    _lock: File,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Claims targets; `to` names the servers and collectors that get the spans. An error if another wirespan sends spans
/// of them to one of these places. `None` if this machine has no place for claims.
pub(crate) fn claim(targets: &Targets, mode: &str, to: &[String]) -> Result<Option<Claim>> {
    claim_in(Path::new(DIR), targets, mode, to)
}

fn claim_in(dir: &Path, targets: &Targets, mode: &str, to: &[String]) -> Result<Option<Claim>> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    if targets.is_empty() || fs::create_dir_all(dir).is_err() {
        return Ok(None);
    }
    let ours = Claimed {
        pid: std::process::id(),
        mode: mode.into(),
        pids: targets.pids.clone(),
        cgroups: targets.cgroups.clone(),
        netns: targets.netns.clone(),
        all: targets.all,
        to: to.to_vec(),
    };
    // Our own claim comes first: of two that start at once, at least one sees the other.
    let path = dir.join(format!("{}-{}.json", ours.pid, NEXT.fetch_add(1, Ordering::Relaxed)));
    let claim = File::create(&path).ok().and_then(|mut file| {
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        file.write_all(&serde_json::to_vec(&ours).ok()?).ok()?;
        Some(Claim { path, _lock: file })
    });
    for theirs in others(dir, ours.pid) {
        let Some(what) = shared(&ours, &theirs) else { continue };
        let who = format!("wirespan {} (process {})", theirs.mode, theirs.pid);
        match ours.to.iter().find(|to| theirs.to.contains(to)) {
            Some(to) => bail!(
                "{what} is traced by {who} already, for {to}: each span would be there twice. Stop that one, or choose \
                other targets"
            ),
            None => eprintln!("wirespan: {what} is traced by {who}, too: each of the two has the spans once"),
        }
    }
    Ok(claim)
}

/// The claims of other processes that live.
fn others(dir: &Path, pid: u32) -> Vec<Claimed> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let read = |entry: fs::DirEntry| -> Option<Claimed> {
        let file = File::open(entry.path()).ok()?;
        if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
            // Not ours: ours is locked. A claim that is being written is locked a moment later; it sees ours.
            if entry.metadata().ok()?.len() > 0 {
                let _ = fs::remove_file(entry.path());
            }
            return None;
        }
        serde_json::from_reader(file).ok()
    };
    entries.flatten().filter_map(read).filter(|claimed| claimed.pid != pid).collect()
}

/// The process itself and its ancestors.
fn line_of(pid: u32) -> Vec<u32> {
    let parent = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Behind the name, which may have spaces and brackets.
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok().filter(|parent| *parent > 0)
    };
    std::iter::successors(Some(pid), parent).take(MAX_ANCESTORS).collect()
}

/// Targets that both trace, in words.
fn shared(ours: &Claimed, theirs: &Claimed) -> Option<String> {
    if ours.all || theirs.all {
        return Some("a target".into());
    }
    let below = |a: &Path, b: &Path| a.starts_with(b) || b.starts_with(a);
    if let Some(cgroup) = ours.cgroups.iter().find(|a| theirs.cgroups.iter().any(|b| below(a, b))) {
        return Some(format!("cgroup {}", cgroup.display()));
    }
    if let Some(netns) = ours.netns.iter().find(|n| theirs.netns.contains(n)) {
        return Some(format!("network namespace {netns}"));
    }
    let within = |pid: u32, of: &Claimed| {
        let line = line_of(pid);
        let netns = fs::metadata(format!("/proc/{pid}/ns/net")).map(|m| m.ino()).unwrap_or(0);
        let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let cgroup = cgroup.lines().find_map(|l| l.strip_prefix("0::/")).unwrap_or_default().to_string();
        of.pids.iter().any(|p| line.contains(p))
            || of.netns.iter().any(|n| u64::from(*n) == netns)
            || of.cgroups.iter().any(|path| {
                let below = |mount: &Path| mount.join(&cgroup).starts_with(path);
                path.ancestors().any(|mount| mount != path && below(mount))
            })
    };
    let pid = ours.pids.iter().find(|p| within(**p, theirs)).or(theirs.pids.iter().find(|p| within(**p, ours)))?;
    Some(format!("process {pid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pids: &[u32], to: &str) -> Claimed {
        Claimed { pid: 1, mode: "agent".into(), pids: pids.into(), to: vec![to.into()], ..Claimed::default() }
    }

    #[test]
    fn a_process_shares_targets_with_its_descendants_and_namespaces() {
        let (own, parent) = (std::process::id(), std::os::unix::process::parent_id());
        assert_eq!(shared(&of(&[own], ""), &of(&[parent], "")), Some(format!("process {own}")));
        assert_eq!(shared(&of(&[parent], ""), &of(&[own], "")), Some(format!("process {own}")));
        assert_eq!(shared(&of(&[4_194_305], ""), &of(&[own], "")), None);
        let netns = fs::metadata("/proc/self/ns/net").map(|m| m.ino() as u32).expect("Linux");
        let space = Claimed { netns: vec![netns], ..Claimed::default() };
        assert_eq!(shared(&space, &of(&[own], "")), Some(format!("process {own}")));
        let (above, below) = (PathBuf::from("/sys/fs/cgroup/a"), PathBuf::from("/sys/fs/cgroup/a/b"));
        let group = |path: &Path| Claimed { cgroups: vec![path.into()], ..Claimed::default() };
        assert_eq!(shared(&group(&below), &group(&above)), Some("cgroup /sys/fs/cgroup/a/b".into()));
        assert_eq!(shared(&group(&above), &group(Path::new("/sys/fs/cgroup/ab"))), None);
        assert!(shared(&Claimed { all: true, ..Claimed::default() }, &of(&[own], "")).is_some());
    }

    #[test]
    fn a_second_agent_for_the_same_server_is_refused_and_a_dead_ones_claim_is_free() {
        let dir = tempfile::tempdir().expect("a directory");
        let targets = Targets { pids: vec![std::process::id()], ..Targets::default() };
        // Another process's claim, locked by an open file of our own.
        let path = dir.path().join("1-0.json");
        fs::write(&path, serde_json::to_vec(&of(&[std::process::id()], "a:1")).expect("JSON")).expect("written");
        let lock = File::open(&path).expect("open");
        flock(&lock, FlockOperation::LockExclusive).expect("locked");
        let refused = claim_in(dir.path(), &targets, "agent", &["a:1".into()]).err().expect("refused").to_string();
        assert!(refused.contains("wirespan agent (process 1)") && refused.contains("a:1"), "{refused}");
        assert!(claim_in(dir.path(), &targets, "agent", &["b:1".into()]).expect("another server").is_some());
        drop(lock);
        let claim = claim_in(dir.path(), &targets, "agent", &["a:1".into()]).expect("nobody has it");
        assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 1, "the dead one's claim is removed");
        drop(claim);
        assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 0);
    }
}
