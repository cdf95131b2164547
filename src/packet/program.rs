//! Reads a packet program (YAML).

mod doing;
mod explain;
mod globals;
mod keys;
mod values;

pub(crate) use doing::Action;
pub(crate) use values::duration;

use crate::cli::encode;
use anyhow::{anyhow, bail, Context as _, Result};
use doing::{Doing, Place};
use explain::{explain, with_line};
use keys::{FilterKeys, Keys, Some1};
use std::path::{Path, PathBuf};
use std::time::Duration;
use values::Written;
use wirespan_capture::packet::{Device, Filter, PacketOptions};
use wirespan_capture::targets::{netns_file, netns_inode};
use wirespan_model::packet::{Point, ETHER_ARP, ETHER_IPV4, ETHER_IPV6};
use wirespan_view::Whose;

/// Records at most, unless the program says otherwise.
const AT_MOST: u64 = 1_000_000;
/// Room for some 200,000 sightings: the join of 300,000 a second stands still for half a second at times.
const RING_BYTES: u32 = 32 << 20;
/// The points at which frames are seen that are not of IP.
const OF_FRAMES: [Point; 4] = [Point::Queue, Point::Xmit, Point::Receive, Point::Drop];

/// A packet program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    keys: Keys,
    /// What is done with the packets.
    pub(crate) actions: Vec<Action>,
    /// How long it runs.
    pub(crate) time: Duration,
}

impl Program {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("packet program {}", path.display()))?;
        Program::parse(&text).with_context(|| format!("packet program {}", path.display()))
    }

    /// Reads the text of a file.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        // An empty file is an empty program.
        let text = &globals::substituted(text)?;
        let keys: Option<Keys> = serde_norway::from_str(text).map_err(|e| explain(&e))?;
        let keys = keys.unwrap_or_default();
        Program::of(keys).map_err(|error| with_line(text, &error))
    }

    fn of(keys: Keys) -> Result<Self> {
        let usual = || vec![Doing::Does(Action::Latency), Doing::Does(Action::Drops)];
        let doings = keys.action.clone().unwrap_or_else(usual);
        let does = |doing: &Doing| if let Doing::Does(action) = doing { Some(*action) } else { None };
        let mut actions: Vec<Action> = doings.iter().filter_map(does).collect();
        if actions.is_empty() {
            bail!("`action` is empty: there is nothing to do with the packets; `snap` and `stack` go with `record`");
        }
        actions.extend(keys.by.map(|keys::By::Flow| Action::Flows));
        let time = keys.time.map_or(Duration::from_secs(10), |Written(time)| time);
        let program = Program { keys, actions, time };
        // Namespaces may be those of another machine.
        program.options_in(Vec::new())?;
        program.asks()?;
        Ok(program)
    }

    /// What to load for it. The namespaces are those of the program and these.
    pub(crate) fn options(&self, more_netns: &[String]) -> Result<PacketOptions> {
        let netns = self.netns(more_netns)?.into_iter().map(|(inode, _)| inode).collect();
        let mut options = self.options_in(netns)?;
        options.devices = self.devices(more_netns)?;
        for name in self.workloads() {
            let hosts = wirespan_enrich::addresses_of(&name).map_err(|why| anyhow!("filter.workload: {why}"))?;
            options.filter.hosts.extend(hosts);
        }
        Ok(options)
    }

    /// Names of workloads and pods in the filter.
    pub(crate) fn workloads(&self) -> Vec<String> {
        Some1::all(self.keys.filter.workload.as_ref())
    }

    /// Whether it has functions that a user of this machine may name, and nobody elsewhere.
    pub(crate) fn names_functions(&self) -> bool {
        self.keys.points.iter().flatten().any(|place| matches!(place, Place::Kprobe(_) | Place::Uprobe(_)))
    }

    /// The devices of `tc` in each chosen namespace; in that of this process if none is chosen.
    fn devices(&self, more_netns: &[String]) -> Result<Vec<Device>> {
        let named = |place: &Place| if let Place::Tc(name) = place { Some(name.clone()) } else { None };
        let devices: Vec<String> = self.keys.points.iter().flatten().filter_map(named).collect();
        if devices.is_empty() {
            return Ok(Vec::new()); // to look into other processes' namespaces needs a privilege
        }
        let names = self.netns_names(more_netns);
        let mut files: Vec<_> =
            names.iter().map(|name| netns_file(name).map_err(|e| anyhow!(e))).collect::<Result<_>>()?;
        if files.is_empty() {
            files.push("/proc/self/ns/net".into());
        }
        let everywhere = |name: String| {
            let of = move |netns: &PathBuf| Device { netns: netns.clone(), name: name.clone() };
            files.iter().map(of).collect::<Vec<_>>()
        };
        Ok(devices.into_iter().flat_map(everywhere).collect())
    }

    /// Where packets are seen.
    fn points(&self, of_frames: bool) -> Result<Vec<Point>> {
        let Some(places) = &self.keys.points else {
            return Ok(if of_frames { OF_FRAMES.to_vec() } else { Point::FIXED.to_vec() });
        };
        if places.is_empty() {
            bail!("`where` is empty: packets are seen nowhere");
        }
        let of = |place: &Place| match place {
            Place::At(point) => vec![*point],
            Place::Kprobe(_) => vec![Point::Function],
            Place::Uprobe(_) => vec![Point::Mark],
            Place::Tc(_) => vec![Point::Egress, Point::Ingress],
        };
        let points: Vec<Point> = places.iter().flat_map(of).collect();
        let is_of_sockets = |point: &&Point| Point::FIXED.contains(point) && !OF_FRAMES.contains(point);
        if let Some(point) = points.iter().filter(|_| of_frames).find(is_of_sockets) {
            let point = point.as_str();
            bail!(
                "`where`: at `{point}` there is only IP. Frames of another kind (filter.ether_type) are seen at queue, \
                 xmit, receive and drop"
            );
        }
        Ok(points)
    }

    /// The kind of frame, if it is not one of IP.
    fn other_frames(&self) -> Result<bool> {
        let kind = self.keys.filter.ether_type.0 .0;
        if matches!(kind, 0 | ETHER_IPV4 | ETHER_IPV6) {
            return Ok(false);
        }
        let (needs_ip, needs_address) = self.keys.filter.of_ip();
        if let Some(key) = needs_ip.or(needs_address.filter(|_| kind != ETHER_ARP)) {
            bail!("filter.ether_type: such a frame is not of IP: leave out `{key}`");
        }
        Ok(true)
    }

    /// As [`Program::options`], for packets of these namespaces.
    pub(crate) fn options_in(&self, netns: Vec<u32>) -> Result<PacketOptions> {
        let keys = &self.keys.filter;
        let flags = keys.tcp_flags.iter().fold(0, |all, flag| all | *flag as u8);
        let filter = Filter {
            source: keys.source.0,
            destination: keys.destination.0,
            address: keys.address.0,
            source_port: keys.source_port.0,
            destination_port: keys.destination_port.0,
            port: keys.port.0,
            protocol: keys.protocol.0,
            tcp_flags: flags,
            ether_type: keys.ether_type.0 .0,
            headers: keys.headers.0,
            hosts: Vec::new(),
            devices: Some1::all(keys.device.as_ref()),
            netns,
        };
        let points = self.points(self.other_frames()?)?;
        let at_most = self.keys.at_most.unwrap_or(AT_MOST);
        if at_most == 0 {
            bail!("`at_most` is 0: no packet would be told");
        }
        let one_flow_of = self.keys.one_flow_of.unwrap_or(1);
        let only_ends = self.asks()?.is_some();
        let (mut functions, mut marks) = (Vec::new(), Vec::new());
        for place in self.keys.points.iter().flatten() {
            match place {
                Place::At(_) | Place::Tc(_) => {}
                Place::Kprobe(name) => functions.push(name.clone()),
                Place::Uprobe(mark) => marks.push(mark.clone()),
            }
        }
        let doings = self.keys.action.iter().flatten();
        let snap = doings.clone().map(|doing| if let Doing::Snap(bytes) = doing { *bytes } else { 0 });
        let (snap, stack) = (snap.max().unwrap_or(0), doings.clone().any(|doing| *doing == Doing::Stack));
        let ring_bytes = RING_BYTES;
        Ok(PacketOptions {
            filter,
            only_ends,
            points,
            functions,
            devices: Vec::new(),
            marks,
            snap,
            stack,
            one_flow_of,
            at_most,
            ring_bytes,
        })
    }

    /// The path of the query API that names the connections of the filter, and whether they are those of one trace.
    pub(crate) fn asks(&self) -> Result<Option<(String, bool)>> {
        let FilterKeys { trace, service, endpoint, .. } = &self.keys.filter;
        if let Some(id) = trace {
            let is_id = matches!(id.len(), 16 | 32) && id.bytes().all(|b| b.is_ascii_hexdigit());
            if !is_id {
                bail!("filter.trace: `{id}` is no id: of a trace it has 32 hex digits, of a span 16; quote it");
            }
            if service.is_some() || endpoint.is_some() {
                bail!("filter.trace names the packets already: leave out `service` and `endpoint`");
            }
            return Ok(Some((format!("/api/v1/trace/{id}/model"), true)));
        }
        let mut query: Vec<(&str, &str)> = Vec::new();
        query.extend(service.as_deref().map(|name| ("service", name)));
        query.extend(endpoint.as_deref().map(|path| ("endpoint", path)));
        if query.is_empty() {
            return Ok(None);
        }
        let words = query.iter().map(|(key, value)| format!("&{key}={}", encode(value)));
        let path = format!("/api/v1/spans?tap=server-process&limit=1000&from=-1h{}", words.collect::<String>());
        Ok(Some((path, false)))
    }

    /// What the filter means by spans.
    pub(crate) fn whose(&self) -> Option<Whose> {
        let FilterKeys { trace, service, endpoint, .. } = &self.keys.filter;
        match (trace, service, endpoint) {
            (Some(id), ..) => Some(Whose::Trace(id.clone())),
            (None, None, None) => None,
            (None, service, endpoint) => Some(Whose::Requests { service: service.clone(), endpoint: endpoint.clone() }),
        }
    }

    /// Whether the filter has `trace`.
    pub(crate) fn names_a_trace(&self) -> bool {
        self.keys.filter.trace.is_some()
    }

    /// The chosen namespaces, as they are written.
    pub(crate) fn netns_names(&self, more: &[String]) -> Vec<String> {
        let mut names = Some1::all(self.keys.filter.netns.as_ref());
        names.extend(more.iter().cloned());
        names
    }

    /// The chosen namespaces: inode and name.
    pub(crate) fn netns(&self, more: &[String]) -> Result<Vec<(u32, String)>> {
        let all = self.netns_names(more);
        all.iter().map(|name| Ok((netns_inode(name).map_err(|e| anyhow!(e))?, name.clone()))).collect()
    }
}

#[cfg(test)]
mod tests;
