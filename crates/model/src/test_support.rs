//! Spans and packets for tests: [`SpanBuilder`] and [`sighting`] fill the fields that a test does not care about.
//!
//! Compiled for tests only: crates enable the feature `test-support` in their dev-dependencies.

use crate::attr::Value;
use crate::net::{Endpoint, FiveTuple, Transport};
use crate::packet::{Point, Route, Sighting, Tunnel};
use crate::span::{ExchangeRange, Resource, Span, SpanId, SpanKind, Status, TapSide};
use crate::trace::Evidence;
use std::borrow::Cow;
use std::sync::Arc;

/// The way from 10.0.0.1, port 40000, to 10.0.0.2, port 80.
pub fn route(protocol: u8) -> Route {
    let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    Route { source, destination, source_port: 40_000, destination_port: 80, protocol }
}

/// `len` bytes from `seq` on, on that [`route`], in the queue of `eth0` in namespace 1, at time 0.
pub fn sighting(protocol: u8, seq: u32, len: u32) -> Sighting {
    Sighting {
        time_ns: 0,
        point: Point::Queue,
        netns: 1,
        ifindex: 2,
        device: "eth0".into(),
        function: "".into(),
        cpu: 0,
        route: route(protocol),
        seq,
        len,
        hash: 0,
        flags: 0,
        tunnel: Tunnel::None,
        fragment: false,
        reason: 0,
        queue_len: 0,
        headers: None,
        was: None,
        stack: [].into(),
    }
}

/// Builds a span. Without further calls it is `GET /`, answered with 200 within 1 ms after the epoch.
#[derive(Clone, Debug)]
pub struct SpanBuilder {
    span: Span,
}

impl SpanBuilder {
    /// A span at a tap side. Its kind is server at [`TapSide::ServerProcess`], else client.
    pub fn at(id: u64, tap: TapSide) -> Self {
        let kind = if tap == TapSide::ServerProcess { SpanKind::Server } else { SpanKind::Client };
        SpanBuilder {
            span: Span {
                id: SpanId(id),
                tap,
                kind,
                protocol: "http".into(),
                operation: "GET".into(),
                target: "/".into(),
                start_ns: 0,
                end_ns: 1_000_000,
                status: Status::Ok,
                status_code: Some(200),
                ..Span::default()
            },
        }
    }

    /// A span at the sockets of the calling process.
    pub fn client(id: u64) -> Self {
        SpanBuilder::at(id, TapSide::ClientProcess)
    }

    /// A span at the sockets of the called process.
    pub fn server(id: u64) -> Self {
        SpanBuilder::at(id, TapSide::ServerProcess)
    }

    /// Sets the protocol, the operation and the target.
    pub fn request(mut self, protocol: &'static str, operation: &str, target: &str) -> Self {
        self.span.protocol = Cow::Borrowed(protocol);
        self.span.operation = operation.into();
        self.span.target = target.into();
        self
    }

    /// Sets the outcome and the protocol's numeric status.
    pub fn status(mut self, status: Status, code: impl Into<Option<i32>>) -> Self {
        self.span.status = status;
        self.span.status_code = code.into();
        self
    }

    /// Sets the times of the first and the last byte, Unix ns.
    pub fn time(mut self, start_ns: u64, end_ns: u64) -> Self {
        (self.span.start_ns, self.span.end_ns) = (start_ns, end_ns);
        self
    }

    /// Sets the time of the response's first byte, Unix ns.
    pub fn response_at(mut self, response_ns: u64) -> Self {
        self.span.response_ns = response_ns;
        self
    }

    /// Sets the lengths of request and response, bytes.
    pub fn bytes(mut self, request: u64, response: u64) -> Self {
        (self.span.request_bytes, self.span.response_bytes) = (request, response);
        self
    }

    /// Sets the process, its thread, and the thread's name.
    pub fn process(mut self, pid: u32, tid: u32, comm: &str) -> Self {
        (self.span.pid, self.span.tid) = (pid, tid);
        self.span.comm = comm.into();
        self
    }

    /// Sets the host id.
    pub fn host(mut self, host_id: u64) -> Self {
        self.span.host_id = host_id;
        self
    }

    /// Sets the service name of a resource that has no other attributes.
    pub fn service(self, name: &str) -> Self {
        self.resource(Arc::new(Resource { service: name.into(), ..Resource::default() }))
    }

    /// Sets the resource.
    pub fn resource(mut self, resource: Arc<Resource>) -> Self {
        self.span.resource = resource;
        self
    }

    /// Sets the ends of a TCP connection: the client's and the server's IPv4 address and port.
    pub fn ends(mut self, client: ([u8; 4], u16), server: ([u8; 4], u16)) -> Self {
        let end = |(ip, port): ([u8; 4], u16)| Endpoint::new(ip.into(), port);
        self.span.tuple = FiveTuple { transport: Transport::Tcp, client: end(client), server: end(server) };
        self
    }

    /// Sets the TCP sequence numbers of the first bytes of request and response.
    pub fn sequence(mut self, request: impl Into<Option<u32>>, response: impl Into<Option<u32>>) -> Self {
        (self.span.request_seq, self.span.response_seq) = (request.into(), response.into());
        self
    }

    /// Sets the exchanges that the span owns: `first..=last`.
    pub fn exchange(mut self, first: u64, last: u64) -> Self {
        self.span.exchange = Some(ExchangeRange { first, last });
        self
    }

    /// Sets the cause and its evidence.
    pub fn cause(mut self, cause: u64, evidence: Evidence) -> Self {
        (self.span.cause, self.span.cause_evidence) = (Some(cause), Some(evidence));
        self
    }

    /// Adds an attribute.
    pub fn attr(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        self.span.attrs.push((Cow::Borrowed(key), value.into()));
        self
    }

    /// The span. A field without a method of its own is set on the result.
    pub fn build(self) -> Span {
        self.span
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_follows_the_tap_side() {
        assert_eq!(SpanBuilder::server(1).build().kind, SpanKind::Server);
        let client = SpanBuilder::client(2).build();
        assert_eq!((client.id, client.kind, client.name()), (SpanId(2), SpanKind::Client, "GET /".to_owned()));
    }
}
