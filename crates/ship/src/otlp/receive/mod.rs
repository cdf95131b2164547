//! OTLP receiver: SDK spans → [`Span`](wirespan_model::Span)s with `TapSide::App`.
//!
//! Every listener speaks both OTLP/gRPC and OTLP/HTTP (protobuf and JSON, plain or gzip), so a client that took the
//! wrong port still works. A request is answered when the sink has taken its spans: success means stored. Bad input is
//! answered with OTLP's errors and counted; a sink that is busy is answered with "unavailable", which SDKs retry.
//!
//! Bounds: body size, requests at once, connections, time for headers and body ([`ReceiveConfig`]).

mod answer;
mod convert;

use crate::Sink;
use answer::{Body, Failure};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{header, Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{oneshot, Semaphore};

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
    /// Most requests handled at once; clients of further requests are asked to retry.
    pub max_requests: usize,
    /// Most connections; further connections wait in the kernel.
    pub max_connections: usize,
    /// Time for the headers and for the body of a request.
    pub read_timeout: Duration,
    /// Spans exported under this id are rejected, because they would go round for ever. Usually the
    /// [`instance_id`](super::instance_id) of this process.
    pub own_instance: String,
}

impl ReceiveConfig {
    /// Usual limits: 16 MiB, 16 requests, 1,024 connections, 10 seconds.
    pub fn new(listen: Vec<SocketAddr>) -> Self {
        ReceiveConfig {
            listen,
            max_body: 16 << 20,
            max_requests: 16,
            max_connections: 1024,
            read_timeout: Duration::from_secs(10),
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
    /// Requests refused, and spans and parts of spans left out, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
}

struct Inner {
    config: ReceiveConfig,
    sink: Sink,
    requests: Semaphore,
    connections: Arc<Semaphore>,
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
            requests: Semaphore::new(config.max_requests),
            connections: Arc::new(Semaphore::new(config.max_connections)),
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
                    tokio::spawn(accept(serving.clone(), listener));
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
            dropped: self.inner.dropped.lock().unwrap_or_else(PoisonError::into_inner).clone(),
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

async fn accept(inner: Arc<Inner>, listener: TcpListener) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    loop {
        let Ok(permit) = inner.connections.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // The process may have no file descriptors left.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let inner = inner.clone();
        tokio::spawn(async move {
            let _permit = permit;
            let mut builder = auto::Builder::new(TokioExecutor::new());
            builder.http1().timer(TokioTimer::new()).header_read_timeout(inner.config.read_timeout);
            builder
                .http2()
                .timer(TokioTimer::new())
                .max_concurrent_streams(64)
                .keep_alive_interval(Duration::from_secs(30))
                .keep_alive_timeout(inner.config.read_timeout);
            let service = service_fn(|request| {
                let inner = inner.clone();
                async move { Ok::<_, Infallible>(inner.serve(request).await) }
            });
            // An error on a connection is the client's to handle.
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        });
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
    async fn serve(self: &Arc<Self>, request: Request<Incoming>) -> Response<Body> {
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
        let _permit = self.requests.try_acquire().map_err(|_| Failure::Busy("too many requests at once".into()))?;
        let compression = if encoding == Encoding::Grpc { "grpc-encoding" } else { "content-encoding" };
        let compression = header_text(&request, compression).map(String::from);
        let limit = self.config.max_body;
        let body = Limited::new(request.into_body(), limit + 5).collect();
        let body = match tokio::time::timeout(self.config.read_timeout, body).await {
            Err(_) => return Err(Failure::Timeout),
            Ok(Err(e)) if e.is::<http_body_util::LengthLimitError>() => return Err(Failure::TooLong(limit)),
            Ok(Err(_)) => return Err(Failure::Broken),
            Ok(Ok(body)) => body.to_bytes(),
        };
        let inner = self.clone();
        // Decoding takes milliseconds and the sink may wait for a disk.
        let work = tokio::task::spawn_blocking(move || {
            let message = answer::unpack(&body, encoding, compression.as_deref(), limit)?;
            let request = answer::parse(&message, encoding)?;
            drop(message);
            inner.take(request)
        });
        work.await.unwrap_or(Err(Failure::Broken))
    }

    fn take(&self, request: super::proto::ExportRequest) -> Result<super::proto::ExportResponse, Failure> {
        let mut converted = convert::convert(request, &self.config.own_instance);
        let spans = std::mem::take(&mut converted.spans);
        let n = spans.len() as u64;
        if n > 0 {
            match (self.sink)(spans) {
                Ok(()) => drop(self.spans.fetch_add(n, Relaxed)),
                Err(crate::SinkError::Busy(why)) => return Err(Failure::Busy(why)),
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

fn header_text(request: &Request<Incoming>, name: impl header::AsHeaderName) -> Option<&str> {
    request.headers().get(name)?.to_str().ok()
}
