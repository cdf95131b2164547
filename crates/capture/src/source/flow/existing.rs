//! Sockets that targets hold already when tracing begins: the process of each, and whether it is client or server.

use super::diag::{self, Socket};
use super::wire::{Known, NS_PER_TICK};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;

/// A process that holds sockets.
#[derive(Clone)]
struct Holder {
    pid: u32,
    start_ns: u64,
    comm: [u8; 16],
    cgroup_id: u64,
}

/// Passes every TCP socket of these processes to `tell`.
pub(super) fn adopt(pids: &[u32], tell: &mut dyn FnMut(&Known)) {
    // By network namespace: one of its processes, and the holder of each socket.
    let mut spaces: FxHashMap<u32, (u32, FxHashMap<u32, Holder>)> = FxHashMap::default();
    for pid in pids {
        let inodes = socket_inodes(*pid);
        if inodes.is_empty() {
            continue;
        }
        let (Some(netns), Some(holder)) = (netns_of(*pid), holder(*pid)) else { continue };
        let (_, holders) = spaces.entry(netns).or_insert_with(|| (*pid, FxHashMap::default()));
        for inode in inodes {
            // Of several holders the youngest owns the socket: a child that got it from its parent.
            let best = holders.entry(inode).or_insert_with(|| holder.clone());
            if best.start_ns < holder.start_ns {
                *best = holder.clone();
            }
        }
    }
    for (netns, (pid, holders)) in spaces {
        let sockets = sockets_of(pid, netns).unwrap_or_else(|error| {
            tracing::warn!(pid, %error, "older connections could not be listed; each will be known once it is used");
            Vec::new()
        });
        known(netns, &sockets, &holders).iter().for_each(&mut *tell);
    }
}

/// The sockets that targets hold. A socket whose local port has a listener belongs to the server.
fn known(netns: u32, sockets: &[Socket], holders: &FxHashMap<u32, Holder>) -> Vec<Known> {
    let listening: FxHashSet<(Option<IpAddr>, u16)> = sockets
        .iter()
        .filter(|s| s.listens)
        .map(|s| (Some(s.local).filter(|ip| !ip.is_unspecified()), s.local_port))
        .collect();
    let held = sockets.iter().filter_map(|s| Some((s, holders.get(&s.inode)?)));
    held.map(|(s, h)| {
        let serves = listening.contains(&(None, s.local_port)) || listening.contains(&(Some(s.local), s.local_port));
        Known {
            cookie: s.cookie,
            cgroup_id: h.cgroup_id,
            local: s.local,
            remote: s.remote,
            start_ns: h.start_ns,
            pid: h.pid,
            netns,
            port: if serves { s.local_port } else { s.remote_port },
            client_port: if serves { s.remote_port } else { s.local_port },
            serves,
            listens: s.listens,
            comm: h.comm,
        }
    })
    .collect()
}

fn netns_of(pid: u32) -> Option<u32> {
    Some(fs::metadata(format!("/proc/{pid}/ns/net")).ok()?.ino() as u32)
}

/// The sockets of a process's network namespace.
fn sockets_of(pid: u32, netns: u32) -> std::io::Result<Vec<Socket>> {
    if netns_of(std::process::id()) == Some(netns) {
        return diag::sockets();
    }
    let space = fs::File::open(format!("/proc/{pid}/ns/net"))?;
    crate::netns::within(space, diag::sockets)
}

fn socket_inodes(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let inode = |e: fs::DirEntry| {
        let target = fs::read_link(e.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    entries.filter_map(inode).collect()
}

fn holder(pid: u32) -> Option<Holder> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let (open, close) = (stat.iter().position(|b| *b == b'(')?, stat.iter().rposition(|b| *b == b')')?);
    let mut comm = [0; 16];
    let name = stat.get(open + 1..close)?;
    let n = name.len().min(15);
    comm[..n].copy_from_slice(&name[..n]);
    let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    let ticks: u64 = rest.split_ascii_whitespace().nth(19)?.parse().ok()?;
    Some(Holder { pid, start_ns: ticks * NS_PER_TICK, comm, cgroup_id: cgroup_id(pid).unwrap_or(0) })
}

/// Inode of the cgroup v2 directory, which is the id of the cgroup.
fn cgroup_id(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = text.lines().find_map(|l| l.strip_prefix("0::"))?;
    ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].iter().find_map(|root| {
        let root = std::path::Path::new(root);
        root.join("cgroup.procs")
            .exists()
            .then(|| fs::metadata(root.join(path.trim_start_matches('/'))).ok())?
            .map(|m| m.ino())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn direction_comes_from_listeners() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("it listens");
        let port = listener.local_addr().expect("an address").port();
        let client = std::net::TcpStream::connect(("127.0.0.1", port)).expect("it connects");
        let (_served, _) = listener.accept().expect("it accepts");
        let ephemeral = client.local_addr().expect("an address").port();
        let mut seen = Vec::new();
        adopt(&[std::process::id()], &mut |k| seen.push(k.clone()));
        let of_port: Vec<_> = seen.iter().filter(|k| k.port == port).collect();
        let count = |f: &dyn Fn(&Known) -> bool| of_port.iter().filter(|k| f(k)).count();
        assert_eq!(count(&|k| k.listens && k.serves), 1);
        assert_eq!(count(&|k| !k.listens && k.serves && k.client_port == ephemeral), 1);
        assert_eq!(count(&|k| !k.serves && k.client_port == ephemeral), 1);
        assert!(of_port.iter().all(|k| k.pid == std::process::id() && k.start_ns > 0));
    }
}
