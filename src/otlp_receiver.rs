//! Spans that SDKs send: OTLP, received where the configuration says. They name their parents: no cause is inferred.

use crate::config::Serve;
use crate::counters::Counters;
use crate::descriptors::Slots;
use anyhow::{Context as _, Result};
use std::net::SocketAddr;
use wirespan_ship::otlp::receive::{OtlpReceiver, ReceiveConfig};
use wirespan_ship::{Hosts, Sink};

/// A receiver, none as none was asked for, or why there is none: the port may belong to a collector, and tracing
/// matters more.
pub(crate) struct Otlp(Result<Option<OtlpReceiver>>);

impl Otlp {
    pub(crate) fn start(config: &Serve, slots: &Slots, sink: Sink) -> Self {
        Otlp(receive(config, slots, sink))
    }

    /// Says on stderr where it listens.
    pub(crate) fn announce(&self) {
        match &self.0 {
            Ok(Some(otlp)) => {
                let addresses: Vec<_> = otlp.local_addrs().iter().map(ToString::to_string).collect();
                eprintln!("wirespan: OTLP on {}", addresses.join(" and "));
            }
            Ok(None) => {}
            Err(error) => eprintln!("wirespan: no OTLP is received: {}", crate::failure::words(error)),
        }
    }

    pub(crate) fn publish(&self, counters: &Counters) {
        if let Ok(Some(otlp)) = &self.0 {
            counters.set("otlp-receive", otlp.status().counters());
        }
    }
}

fn receive(config: &Serve, slots: &Slots, sink: Sink) -> Result<Option<OtlpReceiver>> {
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
    let hosts = Hosts::named(config.hosts.iter().cloned());
    let limits = ReceiveConfig { max_connections: slots.otlp, hosts, ..ReceiveConfig::new(listen) };
    let receiver = OtlpReceiver::start(limits, sink);
    Ok(Some(receiver.with_context(|| format!("receiving OTLP on {}", words.join(" and ")))?))
}
