//! The options that choose the targets: `--pid`, `--cgroup`, `--netns`, `--all`.

use anyhow::{anyhow, bail, Result};
use clap::Args;
use std::path::{Path, PathBuf};
use wirespan_capture::{targets::netns_inode, Targets};

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TargetArgs {
    /// Trace this process and its descendants (repeatable)
    #[arg(long, value_name = "PID")]
    pid: Vec<u32>,
    /// Trace this cgroup (v2) and those below: a path, absolute or below the cgroup mount (repeatable)
    #[arg(long, value_name = "PATH")]
    cgroup: Vec<PathBuf>,
    /// Trace this network namespace: a name of `ip netns`, a path, an inode, or pid:N (repeatable)
    #[arg(long, value_name = "NS")]
    netns: Vec<String>,
    /// Trace every process of this machine
    #[arg(long)]
    all: bool,
}

/// Where cgroup v2 is mounted.
pub(crate) fn cgroup_root() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (path, kind) = (fields.nth(1)?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(path))
    })
}

fn cgroup(path: &Path) -> Result<PathBuf> {
    let root = cgroup_root().ok_or_else(|| anyhow!("no cgroup2 file system is mounted; use --pid or --netns"))?;
    let full =
        if path.starts_with(&root) { path.to_path_buf() } else { root.join(path.strip_prefix("/").unwrap_or(path)) };
    if !full.is_dir() {
        bail!("cgroup {}: {} is not a directory", path.display(), full.display());
    }
    Ok(full)
}

impl TargetArgs {
    /// The targets; an error if there are none, and no device is `mirrored` instead.
    pub(crate) fn resolve(&self, mirrored: &[String]) -> Result<Targets> {
        for pid in &self.pid {
            if !Path::new(&format!("/proc/{pid}")).exists() {
                bail!("no process {pid} is running");
            }
        }
        let targets = Targets {
            pids: self.pid.clone(),
            cgroups: self.cgroup.iter().map(|c| cgroup(c)).collect::<Result<_>>()?,
            netns: self.netns.iter().map(|n| netns_inode(n).map_err(|e| anyhow!(e))).collect::<Result<_>>()?,
            all: self.all,
        };
        if targets.is_empty() && mirrored.is_empty() {
            bail!("nothing to trace: give --pid, --cgroup or --netns (or --all, for every process of this machine)");
        }
        if targets.cgroups.len() > 16 {
            bail!("{} cgroups given, at most 16 are possible: give a cgroup above them", targets.cgroups.len());
        }
        Ok(targets)
    }

    /// In words, for the status page.
    pub(crate) fn describe(&self, mirrored: &[String]) -> String {
        let mut words: Vec<String> = self.pid.iter().map(|p| format!("process {p} and its descendants")).collect();
        words.extend(self.cgroup.iter().map(|c| format!("cgroup {}", c.display())));
        words.extend(self.netns.iter().map(|n| format!("network namespace {n}")));
        if self.all {
            words.push("every process".into());
        }
        words.extend(mirrored.iter().map(|device| format!("packets of {device}")));
        words.join(", ")
    }
}
