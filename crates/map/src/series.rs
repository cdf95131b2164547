//! One edge over time.

use crate::directory::NodeKey;
use crate::edge_flow::EdgeFlow;
use crate::graph::NodeKind;
use crate::histogram::Histogram;
use wirespan_model::{waits_for_work, Flow, Span, TimeRange, Transport};

/// Names an edge: the ids of its ends, its transport and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeId {
    client: NodeKey,
    server: NodeKey,
    transport: Transport,
    port: u16,
}

impl EdgeId {
    /// Reads the ids of a [`crate::Document`]. `Err` says which part is wrong.
    pub fn new(from: &str, to: &str, transport: &str, port: u16) -> Result<Self, String> {
        let node = |id: &str| {
            let (kind, name) = id.split_once(':')?;
            Some(NodeKey::new(NodeKind::parse(kind)?, name))
        };
        let wrong = |id: &str| format!("`{id}` is not the id of a node: write KIND:NAME, like service:cart");
        let transport = match transport {
            "tcp" => Transport::Tcp,
            "udp" => Transport::Udp,
            "unix" => Transport::UnixStream,
            other => return Err(format!("`{other}` is not a transport: tcp, udp or unix")),
        };
        Ok(EdgeId {
            client: node(from).ok_or_else(|| wrong(from))?,
            server: node(to).ok_or_else(|| wrong(to))?,
            transport,
            port,
        })
    }

    pub(crate) fn is(&self, client: &NodeKey, server: &NodeKey, transport: Transport, port: u16) -> bool {
        self.port == port
            && self.transport.as_str() == transport.as_str()
            && self.client == *client
            && self.server == *server
    }
}

/// The traffic of an edge in one step of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Calls that began.
    pub calls: u64,
    /// Of these, failed.
    pub errors: u64,
    /// Their durations.
    pub latency: Histogram,
    /// Bytes of the calls, both ways.
    pub bytes: u64,
    /// Smoothed RTT at each span.
    pub rtt: Histogram,
    /// Flow records of the client's end.
    pub client: EdgeFlow,
    /// Flow records of the server's end.
    pub server: EdgeFlow,
}

/// Equal steps of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    from_ns: u64,
    step_ns: u64,
    points: Vec<Point>,
}

impl Series {
    /// `steps` steps over the range.
    pub fn new(range: TimeRange, steps: usize) -> Self {
        let steps = steps.max(1);
        let length = range.to_ns.saturating_sub(range.from_ns).max(1);
        let step_ns = length.div_ceil(steps as u64).max(1);
        Series { from_ns: range.from_ns, step_ns, points: vec![Point::default(); steps] }
    }

    /// Length of a step, ns.
    pub fn step_ns(&self) -> u64 {
        self.step_ns
    }

    /// Start of each step, Unix ns, and the edge's traffic in it.
    pub fn points(&self) -> impl Iterator<Item = (u64, &Point)> {
        let at = |n: usize| self.from_ns.saturating_add(self.step_ns.saturating_mul(n as u64));
        self.points.iter().enumerate().map(move |(n, point)| (at(n), point))
    }

    fn at(&mut self, ns: u64) -> Option<&mut Point> {
        let n = ns.checked_sub(self.from_ns)? / self.step_ns;
        self.points.get_mut(usize::try_from(n).ok()?)
    }

    pub(crate) fn span(&mut self, span: &Span, counts: bool, failed: bool) {
        let Some(point) = self.at(span.start_ns) else { return };
        if counts {
            point.calls += 1;
            point.errors += u64::from(failed);
            if !waits_for_work(span) {
                point.latency.add(span.duration_ns());
            }
            point.bytes += span.request_bytes + span.response_bytes;
        }
        if span.tcp.srtt_ns > 0 {
            point.rtt.add(span.tcp.srtt_ns);
        }
    }

    pub(crate) fn flow(&mut self, flow: &Flow, serves: bool) {
        let Some(point) = self.at(flow.start_ns) else { return };
        let end = if serves { &mut point.server } else { &mut point.client };
        end.add(&flow.counts, serves);
    }
}
