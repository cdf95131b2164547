//! Calls by which SDKs and agents export telemetry. They are traffic of the observation, not of the application.

use std::sync::Arc;
use wirespan_model::Span;

/// Paths to which OTLP, Zipkin and Jaeger post, at the end of a URL's path.
const PATHS: [&str; 6] =
    ["/v1/traces", "/v1/metrics", "/v1/logs", "/v1development/profiles", "/api/v2/spans", "/api/traces"];
/// Begin of the gRPC methods of OTLP.
const METHODS: &str = "/opentelemetry.proto.collector.";

/// Leaves out exports of telemetry, and counts them.
#[derive(Debug, Default)]
pub(super) struct WithoutTelemetry {
    pub(super) left_out: u64,
}

impl WithoutTelemetry {
    pub(super) fn filter(&mut self, mut batch: Vec<Arc<Span>>) -> Vec<Arc<Span>> {
        let before = batch.len();
        batch.retain(|span| !exports_telemetry(span));
        self.left_out += (before - batch.len()) as u64;
        batch
    }
}

fn exports_telemetry(span: &Span) -> bool {
    let by_http = &*span.operation == "POST" && PATHS.iter().any(|path| span.target.ends_with(path));
    by_http || span.target.starts_with(METHODS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_out(operation: &str, target: &str) -> bool {
        let span = Span { operation: operation.into(), target: target.into(), ..Span::default() };
        let mut without = WithoutTelemetry::default();
        without.filter(vec![Arc::new(span)]).is_empty() && without.left_out == 1
    }

    #[test]
    fn exports_are_left_out_and_other_calls_are_not() {
        assert!(left_out("POST", "/v1/traces"));
        assert!(left_out("POST", "/otlp/v1/metrics"));
        assert!(left_out("POST", "/api/v2/spans"));
        assert!(left_out("POST", "/opentelemetry.proto.collector.trace.v1.TraceService/Export"));
        assert!(!left_out("GET", "/api/traces"), "a query of Jaeger's");
        assert!(!left_out("POST", "/v1/tracesome"));
    }
}
