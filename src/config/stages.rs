//! From the configuration to the options of each stage.

use super::keys::Waits;
use super::Config;
use crate::flows::Rhythm;
use crate::slow::{Rule, Scoped, Slow, Want};
use anyhow::{anyhow, Result};
use std::time::Duration;
use wirespan_capture::{FlowOptions, Propagate};

/// Options of the capture. `WIRESPAN_RUNG` overrides the rung.
pub(crate) fn capture_options(config: &Config) -> Result<wirespan_capture::Options> {
    let c = &config.capture;
    let rung = std::env::var("WIRESPAN_RUNG").ok().or_else(|| Some(c.rung.clone())).filter(|r| !r.is_empty());
    let flows = FlowOptions { bundles: config.flows.bundles, sockets: config.flows.sockets };
    Ok(wirespan_capture::Options {
        payload_bytes: c.payload_bytes,
        young_bytes: c.young_kib << 10,
        ring_bytes: c.ring_mib.saturating_mul(1 << 20),
        rung,
        without: c.without.clone(),
        messages: c.messages,
        flows: config.flows.enabled.then_some(flows),
        hooks_from_start: c.hooks_from_start,
        programs_from_start: false,
        propagate_options: c.propagate_option,
        runtimes: c.runtimes,
        attach_java: c.attach_java,
        actors: c.actors,
        waits: slow(config)?.options(),
        propagate: Propagate::from_word(&c.propagate).map_err(|why| anyhow!("capture.propagate: {why}"))?,
        watched_ends: None,
    })
}

/// Which requests are slow.
pub(crate) fn slow(config: &Config) -> Result<Slow> {
    let waits = &config.waits;
    let mut rules = Vec::new();
    for of in &waits.endpoint {
        let rule = Rule::read(&of.threshold).map_err(|why| anyhow!("waits.endpoint.threshold: {why}"))?;
        rules.push(Scoped::of(&of.service, &of.endpoint, rule));
    }
    if !waits.threshold.trim().is_empty() {
        let rule = Rule::read(&waits.threshold).map_err(|why| anyhow!("waits.threshold: {why}"))?;
        rules.push(Scoped::general(rule));
    }
    let Waits { kernel_stack, user_stack, metrics, .. } = *waits;
    Ok(Slow::new(rules, waits.one_of, Want { kernel_stack, user_stack, metrics }))
}

/// When flows are drained, and how long a record's window is.
pub(crate) fn flow_rhythm(config: &Config) -> Rhythm {
    Rhythm {
        drain: Duration::from_millis(config.flows.drain_ms.max(10)),
        window: Duration::from_secs(config.flows.window_s),
    }
}

/// Limits of the join, and the protocols.
pub(crate) fn join_config(config: &Config) -> Result<wirespan_join::JoinConfig> {
    Ok(wirespan_join::JoinConfig {
        protocols: crate::protocols::registry(config)?,
        window_ns: config.join.window_s.saturating_mul(1_000_000_000),
        max_connections: config.join.max_connections,
        copy_bytes: config.capture.payload_bytes,
        ..wirespan_join::JoinConfig::default()
    })
}

/// Age and size at which the store forgets.
pub(crate) fn store_options(config: &Config) -> wirespan_store::Options {
    wirespan_store::Options {
        max_age: Duration::from_secs(config.store.max_age_h * 3600),
        max_bytes: config.store.max_mib << 20,
        ..wirespan_store::Options::default()
    }
}

/// What whole traces show.
pub(crate) fn stream_config(config: &Config) -> wirespan_trace::StreamConfig {
    wirespan_trace::StreamConfig { housekeeping: config.traces.housekeeping, ..wirespan_trace::StreamConfig::default() }
}

/// Bounds of the inference.
pub(crate) fn solver_config(config: &Config) -> wirespan_trace::SolverConfig {
    let c = &config.inference;
    wirespan_trace::SolverConfig {
        enabled: c.enabled,
        min_confidence: c.min_confidence,
        max_wait_ns: c.max_wait_s.saturating_mul(1_000_000_000),
        ..wirespan_trace::SolverConfig::default()
    }
}
