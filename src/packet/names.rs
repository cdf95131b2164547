//! Names of network namespaces and of reasons of drops.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use wirespan_journey::Place;

/// Names by number.
#[derive(Default)]
pub(crate) struct Names {
    netns: BTreeMap<u32, String>,
    own: u32,
}

impl Names {
    /// The namespaces that `ip netns` knows, and that of this process.
    pub(crate) fn read() -> Self {
        let inode = |path: &Path| std::fs::metadata(path).ok().map(|meta| meta.ino() as u32);
        let named = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
        let netns = named.filter_map(|e| Some((inode(&e.path())?, e.file_name().to_string_lossy().into_owned())));
        Names { netns: netns.collect(), own: inode(Path::new("/proc/self/ns/net")).unwrap_or(0) }
    }

    /// Gives a namespace the name by which the user called it.
    pub(crate) fn call(&mut self, inode: u32, name: &str) {
        self.netns.entry(inode).or_insert_with(|| name.to_owned());
    }

    /// The name of a namespace; empty for that of this process.
    pub(crate) fn netns(&self, inode: u32) -> String {
        match self.netns.get(&inode) {
            Some(name) => name.clone(),
            None if inode == self.own => String::new(),
            None => format!("netns {inode}"),
        }
    }

    /// A place, as `queue eth0 in web (vxlan)`.
    pub(crate) fn place(&self, place: &Place) -> String {
        let at = if place.function.is_empty() { place.point.as_str() } else { &place.function };
        format!("{at} {}", self.site(place)).trim_end().to_owned()
    }

    /// The place without its point, as `at eth0 in web`.
    pub(crate) fn at(&self, place: &Place) -> String {
        let at = if place.device.is_empty() { "" } else { "at " };
        format!("{at}{}", self.site(place))
    }

    /// The place without its point.
    fn site(&self, place: &Place) -> String {
        let tunnel = match place.tunnel {
            wirespan_model::packet::Tunnel::None => String::new(),
            tunnel => format!(" ({})", tunnel.as_str()),
        };
        let netns = self.netns(place.netns);
        let within = if netns.is_empty() { String::new() } else { format!(" in {netns}") };
        format!("{}{within}{tunnel}", place.device).trim_start().to_owned()
    }
}

/// Inode of the network namespace in which the first process of the host runs; that of this process if it may not look.
pub(crate) fn host_netns() -> u32 {
    let inode = |path| std::fs::metadata(path).ok().map(|meta| meta.ino() as u32);
    inode("/proc/1/ns/net").or(inode("/proc/self/ns/net")).unwrap_or(0)
}

/// The kernel's name of a reason.
pub(crate) type Reason<'a> = dyn Fn(u32) -> String + 'a;
