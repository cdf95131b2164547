//! An HTTP server that slow or idle clients cannot fill.
//!
//! A listener has a number of slots. A connection takes one when it is accepted, and gives it back in four ways: it
//! ends; it has sent no complete request for [`Limits::first_request`]; it has been idle for [`Limits::idle`]; or a new
//! connection needs the slot, and of all connections that wait for a request this one has waited longest. So a client
//! that opens connections and sends nothing disturbs nobody, whatever its address. Only connections that are being
//! answered cannot be displaced: their number is bounded by the handlers. Each address may have half of the slots;
//! loopback, where all clients share one address, may have all.

use hyper::body::{Body, Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustc_hash::FxHashMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How often connections are looked at that wait for too long.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Limits of a listener.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Most connections.
    pub connections: usize,
    /// Time until the first request of a connection is complete, and for the head of each.
    pub first_request: Duration,
    /// Time that a connection may be idle between two requests.
    pub idle: Duration,
}

impl Limits {
    /// At most this many connections; 10 seconds for the first request, 5 minutes between two.
    pub fn new(connections: usize) -> Limits {
        Limits { connections, first_request: Duration::from_secs(10), idle: Duration::from_secs(300) }
    }
}

/// Connections since the start, and now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Open now.
    pub open: u64,
    /// Closed because they sent no request in time.
    pub timed_out: u64,
    /// Closed because another connection needed the slot.
    pub displaced: u64,
    /// Closed at once because all slots, or those of the address, were being served.
    pub turned_away: u64,
}

/// One connection.
struct Conn {
    ip: IpAddr,
    /// Since when it waits for a request; `None` while one is answered.
    waits: Mutex<(Option<Instant>, bool)>,
    close: Notify,
}

impl Conn {
    /// Since when it waits, and whether it has had a request already.
    fn waits(&self) -> (Option<Instant>, bool) {
        *crate::lock(&self.waits)
    }
}

/// The connection of a request, for handlers that read a body: in the request's extensions.
#[derive(Clone)]
pub(crate) struct Serving(Arc<Conn>);

impl Serving {
    /// The body is still being read: the connection may be displaced.
    pub(crate) fn reads_body(&self) {
        *crate::lock(&self.0.waits) = (Some(Instant::now()), true);
    }

    /// The request is complete.
    pub(crate) fn is_complete(&self) {
        *crate::lock(&self.0.waits) = (None, true);
    }
}

/// The connections of some listeners that share their slots.
pub struct Connections {
    limits: Limits,
    open: Mutex<FxHashMap<u64, Arc<Conn>>>,
    next: AtomicU64,
    timed_out: AtomicU64,
    displaced: AtomicU64,
    turned_away: AtomicU64,
}

impl Connections {
    /// None yet.
    pub fn new(limits: Limits) -> Arc<Connections> {
        Arc::new(Connections {
            limits,
            open: Mutex::default(),
            next: AtomicU64::new(0),
            timed_out: AtomicU64::new(0),
            displaced: AtomicU64::new(0),
            turned_away: AtomicU64::new(0),
        })
    }

    /// Counts.
    pub fn counts(&self) -> ConnectionCounts {
        ConnectionCounts {
            open: crate::lock(&self.open).len() as u64,
            timed_out: self.timed_out.load(Relaxed),
            displaced: self.displaced.load(Relaxed),
            turned_away: self.turned_away.load(Relaxed),
        }
    }

    /// A slot for a new connection, if there is one or one can be made.
    fn enter(self: &Arc<Self>, ip: IpAddr) -> Option<Slot> {
        let mut open = crate::lock(&self.open);
        let share = if ip.to_canonical().is_loopback() { usize::MAX } else { self.limits.connections.div_ceil(2) };
        let of_address = open.values().filter(|c| c.ip == ip).count() >= share;
        if of_address || open.len() >= self.limits.connections {
            let waiting = open.iter().filter(|(_, c)| !of_address || c.ip == ip);
            let longest = waiting.filter_map(|(id, c)| c.waits().0.map(|since| (since, *id))).min();
            let Some((_, id)) = longest else {
                self.turned_away.fetch_add(1, Relaxed);
                return None;
            };
            if let Some(conn) = open.remove(&id) {
                self.displaced.fetch_add(1, Relaxed);
                conn.close.notify_one();
            }
        }
        let id = self.next.fetch_add(1, Relaxed);
        let conn = Arc::new(Conn { ip, waits: Mutex::new((Some(Instant::now()), false)), close: Notify::new() });
        open.insert(id, conn.clone());
        Some(Slot { all: self.clone(), id, conn })
    }

    /// Closes the connections that have waited for too long.
    fn close_slow(&self) {
        crate::lock(&self.open).retain(|_, conn| {
            let (since, served) = conn.waits();
            let patience = if served { self.limits.idle } else { self.limits.first_request };
            let slow = since.is_some_and(|since| since.elapsed() >= patience);
            if slow {
                self.timed_out.fetch_add(1, Relaxed);
                conn.close.notify_one();
            }
            !slow
        });
    }
}

/// The place of one connection.
struct Slot {
    all: Arc<Connections>,
    id: u64,
    conn: Arc<Conn>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        crate::lock(&self.all.open).remove(&self.id);
    }
}

/// Serves HTTP/1 and HTTP/2 until it is dropped.
pub async fn serve<F, B>(
    listener: TcpListener,
    connections: Arc<Connections>,
    handle: impl Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
) where
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut look = tokio::time::interval(LOOK_EVERY);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = look.tick() => {
                connections.close_slow();
                continue;
            }
        };
        let Ok((stream, peer)) = accepted else {
            // The process may have no file descriptors left.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Some(slot) = connections.enter(peer.ip()) else { continue };
        let _ = stream.set_nodelay(true);
        let (handle, head) = (handle.clone(), connections.limits.first_request);
        tokio::spawn(async move {
            let mut builder = auto::Builder::new(TokioExecutor::new());
            // The time between two requests is bounded above; this bounds the head of each.
            builder.http1().timer(TokioTimer::new()).header_read_timeout(slot.all.limits.idle.max(head));
            builder
                .http2()
                .timer(TokioTimer::new())
                .max_concurrent_streams(64)
                .keep_alive_interval(Duration::from_secs(30))
                .keep_alive_timeout(head);
            let conn = slot.conn.clone();
            let service = service_fn(|mut request: Request<Incoming>| {
                *crate::lock(&conn.waits) = (None, true);
                request.extensions_mut().insert(Serving(conn.clone()));
                let (answer, conn) = (handle(request), conn.clone());
                async move {
                    let response = answer.await;
                    *crate::lock(&conn.waits) = (Some(Instant::now()), true);
                    Ok::<_, Infallible>(response)
                }
            });
            tokio::select! {
                // An error on a connection is the client's to handle.
                _ = builder.serve_connection(TokioIo::new(stream), service) => {}
                () = slot.conn.close.notified() => {}
            }
        });
    }
}
