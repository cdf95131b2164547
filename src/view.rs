//! The view in a process that has a store: the UI and the query API, served over HTTP.

use crate::config::Serve;
use crate::counters::Counters;
use crate::descriptors::Slots;
use anyhow::{Context as _, Result};
use std::io::Read as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use wirespan_ship::http::{Connections, Limits};
use wirespan_store::Store;
use wirespan_view::{AgentStatus, FleetSource, Hosts, PacketSource, ViewState, WhySource};

/// How long the end waits for requests that are being answered.
const SHUTDOWN_WAIT: Duration = Duration::from_millis(500);

/// A running view. Ends when dropped.
pub(crate) struct View {
    runtime: Option<tokio::runtime::Runtime>,
    stop: Option<oneshot::Sender<()>>,
    /// Where it listens.
    addr: SocketAddr,
    /// The secret that it asks for; empty for none.
    token: String,
}

/// What the view shows besides counters and the store.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    /// Only status, metrics and health are served: the process shows no spans.
    pub(crate) status_only: bool,
    /// Subcommand.
    pub(crate) mode: &'static str,
    /// The targets, in words.
    pub(crate) targets: String,
    /// Missing features.
    pub(crate) notes: Vec<String>,
    /// Whether traces show drivers' housekeeping.
    pub(crate) housekeeping: bool,
}

/// Orders of users that the process carries out.
#[derive(Clone, Default)]
pub(crate) struct Orders {
    pub(crate) why: Option<Arc<WhySource>>,
    pub(crate) packets: Option<Arc<dyn PacketSource>>,
    pub(crate) fleet: Option<Arc<dyn FleetSource>>,
}

impl View {
    /// Serves the view of this store at `addr`. A port that is taken is an error that says so.
    pub(crate) fn serve(
        config: &Serve,
        store: Arc<dyn Store>,
        counters: Arc<Counters>,
        about: About,
        orders: Orders,
    ) -> Result<View> {
        let (addr, slots) = (config.ui, Slots::of_this_process());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("view")
            .enable_all()
            .build()
            .context("starting the view")?;
        let listener = runtime.block_on(TcpListener::bind(addr)).with_context(|| match about.status_only {
            true => format!("serving the status on {addr}: give another address with --status"),
            false => format!("serving the UI on {addr}: give another address with --ui, or --no-ui"),
        })?;
        let addr = listener.local_addr()?;
        let mut token = config.ui_token.clone();
        if token.is_empty() && !addr.ip().is_loopback() {
            token = random_token().context("making a token for the UI")?;
            let (what, set_by) = match about.status_only {
                true => ("status", "serve.ui_token"),
                false => ("UI", "--ui-token"),
            };
            eprintln!(
                "wirespan: the {what} on {addr} can be reached from other machines: it asks for the token in its \
                address below ({set_by} sets one), and nothing is encrypted"
            );
        }
        let (metrics, status_only) = (Arc::clone(&counters), about.status_only);
        let status = move || AgentStatus {
            mode: about.mode.to_string(),
            targets: about.targets.clone(),
            notes: counters.notes().into_iter().chain(about.notes.iter().cloned()).collect(),
            stages: counters.stages(),
            memory: crate::memory::taken(),
        };
        let state = ViewState::new(store)
            .with_housekeeping(about.housekeeping)
            .with_status(Arc::new(status))
            .with_metrics(Arc::new(move || metrics.prometheus()))
            .with_hosts(Hosts::named(config.hosts.iter().cloned()))
            .with_token(&token)
            .with_why(orders.why)
            .with_packets(orders.packets)
            .with_fleet(orders.fleet)
            .for_listener(addr);
        let (stop, stopped) = oneshot::channel::<()>();
        let connections = Connections::new(Limits::new(slots.ui));
        let router = if status_only { wirespan_view::status_router(state) } else { wirespan_view::router(state) };
        runtime.spawn(async move {
            let answer = move |request| {
                let router = router.clone();
                async move { wirespan_view::answer(&router, request).await }
            };
            tokio::select! {
                () = wirespan_ship::http::serve(listener, connections, answer) => {}
                _ = stopped => {}
            }
        });
        Ok(View { runtime: Some(runtime), stop: Some(stop), addr, token })
    }

    /// `http://ADDR/`, with the token if it asks for one.
    pub(crate) fn url(&self) -> String {
        match self.token.is_empty() {
            true => format!("http://{}/", self.addr),
            false => format!("http://{}/?token={}", self.addr, self.token),
        }
    }
}

/// 128 random bits as hexadecimal digits.
fn random_token() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

impl Drop for View {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(SHUTDOWN_WAIT);
        }
    }
}
