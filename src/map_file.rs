//! `--map-file`: the dependency map of a whole run, from its flows, written at the end.

use anyhow::{Context as _, Result};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{json, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use wirespan_model::{Flow, FlowCounts, FlowKey, Role, Transport};

/// Bundles that are told apart; those beyond are counted and left out.
const MAX_FLOWS: usize = 1_000_000;

/// Gathers flows and writes the map.
pub(crate) struct MapFile {
    path: PathBuf,
    flows: FxHashMap<FlowKey, Flow>,
    left_out: u64,
}

/// An address as one host sees it: loopback is another one in each network namespace.
type Place = (u64, u32, IpAddr, u16, Transport);

fn place(key: &FlowKey, ip: IpAddr) -> Place {
    let space = if ip.is_loopback() { (key.host_id, key.netns) } else { (0, 0) };
    (space.0, space.1, ip, key.port, key.transport)
}

fn name(flow: &Flow) -> &str {
    match &*flow.resource.service {
        "" => &flow.comm,
        name => name,
    }
}

impl MapFile {
    /// Checks that the file can be written; it is complete or absent at the end, never half of it.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        std::fs::write(path, "").with_context(|| format!("--map-file {}", path.display()))?;
        Ok(MapFile { path: path.to_owned(), flows: FxHashMap::default(), left_out: 0 })
    }

    /// Adds flows.
    pub(crate) fn take(&mut self, flows: &[Flow]) {
        for flow in flows {
            if let Some(known) = self.flows.get_mut(&flow.key) {
                known.merge(flow);
            } else if self.flows.len() < MAX_FLOWS {
                self.flows.insert(flow.key, flow.clone());
            } else {
                self.left_out += 1;
            }
        }
    }

    /// Writes the file.
    pub(crate) fn write(self) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.document())?;
        let half = self.path.with_extension("half");
        let written = std::fs::write(&half, text).and_then(|()| std::fs::rename(&half, &self.path));
        written.with_context(|| format!("--map-file {}", self.path.display()))
    }

    fn document(&self) -> Value {
        let mut flows: Vec<&Flow> = self.flows.values().collect();
        flows.sort_by(|a, b| (name(a), a.key.remote, a.key.port).cmp(&(name(b), b.key.remote, b.key.port)));
        // Who serves where. A socket that listens at any address is known by its port in its namespace.
        let mut servers: FxHashMap<Place, &str> = FxHashMap::default();
        let mut anywhere: FxHashMap<(u64, u32, u16, Transport), &str> = FxHashMap::default();
        let mut spaces: FxHashMap<IpAddr, (u64, u32)> = FxHashMap::default();
        for flow in flows.iter().filter(|f| f.key.role != Role::Client) {
            let k = &flow.key;
            if k.local.is_unspecified() {
                anywhere.entry((k.host_id, k.netns, k.port, k.transport)).or_insert(name(flow));
            } else {
                servers.entry(place(k, k.local)).or_insert(name(flow));
            }
        }
        for flow in flows.iter().filter(|f| !f.key.local.is_unspecified() && !f.key.local.is_loopback()) {
            spaces.insert(flow.key.local, (flow.key.host_id, flow.key.netns));
        }
        let clients: FxHashMap<Place, &str> = flows
            .iter()
            .filter(|f| f.key.role == Role::Client)
            .map(|f| (place(&f.key, f.key.remote), name(f)))
            .collect();
        let called = |k: &FlowKey| -> Option<&str> {
            let space = spaces.get(&k.remote).copied();
            let space = if k.remote.is_loopback() { Some((k.host_id, k.netns)) } else { space };
            let found = servers.get(&place(k, k.remote)).copied();
            found.or_else(|| anywhere.get(&(space?.0, space?.1, k.port, k.transport)).copied())
        };
        let mut nodes: BTreeSet<(String, &str)> = BTreeSet::new();
        let mut edges: BTreeMap<(String, String, u16, &str), Sides> = BTreeMap::new();
        let mut met: FxHashSet<Place> = FxHashSet::default();
        for flow in flows.iter().filter(|f| f.key.role == Role::Client) {
            let k = &flow.key;
            let from = name(flow).to_string();
            nodes.insert((from.clone(), "service"));
            let to = match called(k) {
                Some(name) => {
                    met.insert(place(k, k.remote));
                    nodes.insert((name.to_string(), "service"));
                    name.to_string()
                }
                None => {
                    nodes.insert((format!("{}:{}", k.remote, k.port), "address"));
                    format!("{}:{}", k.remote, k.port)
                }
            };
            edges.entry((from, to, k.port, k.transport.as_str())).or_default().client.add(&flow.counts);
        }
        for flow in flows.iter().filter(|f| f.key.role != Role::Client) {
            let k = &flow.key;
            let to = name(flow).to_string();
            nodes.insert((to.clone(), "service"));
            if k.remote.is_unspecified() {
                continue; // of the listening socket itself
            }
            let own = place(k, k.local);
            let from = clients.get(&own).filter(|_| met.contains(&own));
            let from = match from {
                Some(name) => (*name).to_string(),
                None => {
                    nodes.insert((k.remote.to_string(), "caller"));
                    k.remote.to_string()
                }
            };
            edges.entry((from, to, k.port, k.transport.as_str())).or_default().server.add(&flow.counts);
        }
        let nodes: Vec<Value> =
            nodes.iter().map(|(name, kind)| json!({ "id": name, "name": name, "kind": kind })).collect();
        let edges: Vec<Value> =
            edges.iter().map(|((from, to, port, protocol), s)| s.edge(from, to, *port, protocol)).collect();
        json!({ "nodes": nodes, "edges": edges, "left_out": self.left_out })
    }
}

/// What both ends of an edge saw.
#[derive(Default)]
struct Sides {
    client: FlowCounts,
    server: FlowCounts,
}

impl Sides {
    fn edge(&self, from: &str, to: &str, port: u16, protocol: &str) -> Value {
        let seen_by_client = self.client != FlowCounts::default();
        let (c, s) = (&self.client, &self.server);
        let near = if seen_by_client { c } else { s };
        let (out, back) =
            if seen_by_client { (c.bytes_sent, c.bytes_received) } else { (s.bytes_received, s.bytes_sent) };
        json!({
            "from": from, "to": to, "port": port, "protocol": protocol,
            "opened": near.opened, "failed": near.failed, "closed": near.closed,
            "request_bytes": out, "response_bytes": back,
            "retransmits": c.retransmits + s.retransmits,
            "client": c, "server": s,
        })
    }
}
