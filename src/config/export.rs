//! Where to export to: the command line, then the configuration, then the environment variables of OpenTelemetry's
//! SDKs.

use super::{Config, OutputArgs};
use anyhow::{anyhow, bail, Context as _, Result};
use std::sync::Arc;
use std::time::Duration;
use wirespan_ship::metrics::SpanMetrics;
use wirespan_ship::otlp::export::{parse_protocol, ExportConfig, Signal};
use wirespan_ship::otlp::MetricsExporter;

/// Interval between exports of metrics; the SDKs have the same.
const USUAL_INTERVAL: Duration = Duration::from_secs(60);

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// The destination of spans; `None`: no export.
pub(crate) fn export_config(args: &OutputArgs, config: &Config) -> Result<Option<ExportConfig>> {
    to(Signal::Traces, args, config)
}

fn to(signal: Signal, args: &OutputArgs, config: &Config) -> Result<Option<ExportConfig>> {
    let endpoint = args.otlp_endpoint.as_deref().unwrap_or(&config.export.otlp_endpoint);
    if endpoint.is_empty() {
        return Ok(ExportConfig::from_env(signal, variable)?);
    }
    let protocol = match config.export.otlp_protocol.as_str() {
        "" => None,
        text => Some(parse_protocol(text).map_err(|e| anyhow!("export.otlp_protocol: {e}"))?),
    };
    let mut export = ExportConfig::of(signal, endpoint, protocol)?;
    export.headers.extend(config.export.otlp_headers.iter().map(|(k, v)| (k.clone(), v.clone())));
    Ok(Some(export))
}

/// Exports the metrics of the dependency map, if the configuration says so.
pub(crate) fn metrics_exporter(
    args: &OutputArgs,
    config: &Config,
    metrics: &Arc<SpanMetrics>,
) -> Result<Option<MetricsExporter>> {
    let seconds = config.export.otlp_metrics_s;
    let by_environment = variable("OTEL_METRICS_EXPORTER").is_some_and(|v| v.trim() == "otlp")
        || variable("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT").is_some();
    if !args.otlp_metrics && seconds == 0 && !by_environment {
        return Ok(None);
    }
    let Some(export) = to(Signal::Metrics, args, config)? else {
        bail!("nowhere to export metrics to: give --otlp-endpoint URL");
    };
    let interval = match (seconds, variable("OTEL_METRIC_EXPORT_INTERVAL")) {
        (0, None) => USUAL_INTERVAL,
        (0, Some(text)) => match text.trim().parse() {
            Ok(ms) if ms > 0 => Duration::from_millis(ms),
            _ => bail!("OTEL_METRIC_EXPORT_INTERVAL: {text:?} is not a number of milliseconds"),
        },
        (seconds, _) => Duration::from_secs(seconds),
    };
    let (url, metrics) = (export.url.clone(), Arc::clone(metrics));
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let exporter = MetricsExporter::start(export, interval, &host, move |w| metrics.write_map(w));
    Ok(Some(exporter.with_context(|| format!("OTLP export of metrics to {url}"))?))
}
