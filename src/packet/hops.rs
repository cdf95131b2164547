//! A traced request, and what devices saw of its bytes → a span for each device on the way.

use super::names::Reason;
use super::Names;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use wirespan_journey::{Bytes, Joiner, Passing};
use wirespan_model::packet::{Route, TCP};
use wirespan_model::{
    hop, Endpoint, FiveTuple, Resource, Span, SpanId, SpanKind, TapSide, TcpHealth, Transport, Value,
};

/// Packets of a request are looked for so long before and after it, ns.
const AROUND_NS: u64 = 1_000_000_000;

/// A device that saw the request, and perhaps the response.
struct Hop {
    request: Passing,
    response: Option<Passing>,
}

impl Hop {
    /// From the request's first byte to the response's first byte.
    fn round_trip_ns(&self) -> Option<u64> {
        Some(self.response.as_ref()?.first_ns.saturating_sub(self.request.first_ns))
    }

    fn both(&self, of: impl Fn(&Passing) -> u64) -> u64 {
        of(&self.request) + self.response.as_ref().map_or(0, of)
    }
}

/// The ends of a span's connection, and those that its own socket had if addresses are translated.
pub(super) fn tuples(span: &Span) -> impl Iterator<Item = FiveTuple> {
    let end = |address: &str, port: &str| {
        let ip: IpAddr = span.text(address)?.parse().ok()?;
        Some(Endpoint { ip, port: u16::try_from(span.number(port)?).ok()? })
    };
    let own = match span.tap {
        TapSide::ServerProcess => end("client.address", "client.port").map(|client| FiveTuple { client, ..span.tuple }),
        _ => end("server.address", "server.port").map(|server| FiveTuple { server, ..span.tuple }),
    };
    [Some(span.tuple), own].into_iter().flatten()
}

/// The server of a request, by all addresses that are known of it.
pub(super) fn servers(span: &Span) -> impl Iterator<Item = SocketAddr> {
    tuples(span).map(|tuple| SocketAddr::new(tuple.server.ip.to_canonical(), tuple.server.port))
}

fn route(from: Endpoint, to: Endpoint) -> Route {
    let (source, destination) = (from.ip.to_canonical(), to.ip.to_canonical());
    Route { source, destination, source_port: from.port, destination_port: to.port, protocol: TCP }
}

fn seen(joiner: &Joiner, span: &Span) -> Vec<Hop> {
    let within: Range<u64> = span.start_ns.saturating_sub(AROUND_NS)..span.end_ns.saturating_add(AROUND_NS);
    let Some(seq) = span.request_seq else { return Vec::new() };
    let ask = |route, seq, len| joiner.passing(&Bytes { route, seq, len }, &within);
    tuples(span)
        .map(|FiveTuple { client, server, .. }| {
            let requests = ask(route(client, server), seq, span.request_bytes);
            let response = span.response_seq.map(|seq| ask(route(server, client), seq, span.response_bytes));
            let mut responses = response.unwrap_or_default();
            let hops = requests.into_iter().map(|request| {
                let same = |r: &Passing| (r.netns, &r.device) == (request.netns, &request.device);
                let response = responses.iter().position(same).map(|at| responses.swap_remove(at));
                Hop { request, response }
            });
            hops.collect::<Vec<_>>()
        })
        .max_by_key(Vec::len)
        .unwrap_or_default()
}

/// Tap side of each device. `host` is the network namespace of the host itself.
fn taps(hops: &[Hop], of: &Span, host: u32) -> Vec<TapSide> {
    let (first, last) = (hops.first().map(|h| &h.request), hops.last().map(|h| &h.request));
    let client = match of.tap {
        TapSide::ClientProcess => Some(of.netns),
        // It was sent here, and did not come from another host.
        _ => first.filter(|first| !first.came_out).map(|first| first.netns),
    };
    let server = match of.tap {
        TapSide::ServerProcess => Some(of.netns),
        _ => last.filter(|last| last.came_out).map(|last| last.netns),
    };
    let at = |netns: Option<u32>| move |hop: &&Hop| Some(hop.request.netns) == netns;
    let near = hops.iter().take_while(at(client)).count();
    let far = hops.iter().skip(near).rev().take_while(at(server)).count();
    let between = hops.len() - near - far;
    let side = |n: usize, netns: u32| match (client, server) {
        // The other end is at another host: all devices here are of this end's host.
        (Some(_), None) => TapSide::ClientNode,
        (None, Some(_)) => TapSide::ServerNode,
        _ if netns != host => TapSide::Gateway,
        (Some(_), Some(_)) if n * 2 < between => TapSide::ClientNode,
        _ => TapSide::ServerNode,
    };
    let mut taps = vec![TapSide::ClientNic; near];
    taps.extend(hops.iter().skip(near).take(between).enumerate().map(|(n, hop)| side(n, hop.request.netns)));
    taps.extend(std::iter::repeat_n(TapSide::ServerNic, far));
    // The codes follow the way.
    let mut before = TapSide::ClientNic;
    for tap in &mut taps {
        before = if *tap as u8 > before as u8 { *tap } else { before };
        *tap = before;
    }
    taps
}

/// A span for each device that saw the request, in the order of its way.
pub(super) fn spans(of: &Span, joiner: &Joiner, names: &Names, reason: &Reason<'_>, host: u32) -> Vec<Span> {
    let hops = seen(joiner, of);
    let taps = taps(&hops, of, host);
    let resource = Arc::new(Resource { host: of.resource.host.clone(), ..Resource::default() });
    let points = hops.len() as i64 + 1;
    let mut spans = Vec::with_capacity(hops.len());
    for (n, (hop, tap)) in hops.iter().zip(taps).enumerate() {
        let Hop { request, response } = hop;
        let mut span = Span {
            id: id(of, request),
            tap,
            kind: SpanKind::Client,
            protocol: of.protocol.clone(),
            start_ns: request.first_ns,
            response_ns: response.as_ref().map_or(0, |r| r.first_ns),
            end_ns: response.as_ref().map_or(request.last_ns, |r| r.last_ns),
            status: of.status,
            status_code: of.status_code,
            operation: of.operation.clone(),
            target: of.target.clone(),
            request_bytes: of.request_bytes,
            response_bytes: of.response_bytes,
            tuple: FiveTuple {
                client: Endpoint { ip: request.route.source, port: request.route.source_port },
                server: Endpoint { ip: request.route.destination, port: request.route.destination_port },
                transport: Transport::Tcp,
            },
            netns: request.netns,
            host_id: of.host_id,
            request_seq: of.request_seq,
            response_seq: of.response_seq,
            message_id: of.message_id,
            tcp: TcpHealth { retransmits: hop.both(|p| p.resent.into()) as u32, ..TcpHealth::default() },
            resource: Arc::clone(&resource),
            ..Span::default()
        };
        let mut set = |key: &'static str, n: u64| span.attrs.push((key.into(), Value::Int(n as i64)));
        // The process that asks is the first point.
        set(hop::POSITION, n as u64 + 2);
        set(hop::POINTS, points as u64);
        times(&mut set, hop, n.checked_sub(1).and_then(|n| hops.get(n)), of);
        let waited = hop.both(|p| p.queue_ns);
        if waited > 0 {
            set(hop::QUEUE, waited);
        }
        let packets = request.queue_len.max(response.as_ref().map_or(0, |r| r.queue_len));
        if packets > 0 {
            set(hop::QUEUE_PACKETS, packets.into());
        }
        let dropped = hop.both(|p| p.dropped.into());
        if dropped > 0 {
            set(hop::DROPPED, dropped);
        }
        let mut say = |key: &'static str, text: &str| span.attrs.push((key.into(), Value::Str(text.into())));
        say(hop::EVIDENCE, "clock");
        say(hop::DEVICE, &request.device);
        if let Some(number) = request.reason.or(response.as_ref().and_then(|r| r.reason)) {
            say(hop::DROP_REASON, &reason(number));
        }
        let netns = names.netns(request.netns);
        if !netns.is_empty() {
            say(hop::NETNS, &netns);
        }
        if request.tunnel != wirespan_model::packet::Tunnel::None {
            say(hop::TUNNEL, request.tunnel.as_str());
        }
        spans.push(span);
    }
    spans
}

/// Times from the point before: a device, or else the process that asks. All are of one clock.
fn times(set: &mut impl FnMut(&'static str, u64), hop: &Hop, before: Option<&Hop>, of: &Span) {
    let asks = of.tap == TapSide::ClientProcess;
    let (sent, answered) = match before {
        Some(before) => (before.request.first_ns, before.response.as_ref().map(|r| r.first_ns)),
        None if asks => (of.start_ns, Some(of.response_ns).filter(|ns| *ns > 0)),
        None => return,
    };
    set(hop::REQUEST, hop.request.first_ns.saturating_sub(sent));
    set(hop::REQUEST_ERROR, 0);
    if let (Some(answered), Some(response), Some(behind)) = (answered, &hop.response, hop.round_trip_ns()) {
        set(hop::ROUND_TRIP, answered.saturating_sub(sent).saturating_sub(behind));
        set(hop::RESPONSE, answered.saturating_sub(response.first_ns));
        set(hop::RESPONSE_ERROR, 0);
    }
    let Some(before) = before else { return };
    let there = before.request.bytes.saturating_sub(hop.request.bytes);
    let back = hop.response.as_ref().zip(before.response.as_ref()).map_or(0, |(h, b)| h.bytes.saturating_sub(b.bytes));
    if there + back > 0 {
        set(hop::LOST_BYTES, there + back);
    }
}

/// The same for the same request at the same device.
fn id(of: &Span, at: &Passing) -> SpanId {
    let parts: [&[u8]; 4] = [b"hop", &of.id.0.to_le_bytes(), &at.netns.to_le_bytes(), at.device.as_bytes()];
    SpanId(wirespan_model::key::hash64(&parts).max(1))
}

#[cfg(test)]
mod tests;
