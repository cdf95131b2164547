//! Pods of Kubernetes that run on this machine, and their addresses. Nothing is asked of another machine: the cgroups
//! of processes name pods by their id, and the kubelet names the folders of their logs after them.

use crate::cgroup;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Where the kubelet keeps logs: a folder `NAMESPACE_NAME_ID` for each pod.
const LOGS: &str = "/var/log/pods";
/// Characters of the random parts of names (`k8s.io/apimachinery/pkg/util/rand`).
const RANDOM: &str = "bcdfghjklmnpqrstvwxz2456789";

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Pod {
    uid: String,
    /// Empty if the kubelet's folders do not name the pod.
    namespace: String,
    name: String,
    /// One of its processes in each of its network namespaces, by inode.
    pids: BTreeMap<u64, u32>,
}

/// The workload that a pod belongs to: its name without what is made up for each pod.
fn workload(pod: &str) -> &str {
    let is_random = |part: &str, len: std::ops::RangeInclusive<usize>| {
        len.contains(&part.len()) && part.chars().all(|c| RANDOM.contains(c))
    };
    match pod.rsplit_once('-') {
        // Of a set with numbered pods.
        Some((set, number)) if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) => set,
        Some((before, one)) if is_random(one, 5..=5) => match before.rsplit_once('-') {
            // Of a deployment: the hash of its template, and the pod's own part.
            Some((name, template)) if is_random(template, 6..=10) => name,
            _ => before,
        },
        _ => pod,
    }
}

impl Pod {
    fn is(&self, wanted: &str) -> bool {
        let (namespace, name) = match wanted.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, wanted),
        };
        let is_name = !self.name.is_empty() && (self.name == name || workload(&self.name) == name);
        self.uid == wanted || is_name && namespace.is_none_or(|namespace| namespace == self.namespace)
    }

    fn shown(&self) -> String {
        match self.name.is_empty() {
            true => self.uid.clone(),
            false => format!("{}/{}", self.namespace, self.name),
        }
    }
}

/// All pods with a living process.
fn pods(proc: &Path, logs: &Path) -> Vec<Pod> {
    let mut found: BTreeMap<String, Pod> = BTreeMap::new();
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        let folder = proc.join(pid.to_string());
        let text = fs::read_to_string(folder.join("cgroup")).unwrap_or_default();
        let Some(uid) = cgroup::parse(&text).pod_uid else { continue };
        let Ok(netns) = fs::metadata(folder.join("ns/net")) else { continue };
        let pod = found.entry(uid.to_string()).or_default();
        pod.uid = uid.into();
        pod.pids.entry(netns.ino()).or_insert(pid);
    }
    for folder in fs::read_dir(logs).into_iter().flatten().flatten() {
        let name = folder.file_name();
        let mut parts = name.to_str().unwrap_or_default().splitn(3, '_');
        let (Some(namespace), Some(name), Some(uid)) = (parts.next(), parts.next(), parts.next()) else { continue };
        if let Some(pod) = found.get_mut(uid) {
            (pod.namespace, pod.name) = (namespace.to_owned(), name.to_owned());
        }
    }
    found.into_values().collect()
}

/// Addresses of the network namespace of a process that other machines can know.
fn addresses(process: &Path) -> BTreeSet<IpAddr> {
    let mut found = BTreeSet::new();
    // Under each address stands what it is: `/32 host LOCAL` is one of this namespace.
    let mut last = None;
    for line in fs::read_to_string(process.join("net/fib_trie")).unwrap_or_default().lines() {
        if let Some(address) = line.trim_start().strip_prefix("|-- ") {
            last = address.parse::<Ipv4Addr>().ok();
        } else if line.contains("/32 host LOCAL") {
            found.extend(last.filter(|ip| !ip.is_loopback()).map(IpAddr::V4));
        }
    }
    for line in fs::read_to_string(process.join("net/if_inet6")).unwrap_or_default().lines() {
        let address = line.get(..32).and_then(|hex| u128::from_str_radix(hex, 16).ok()).map(Ipv6Addr::from);
        let is_known = |ip: &Ipv6Addr| !ip.is_loopback() && !ip.is_unicast_link_local();
        found.extend(address.filter(is_known).map(IpAddr::V6));
    }
    found
}

/// Addresses of the pods of a workload that run on this machine. `wanted` is the name of a workload or a pod, with or
/// without its namespace (`shop/cart`), or the id of a pod. The error says which pods there are.
pub fn addresses_of(wanted: &str) -> Result<Vec<IpAddr>, String> {
    found(wanted, Path::new("/proc"), Path::new(LOGS))
}

fn found(wanted: &str, proc: &Path, logs: &Path) -> Result<Vec<IpAddr>, String> {
    let all = pods(proc, logs);
    let pods: Vec<&Pod> = all.iter().filter(|pod| pod.is(wanted)).collect();
    if pods.is_empty() {
        let shown: Vec<String> = all.iter().take(20).map(Pod::shown).collect();
        return Err(match shown.is_empty() {
            true => format!("`{wanted}`: no pod of Kubernetes runs on this machine"),
            false => format!("`{wanted}` runs no pod on this machine; there are: {}", shown.join(", ")),
        });
    }
    let host = fs::metadata(proc.join("1/ns/net")).map(|meta| meta.ino()).ok();
    let mut addresses_found = BTreeSet::new();
    for (netns, pid) in pods.iter().flat_map(|pod| &pod.pids) {
        if host == Some(*netns) {
            return Err(format!(
                "`{wanted}` has a pod in the network of its node, whose packets nothing tells from those of the node: \
                 give its `port`"
            ));
        }
        addresses_found.extend(addresses(&proc.join(pid.to_string())));
    }
    if addresses_found.is_empty() {
        return Err(format!("`{wanted}`: its pods have no address yet"));
    }
    Ok(addresses_found.into_iter().collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const UID: &str = "0a1b2c3d-1111-2222-3333-444455556666";

    #[test]
    fn the_name_of_a_workload_is_that_of_its_pods_without_their_own_parts() {
        for (pod, name) in [
            ("shop-7d9c5b5f4-x2x9q", "shop"),
            ("web-cart-64b8f9c8d6-zzv2k", "web-cart"),
            ("agent-x2x9q", "agent"),
            ("db-0", "db"),
            ("kube-proxy", "kube-proxy"),
            ("etcd-node1", "etcd-node1"),
            ("single", "single"),
        ] {
            assert_eq!(workload(pod), name, "{pod}");
        }
    }

    /// A process of a pod with the addresses of a namespace.
    fn process(proc: &Path, pid: u32, uid: &str, netns: &str) {
        let folder = proc.join(pid.to_string());
        fs::create_dir_all(folder.join("ns")).unwrap();
        fs::create_dir_all(folder.join("net")).unwrap();
        fs::write(folder.join("cgroup"), format!("0::/kubepods/besteffort/pod{uid}/{}\n", "a".repeat(64))).unwrap();
        let own = proc.join(netns);
        fs::write(&own, "").unwrap();
        std::os::unix::fs::symlink(own, folder.join("ns/net")).unwrap();
        let trie = "Main:\n  +-- 10.244.1.0/24 2 0 2\n     |-- 10.244.1.0\n        /24 link UNICAST\n";
        let own = ["10.244.1.7", "127.0.0.1"].map(|ip| format!("     |-- {ip}\n        /32 host LOCAL\n"));
        let trie = format!("{trie}{}", own.concat());
        fs::write(folder.join("net/fib_trie"), trie).unwrap();
        let six =
            "fd000000000000000000000000000007 02 40 00 80 eth0\n00000000000000000000000000000001 01 80 10 80 lo\n\
                   fe800000000000000000000000000001 02 40 20 80 eth0\n";
        fs::write(folder.join("net/if_inet6"), six).unwrap();
    }

    #[test]
    fn a_workload_is_known_by_the_addresses_of_its_pods() {
        let root = tempfile::tempdir().unwrap();
        let (proc, logs) = (root.path().join("proc"), root.path().join("pods"));
        fs::create_dir_all(logs.join(format!("market_shop-7d9c5b5f4-x2x9q_{UID}"))).unwrap();
        fs::create_dir_all(logs.join("market_old-7d9c5b5f4-x2x9q_ffffffff-1111-2222-3333-444455556666")).unwrap();
        process(&proc, 7, UID, "pod");
        let of = |wanted: &str| found(wanted, &proc, &logs);
        let all: Vec<IpAddr> = vec!["10.244.1.7".parse().unwrap(), "fd00::7".parse().unwrap()];
        for wanted in ["shop", "market/shop", "shop-7d9c5b5f4-x2x9q", "market/shop-7d9c5b5f4-x2x9q", UID] {
            assert_eq!(of(wanted).as_ref(), Ok(&all), "{wanted}");
        }
        let wrong = of("other/shop").unwrap_err();
        assert!(wrong.ends_with("there are: market/shop-7d9c5b5f4-x2x9q"), "{wrong}");
        process(&proc, 1, "ffffffffffffffffffffffffffffffff", "host");
        process(&proc, 8, &UID.replace('0', "9"), "host");
        let wrong = of(&UID.replace('0', "9")).unwrap_err();
        assert!(wrong.contains("in the network of its node"), "{wrong}");
        assert!(found("shop", root.path(), &logs).unwrap_err().contains("no pod of Kubernetes runs"));
    }
}
