//! The server on one screen: receive → store → trace → view.

use crate::config::Serve;
use crate::counters::Counters;
use crate::outputs::Outputs;
use anyhow::{Context as _, Result};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use wirespan_ship::otlp::receive::{OtlpReceiver, ReceiveConfig};
use wirespan_store::Store;
use wirespan_view::{AgentStatus, ViewState};

/// A running view: the UI and the query API. Ends when dropped.
pub(crate) struct View {
    runtime: Option<tokio::runtime::Runtime>,
    stop: Option<oneshot::Sender<()>>,
    /// Where it listens.
    pub(crate) addr: SocketAddr,
}

/// Takes spans from agents and SDKs into the outputs.
pub(crate) fn sink(outputs: Arc<Mutex<Outputs>>) -> wirespan_ship::Sink {
    Arc::new(move |spans| match outputs.lock() {
        Ok(mut outputs) => {
            outputs.take(spans);
            Ok(())
        }
        Err(_) => Err(wirespan_ship::SinkError::Refused("the outputs are gone".into())),
    })
}

/// Takes flows from agents into the outputs.
pub(crate) fn flow_sink(outputs: Arc<Mutex<Outputs>>) -> wirespan_ship::FlowSink {
    Arc::new(move |flows| match outputs.lock() {
        Ok(mut outputs) => {
            outputs.take_flows(flows);
            Ok(())
        }
        Err(_) => Err(wirespan_ship::SinkError::Refused("the outputs are gone".into())),
    })
}

/// Receives OTLP where the configuration says; `None` if nowhere.
pub(crate) fn otlp(config: &Serve, outputs: Arc<Mutex<Outputs>>) -> Result<Option<OtlpReceiver>> {
    let addresses = [("serve.otlp_grpc", &config.otlp_grpc), ("serve.otlp_http", &config.otlp_http)];
    let listen = addresses
        .iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(key, text)| text.parse().with_context(|| format!("{key}: {text} is not an address like 127.0.0.1:4317")))
        .collect::<Result<Vec<SocketAddr>>>()?;
    if listen.is_empty() {
        return Ok(None);
    }
    let words: Vec<_> = listen.iter().map(ToString::to_string).collect();
    let receiver = OtlpReceiver::start(ReceiveConfig::new(listen), sink(outputs));
    Ok(Some(receiver.with_context(|| format!("receiving OTLP on {}", words.join(" and ")))?))
}

/// What the status page says besides counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    /// Subcommand.
    pub(crate) mode: &'static str,
    /// What is traced.
    pub(crate) targets: String,
    /// Missing features.
    pub(crate) notes: Vec<String>,
}

/// Serves the view of this store at `addr`; a port that is taken is an error that says so.
pub(crate) fn view(addr: SocketAddr, store: Arc<dyn Store>, counters: Arc<Counters>, about: About) -> Result<View> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("view")
        .enable_all()
        .build()
        .context("starting the view")?;
    let listener = runtime
        .block_on(TcpListener::bind(addr))
        .with_context(|| format!("serving the UI on {addr}: give another address with --ui, or --no-ui"))?;
    let addr = listener.local_addr()?;
    let metrics = Arc::clone(&counters);
    let status = move || AgentStatus {
        mode: about.mode.to_string(),
        targets: about.targets.clone(),
        notes: about.notes.clone(),
        stages: counters.stages(),
    };
    let state =
        ViewState::new(store).with_status(Arc::new(status)).with_metrics(Arc::new(move || metrics.prometheus()));
    let (stop, stopped) = oneshot::channel();
    runtime.spawn(async move {
        let shutdown = async {
            let _ = stopped.await;
        };
        if let Err(error) = wirespan_view::serve(listener, state, shutdown).await {
            tracing::error!(%error, "the UI has stopped");
        }
    });
    Ok(View { runtime: Some(runtime), stop: Some(stop), addr })
}

impl View {
    /// `http://ADDR/`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.addr)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(std::time::Duration::from_millis(500));
        }
    }
}
