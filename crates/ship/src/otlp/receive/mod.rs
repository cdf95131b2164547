//! OTLP receiver: SDK spans → [`Span`](wirespan_model::Span)s with `TapSide::App`.
//!
//! Every listener speaks both OTLP/gRPC and OTLP/HTTP (protobuf and JSON, plain or gzip), so a client that took the
//! wrong port still works. A request is answered when the sink has taken its spans: success means stored. Bad input is
//! answered with OTLP's errors and counted. A sink that is busy, or does not answer in time, is answered with 503 or
//! `RESOURCE_EXHAUSTED` and the time after which SDKs try again: they keep the spans.
//!
//! Bounds: body size, bytes of all bodies, requests at once, connections, time for headers and body
//! ([`ReceiveConfig`]). A listener on loopback answers only requests for loopback names, so that no page in a browser
//! can send spans by a name that it makes resolve to 127.0.0.1.

mod answer;
mod convert;

use crate::http::{self, ConnectionCounts, Connections, Limits, Serving};
use crate::{Hosts, Sink};
use answer::{Body, Failure};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::{header, Method, Request, Response};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{oneshot, OwnedSemaphorePermit, Semaphore};

/// Usual port of OTLP over gRPC.
pub const GRPC_PORT: u16 = 4317;
/// Usual port of OTLP over HTTP.
pub const HTTP_PORT: u16 = 4318;
/// Path of traces over HTTP.
pub(crate) const HTTP_PATH: &str = "/v1/traces";

/// Limits of a receiver. Memory is at most about `max_requests × max_body × 3`.
#[derive(Clone, Debug)]
pub struct ReceiveConfig {
    /// Addresses to listen on; usually one with port 4317 and one with 4318.
    pub listen: Vec<SocketAddr>,
    /// Longest request, bytes, before and after decompression.
    pub max_body: usize,
    /// Most bytes of all bodies that are being read; clients of further requests are asked to retry.
    pub max_reading: usize,
    /// Most requests handled at once; clients of further requests are asked to retry.
    pub max_requests: usize,
    /// Most connections of all listeners.
    pub max_connections: usize,
    /// Time for the headers and for the body of a request.
    pub read_timeout: Duration,
    /// Longest time for which a client waits for the sink.
    pub sink_timeout: Duration,
    /// Names for which a listener on loopback answers, besides loopback's own (without port).
    pub hosts: Hosts,
    /// Spans exported under this id are rejected, because they would go round for ever. Usually the
    /// [`instance_id`](super::instance_id) of this process.
    pub own_instance: String,
}

impl ReceiveConfig {
    /// Usual limits: 16 MiB for a body and 64 for all, 16 requests, 1,024 connections, 10 seconds.
    pub fn new(listen: Vec<SocketAddr>) -> Self {
        ReceiveConfig {
            listen,
            max_body: 16 << 20,
            max_reading: 64 << 20,
            max_requests: 16,
            max_connections: 1024,
            read_timeout: Duration::from_secs(10),
            // Exporters of SDKs give up after ten seconds.
            sink_timeout: Duration::from_secs(8),
            hosts: Hosts::loopback(),
            own_instance: super::instance_id().into(),
        }
    }
}

/// Counts since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiveStatus {
    /// Requests answered with success, partial success included.
    pub requests: u64,
    /// Spans that the sink took.
    pub spans: u64,
    /// Spans of requests that were refused because the sink was busy: their clients have them, and try again.
    pub deferred: u64,
    /// Requests refused, and spans and parts of spans left out, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Connections.
    pub connections: ConnectionCounts,
}

struct Inner {
    config: ReceiveConfig,
    sink: Sink,
    requests: Arc<Semaphore>,
    reading: Arc<Semaphore>,
    connections: Arc<Connections>,
    deferred: AtomicU64,
    answered: AtomicU64,
    spans: AtomicU64,
    dropped: Mutex<BTreeMap<&'static str, u64>>,
}

/// Receives OTLP until it is dropped.
pub struct OtlpReceiver {
    addrs: Vec<SocketAddr>,
    inner: Arc<Inner>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl OtlpReceiver {
    /// Listens and serves on a thread of its own. Errors: an address cannot be had.
    pub fn start(config: ReceiveConfig, sink: Sink) -> std::io::Result<OtlpReceiver> {
        let mut listeners = Vec::new();
        for addr in &config.listen {
            let listener = TcpListener::bind(addr)
                .map_err(|e| std::io::Error::new(e.kind(), format!("OTLP receiver on {addr}: {e}")))?;
            listener.set_nonblocking(true)?;
            listeners.push(listener);
        }
        let addrs = listeners.iter().map(TcpListener::local_addr).collect::<Result<_, _>>()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(4)
            .thread_name("otlp-in")
            .enable_all()
            .build()?;
        let inner = Arc::new(Inner {
            requests: Arc::new(Semaphore::new(config.max_requests)),
            reading: Arc::new(Semaphore::new(config.max_reading.min(Semaphore::MAX_PERMITS))),
            connections: Connections::new(Limits {
                first_request: config.read_timeout,
                ..Limits::new(config.max_connections)
            }),
            deferred: AtomicU64::new(0),
            config,
            sink,
            answered: AtomicU64::new(0),
            spans: AtomicU64::new(0),
            dropped: Mutex::default(),
        });
        let (stop, stopped) = oneshot::channel();
        let serving = inner.clone();
        let thread = std::thread::Builder::new().name("otlp-in".into()).spawn(move || {
            runtime.block_on(async {
                for listener in listeners {
                    let loopback = listener.local_addr().is_ok_and(|addr| addr.ip().is_loopback());
                    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { continue };
                    let inner = serving.clone();
                    let handle = move |request| {
                        let inner = inner.clone();
                        async move { inner.serve(request, loopback).await }
                    };
                    tokio::spawn(http::serve(listener, serving.connections.clone(), handle));
                }
                let _ = stopped.await;
            });
            runtime.shutdown_timeout(Duration::from_secs(2));
        })?;
        Ok(OtlpReceiver { addrs, inner, stop: Some(stop), thread: Some(thread) })
    }

    /// Addresses listened on, in the order of the configuration.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.addrs
    }

    /// Counts.
    pub fn status(&self) -> ReceiveStatus {
        ReceiveStatus {
            requests: self.inner.answered.load(Relaxed),
            spans: self.inner.spans.load(Relaxed),
            deferred: self.inner.deferred.load(Relaxed),
            dropped: self.inner.dropped.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            connections: self.inner.connections.counts(),
        }
    }
}

impl Drop for OtlpReceiver {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The encoding of a request and of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Grpc,
    Protobuf,
    Json,
}

impl Inner {
    async fn serve(self: &Arc<Self>, request: Request<Incoming>, loopback: bool) -> Response<Body> {
        let media = header_text(&request, header::CONTENT_TYPE).unwrap_or("");
        let encoding = match media.split([';', '+']).next().unwrap_or("").trim() {
            super::grpc::CONTENT_TYPE => Encoding::Grpc,
            "application/x-protobuf" | "application/protobuf" => Encoding::Protobuf,
            "application/json" => Encoding::Json,
            // Check path and method first, because mistakes in them are the most frequent.
            _ => match route(&request, Encoding::Protobuf) {
                Err(failure) => return self.refuse(failure, Encoding::Json),
                Ok(()) => return self.refuse(Failure::MediaType(media.into()), Encoding::Json),
            },
        };
        if loopback && !self.config.hosts.accepts(host(&request)) {
            return self.refuse(Failure::Host, encoding);
        }
        match self.accept(request, encoding).await {
            Ok(response) => {
                self.answered.fetch_add(1, Relaxed);
                answer::success(&response, encoding)
            }
            Err(failure) => self.refuse(failure, encoding),
        }
    }

    fn refuse(&self, failure: Failure, encoding: Encoding) -> Response<Body> {
        self.count(failure.reason(), 1);
        answer::failure(&failure, encoding)
    }

    async fn accept(
        self: &Arc<Self>,
        request: Request<Incoming>,
        encoding: Encoding,
    ) -> Result<super::proto::ExportResponse, Failure> {
        route(&request, encoding)?;
        let compression = if encoding == Encoding::Grpc { "grpc-encoding" } else { "content-encoding" };
        let compression = header_text(&request, compression).map(String::from);
        let limit = self.config.max_body;
        let connection = request.extensions().get::<Serving>().cloned();
        if let Some(connection) = &connection {
            connection.reads_body();
        }
        let body = tokio::time::timeout(self.config.read_timeout, self.read(request.into_body(), limit + 5)).await;
        let (body, held) = body.unwrap_or(Err(Failure::Timeout))?;
        if let Some(connection) = &connection {
            connection.is_complete();
        }
        let busy = |_| Failure::Busy("too many requests at once".into());
        let permit = self.requests.clone().try_acquire_owned().map_err(busy)?;
        let inner = self.clone();
        // Decoding takes milliseconds and the sink may wait for a disk. The thread holds the permit: if the client is
        // no longer waited for, the work goes on and still takes its place.
        let work = tokio::task::spawn_blocking(move || {
            let _held = (permit, held);
            let message = answer::unpack(&body, encoding, compression.as_deref(), limit)?;
            let request = answer::parse(&message, encoding)?;
            drop(message);
            inner.take(request)
        });
        match tokio::time::timeout(self.config.sink_timeout, work).await {
            Ok(done) => done.unwrap_or(Err(Failure::Broken)),
            Err(_) => Err(Failure::Busy("the store does not answer".into())),
        }
    }

    /// Reads a body, and holds a place for each of its bytes. A client that sends slowly holds few.
    async fn read(&self, body: Incoming, limit: usize) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), Failure> {
        let mut body = Limited::new(body, limit);
        let (mut bytes, mut held) = (Vec::new(), None::<OwnedSemaphorePermit>);
        while let Some(frame) = body.frame().await {
            let frame = match frame {
                Err(e) if e.is::<http_body_util::LengthLimitError>() => {
                    return Err(Failure::TooLong(self.config.max_body))
                }
                Err(_) => return Err(Failure::Broken),
                Ok(frame) => frame,
            };
            let Ok(data) = frame.into_data() else { continue };
            let places = u32::try_from(data.len()).unwrap_or(u32::MAX);
            let more = self.reading.clone().try_acquire_many_owned(places);
            let more = more.map_err(|_| Failure::Busy("too many requests are being read".into()))?;
            match &mut held {
                Some(held) => held.merge(more),
                None => held = Some(more),
            }
            bytes.extend_from_slice(&data);
        }
        Ok((bytes, held))
    }

    fn take(&self, request: super::proto::ExportRequest) -> Result<super::proto::ExportResponse, Failure> {
        let mut converted = convert::convert(request, &self.config.own_instance);
        let spans = std::mem::take(&mut converted.spans);
        let n = spans.len() as u64;
        if n > 0 {
            match (self.sink)(spans) {
                Ok(()) => drop(self.spans.fetch_add(n, Relaxed)),
                Err(crate::SinkError::Busy(why)) => {
                    self.deferred.fetch_add(n, Relaxed);
                    return Err(Failure::Busy(why));
                }
                Err(crate::SinkError::Refused(_)) => converted.rejected.push(("refused by the store", n)),
            }
        }
        for (reason, n) in &converted.rejected {
            self.count(reason, *n);
        }
        self.count("event", converted.events_dropped);
        self.count("link", converted.links_dropped);
        let (rejected, why) = converted.rejection();
        let partial_success = (rejected > 0)
            .then_some(super::proto::PartialSuccess { rejected_spans: rejected as i64, error_message: why });
        Ok(super::proto::ExportResponse { partial_success })
    }

    fn count(&self, reason: &'static str, n: u64) {
        if n > 0 {
            *self.dropped.lock().unwrap_or_else(PoisonError::into_inner).entry(reason).or_default() += n;
        }
    }
}

fn route(request: &Request<Incoming>, encoding: Encoding) -> Result<(), Failure> {
    let path = if encoding == Encoding::Grpc { super::grpc::EXPORT_PATH } else { HTTP_PATH };
    if request.uri().path() != path {
        return Err(Failure::Path(request.uri().path().chars().take(128).collect()));
    }
    if request.method() != Method::POST {
        return Err(Failure::Method);
    }
    Ok(())
}

/// The host that a request names.
fn host(request: &Request<Incoming>) -> &str {
    header_text(request, header::HOST).or(request.uri().authority().map(|a| a.as_str())).unwrap_or_default()
}

fn header_text(request: &Request<Incoming>, name: impl header::AsHeaderName) -> Option<&str> {
    request.headers().get(name)?.to_str().ok()
}

/// Reads a body of at most 1 MiB as a request; see [`crate::fuzzed::otlp`].
#[cfg(feature = "fuzzed")]
pub(crate) fn fuzzed(how: u8, body: &[u8]) {
    const LIMIT: usize = 1 << 20;
    let encoding = [Encoding::Grpc, Encoding::Protobuf, Encoding::Json][usize::from(how) % 3];
    let compression = (how & 0x80 != 0).then_some("gzip");
    let Ok(message) = answer::unpack(body, encoding, compression, LIMIT) else { return };
    assert!(message.len() <= LIMIT);
    let Ok(request) = answer::parse(&message, encoding) else { return };
    let groups = request.resource_spans.iter().flat_map(|group| &group.scope_spans);
    let given: usize = groups.map(|scope| scope.spans.len()).sum();
    let mut text = Vec::new();
    super::json::write_request(&request, &mut text);
    assert!(super::json::read_request(&text).is_ok(), "{}", String::from_utf8_lossy(&text));
    let converted = convert::convert(request, "0");
    assert_eq!(converted.spans.len() + converted.rejection().0 as usize, given);
    super::encode_spans(&converted.spans);
}
