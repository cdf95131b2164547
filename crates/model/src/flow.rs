//! A flow: the traffic between one process and one remote address at one listening port, in a window of time. It
//! bundles connections, so that a thousand short connections are one record.

use crate::event::Role;
use crate::net::Transport;
use crate::span::Resource;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Key of a flow. Records with equal keys belong to one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FlowKey {
    /// Host identity, as [`crate::Span::host_id`].
    pub host_id: u64,
    /// Client if the process connected or sends requests; server if it listens; unknown for peers of equal rank (UDP
    /// only).
    pub role: Role,
    /// TCP or UDP.
    pub transport: Transport,
    /// Address of the process. IPv4 is never written as v4-mapped IPv6.
    pub local: IpAddr,
    /// Address of the other end; unspecified (`::`) if it is not known, or if the record is about a listening socket.
    pub remote: IpAddr,
    /// Port at which the server's side listens: the own port of a server, the remote port of a client.
    pub port: u16,
    /// Process id (thread group) in the root pid namespace.
    pub pid: u32,
    /// Start time of the process, ns since boot. It tells two processes with one pid apart.
    pub process_start_ns: u64,
    /// Inode of the network namespace of the socket.
    pub netns: u32,
}

/// Buckets of a [`Log2Histogram`].
pub const LOG2_BUCKETS: usize = 24;

/// Number of durations by power of two: bucket `i` counts the durations of `2^i ..= 2^(i+1)-1` µs. The first bucket
/// also counts 0, and the last all longer ones.
///
/// Formats for people (JSON) leave out empty buckets at the end; compact formats have all buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Log2Histogram(pub [u64; LOG2_BUCKETS]);

impl Serialize for Log2Histogram {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if !to.is_human_readable() {
            return self.0.serialize(to);
        }
        let used = self.0.iter().rposition(|n| *n > 0).map_or(0, |last| last + 1);
        to.collect_seq(self.0.iter().take(used))
    }
}

impl<'de> Deserialize<'de> for Log2Histogram {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        if !from.is_human_readable() {
            return Ok(Log2Histogram(Deserialize::deserialize(from)?));
        }
        let given = Vec::<u64>::deserialize(from)?;
        let mut all = Log2Histogram::default();
        let room = all.0.get_mut(..given.len());
        room.ok_or_else(|| D::Error::invalid_length(given.len(), &"at most 24 buckets"))?.copy_from_slice(&given);
        Ok(all)
    }
}

impl Log2Histogram {
    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Log2Histogram) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = mine.saturating_add(theirs);
        }
    }

    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.0.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Percentile `p` (0–1), µs: the geometric middle of its bucket. `None` if the histogram is empty.
    pub fn percentile_us(&self, p: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = ((p.clamp(0.0, 1.0) * count as f64).ceil() as u64).max(1);
        let mut seen = 0u64;
        let bucket = self.0.iter().position(|n| {
            seen = seen.saturating_add(*n);
            seen >= rank
        })?;
        Some(2f64.powf(bucket as f64 + 0.5))
    }
}

/// Traffic of a flow in a window. `active` is the state at the window's end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct FlowCounts {
    /// Connections opened (UDP: sockets that began to exchange datagrams).
    pub opened: u64,
    /// Attempts to connect that failed.
    pub failed: u64,
    /// Connections closed, in order or not.
    pub closed: u64,
    /// Connections open at the end of the window; those that existed before the agent count, too.
    pub active: u64,
    /// Bytes that the process sent.
    pub bytes_sent: u64,
    /// Bytes that the process received.
    pub bytes_received: u64,
    /// Calls that sent (UDP: datagrams).
    pub messages_sent: u64,
    /// Calls that received (UDP: datagrams).
    pub messages_received: u64,
    /// Segments retransmitted by this side.
    pub retransmits: u64,
    /// Resets sent.
    pub resets_sent: u64,
    /// Resets received.
    pub resets_received: u64,
    /// Times that a connection's receive window was found closed by the peer. Each drain looks once at each connection.
    pub zero_windows: u64,
    /// Segments received out of order.
    pub out_of_order: u64,
    /// Connections refused because the accept queue was full, at a listening socket.
    pub listen_overflows: u64,
    /// Packets that the kernel dropped on their way to or from these sockets, by the kernel's reason.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub drops: BTreeMap<Box<str>, u64>,
    /// Durations of handshakes, as the client's kernel measured them.
    #[schema(value_type = Vec<u64>)]
    pub handshake: Log2Histogram,
    /// Smoothed round-trip times: one value per connection in use at each drain, and one at its end.
    #[schema(value_type = Vec<u64>)]
    pub srtt: Log2Histogram,
}

impl FlowCounts {
    /// Adds the counts of a later window, or of another connection in the same window. `active` becomes that of
    /// `later`.
    pub fn merge(&mut self, later: &FlowCounts) {
        self.active = later.active;
        self.add(later);
    }

    /// Adds all counts except `active`.
    pub fn add(&mut self, other: &FlowCounts) {
        for (mine, theirs) in [
            (&mut self.opened, other.opened),
            (&mut self.failed, other.failed),
            (&mut self.closed, other.closed),
            (&mut self.bytes_sent, other.bytes_sent),
            (&mut self.bytes_received, other.bytes_received),
            (&mut self.messages_sent, other.messages_sent),
            (&mut self.messages_received, other.messages_received),
            (&mut self.retransmits, other.retransmits),
            (&mut self.resets_sent, other.resets_sent),
            (&mut self.resets_received, other.resets_received),
            (&mut self.zero_windows, other.zero_windows),
            (&mut self.out_of_order, other.out_of_order),
            (&mut self.listen_overflows, other.listen_overflows),
        ] {
            *mine = mine.saturating_add(theirs);
        }
        for (reason, n) in &other.drops {
            let sum = self.drops.entry(reason.clone()).or_default();
            *sum = sum.saturating_add(*n);
        }
        self.handshake.merge(&other.handshake);
        self.srtt.merge(&other.srtt);
    }
}

/// What makes two bundles of one host the same; the fields of [`FlowKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct BundleKey {
    pub role: Role,
    pub transport: Transport,
    pub local: IpAddr,
    pub remote: IpAddr,
    pub port: u16,
    pub pid: u32,
    pub process_start_ns: u64,
    pub netns: u32,
    /// Port of the client if the bundle is one connection, because its addresses may be translated; else 0.
    pub client_port: u16,
}

/// What the kernel counted of a bundle of connections since it was last asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    /// The process, and the remote end.
    pub key: BundleKey,
    /// Name of the process.
    pub comm: [u8; 16],
    /// Cgroup v2 id of the process.
    pub cgroup_id: u64,
    /// Ephemeral port of one of the connections.
    pub client_port: u16,
    /// Change of the number of open connections.
    pub active_change: i64,
    /// Counts; `active` is 0.
    pub counts: FlowCounts,
}

/// One flow in one window, as one host observed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Start of the window, Unix ns.
    pub start_ns: u64,
    /// End of the window, Unix ns.
    pub end_ns: u64,
    /// Key of the flow.
    pub key: FlowKey,
    /// Name of the process (`task_struct.comm` of its first thread).
    pub comm: Box<str>,
    /// Cgroup v2 id of the process.
    pub cgroup_id: u64,
    /// Port of the client's end of one of the connections, to look it up in the tables of NAT; 0 if not known.
    pub client_port: u16,
    /// The process.
    pub resource: Arc<Resource>,
    /// Traffic of the window.
    pub counts: FlowCounts,
}

impl Flow {
    /// Service of the process; the name of the process if it has no service name.
    pub fn service(&self) -> &str {
        match &*self.resource.service {
            "" => &self.comm,
            name => name,
        }
    }

    /// Merges two records of one key. The window spans both, and counts add up. The later record's process and number
    /// of open connections stay.
    pub fn merge(&mut self, other: &Flow) {
        debug_assert_eq!(self.key, other.key);
        if other.end_ns >= self.end_ns {
            self.counts.merge(&other.counts);
            self.comm.clone_from(&other.comm);
            self.cgroup_id = other.cgroup_id;
            self.resource = Arc::clone(&other.resource);
        } else {
            self.counts.add(&other.counts);
        }
        self.client_port = self.client_port.max(other.client_port);
        self.start_ns = self.start_ns.min(other.start_ns);
        self.end_ns = self.end_ns.max(other.end_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn flow(start_ns: u64, end_ns: u64) -> Flow {
        let key = FlowKey {
            host_id: 1,
            role: Role::Server,
            transport: Transport::Tcp,
            local: Ipv4Addr::LOCALHOST.into(),
            remote: Ipv6Addr::UNSPECIFIED.into(),
            port: 80,
            pid: 7,
            process_start_ns: 5,
            netns: 3,
        };
        let (comm, resource, counts) = ("a".into(), Arc::default(), FlowCounts::default());
        Flow { start_ns, end_ns, key, comm, cgroup_id: 0, client_port: 0, resource, counts }
    }

    #[test]
    fn merging_adds_counts_and_keeps_the_later_gauge_in_either_order() {
        let (mut early, mut late) = (flow(0, 10), flow(10, 20));
        early.counts = FlowCounts { opened: 3, active: 3, bytes_sent: 5, ..FlowCounts::default() };
        early.counts.drops.insert("NO_SOCKET".into(), 2);
        late.counts = FlowCounts { opened: 1, closed: 2, active: 2, bytes_sent: 7, ..FlowCounts::default() };
        late.counts.drops.insert("NO_SOCKET".into(), 1);
        late.counts.srtt.0[4] = 9;
        late.comm = "b".into();
        let mut forward = early.clone();
        forward.merge(&late);
        let mut backward = late.clone();
        backward.merge(&early);
        assert_eq!(forward, backward);
        let c = &forward.counts;
        assert_eq!(
            (c.opened, c.closed, c.active, c.bytes_sent, c.drops["NO_SOCKET"], c.srtt.count()),
            (4, 2, 2, 12, 3, 9)
        );
        assert_eq!((forward.start_ns, forward.end_ns, &*forward.comm), (0, 20, "b"));
    }

    #[test]
    fn a_flow_without_a_service_name_bears_the_name_of_its_process() {
        let mut f = flow(0, 1);
        assert_eq!(f.service(), "a");
        f.resource = Arc::new(Resource { service: "shop".into(), ..Resource::default() });
        assert_eq!(f.service(), "shop");
    }

    #[test]
    fn percentiles_name_the_bucket() {
        let mut h = Log2Histogram::default();
        assert_eq!(h.percentile_us(0.5), None);
        h.0[3] = 90;
        h.0[10] = 10;
        assert!((8.0..16.0).contains(&h.percentile_us(0.5).unwrap_or_default()));
        assert!((1024.0..2048.0).contains(&h.percentile_us(0.99).unwrap_or_default()));
    }

    #[test]
    fn json_keeps_a_flow_whole() {
        let mut f = flow(1, 2);
        f.counts.handshake.0[23] = u64::MAX;
        let text = serde_json::to_string(&f).unwrap_or_default();
        assert_eq!(serde_json::from_str::<Flow>(&text).ok(), Some(f));
    }
}
