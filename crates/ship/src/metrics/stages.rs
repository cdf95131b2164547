//! The counters of this crate's own stages.

use super::{stage, Writer};
use crate::link::{ReceiverStatus, SenderState, SenderStatus};
use crate::otlp::{ExportStatus, MetricsStatus, ReceiveStatus};

fn named(fixed: &[(&str, u64)], dropped: impl IntoIterator<Item = (&'static str, u64)>) -> Vec<(String, u64)> {
    let fixed = fixed.iter().map(|(name, n)| (name.to_string(), *n));
    fixed.chain(dropped.into_iter().map(|(reason, n)| (format!("dropped_{reason}"), n))).collect()
}

impl SenderStatus {
    fn losses(&self) -> [(&'static str, u64); 4] {
        [
            ("queue_full", self.dropped_queue),
            ("backlog_full", self.dropped_backlog),
            ("too_big", self.dropped_too_big),
            ("closed", self.dropped_closed),
        ]
    }

    /// Writes the counters as stage `link-send`.
    pub fn write(&self, w: &mut Writer) {
        stage(w, "link-send", self.offered, self.acked, self.losses());
        let up = f64::from(u8::from(matches!(self.state, SenderState::Connected | SenderState::Held(_))));
        w.gauge("wirespan_link_connected", "Whether the server is connected", &[], up);
        w.gauge("wirespan_link_backlog_bytes", "Encoded batches not acknowledged", &[], self.backlog_bytes as f64);
        w.counter("wirespan_link_connects_total", "Connections to the server", &[], self.connects);
        w.counter("wirespan_link_sent_bytes_total", "Bytes sent to the server", &[], self.sent_bytes);
    }
}

impl ReceiverStatus {
    /// Writes the counters as stage `link-receive`, and the counters that each agent reported.
    pub fn write(&self, w: &mut Writer) {
        stage(w, "link-receive", self.spans, self.spans, self.dropped.iter().copied());
        let help = "Batches that were sent twice, and skipped";
        w.counter("wirespan_link_repeated_batches_total", help, &[], self.repeated_batches);
        for agent in &self.agents {
            let pid = agent.agent.pid.to_string();
            let labels = [("host_name", agent.agent.host.as_str()), ("pid", &pid)];
            let up = f64::from(u8::from(agent.connected));
            w.gauge("wirespan_agent_connected", "Whether an agent is connected", &labels, up);
            w.counter("wirespan_agent_spans_total", "Spans taken from an agent", &labels, agent.spans);
            for (name, value) in &agent.report {
                let labels = [labels[0], labels[1], ("counter", name.as_str())];
                w.gauge("wirespan_agent_report", "Counters of an agent, as last reported", &labels, *value as f64);
            }
        }
    }
}

impl MetricsStatus {
    /// The counters by name.
    pub fn counters(&self) -> Vec<(String, u64)> {
        named(&[("points_exported", self.points), ("points_dropped", self.dropped), ("retries", self.retries)], [])
    }
}

impl ExportStatus {
    /// The counters by name, losses as `dropped_REASON`.
    pub fn counters(&self) -> Vec<(String, u64)> {
        let fixed = [
            ("spans_in", self.offered),
            ("spans_exported", self.exported),
            ("spans_queued", self.queued),
            ("retries", self.retries),
        ];
        named(&fixed, self.dropped.iter().map(|(r, n)| (*r, *n)))
    }

    /// Writes the counters as stage `otlp-export`.
    pub fn write(&self, w: &mut Writer) {
        stage(w, "otlp-export", self.offered, self.exported, self.dropped.iter().map(|(r, n)| (*r, *n)));
        w.gauge("wirespan_otlp_export_queued", "Spans waiting for the collector", &[], self.queued as f64);
        w.counter("wirespan_otlp_export_retries_total", "Requests repeated", &[], self.retries);
    }
}

impl ReceiveStatus {
    /// The counters by name, losses as `dropped_REASON`.
    pub fn counters(&self) -> Vec<(String, u64)> {
        let c = &self.connections;
        let fixed = [
            ("requests", self.requests),
            ("spans", self.spans),
            ("spans_deferred", self.deferred),
            ("connections_open", c.open),
            ("connections_timed_out", c.timed_out),
            ("connections_displaced", c.displaced),
            ("connections_turned_away", c.turned_away),
        ];
        named(&fixed, self.dropped.iter().map(|(r, n)| (*r, *n)))
    }

    /// Writes the counters as stage `otlp-receive`.
    pub fn write(&self, w: &mut Writer) {
        stage(w, "otlp-receive", self.spans, self.spans, self.dropped.iter().map(|(r, n)| (*r, *n)));
        w.counter("wirespan_otlp_receive_requests_total", "Requests answered with success", &[], self.requests);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Registry;

    #[test]
    fn losses_are_named_in_both_forms() {
        let status = SenderStatus { offered: 9, acked: 4, dropped_backlog: 5, ..SenderStatus::default() };
        assert!(status.counters().contains(&("spans_dropped_backlog", 5)));
        let receive = ReceiveStatus { spans: 2, dropped: [("malformed", 1)].into(), ..ReceiveStatus::default() };
        let counters = receive.counters();
        assert!(counters.contains(&("spans".into(), 2)) && counters.contains(&("dropped_malformed".into(), 1)));
        let registry = Registry::new();
        registry.add(move |w| {
            status.write(w);
            receive.write(w);
        });
        let text = registry.render();
        for line in [
            r#"wirespan_stage_dropped_total{stage="link-send",reason="backlog_full"} 5"#,
            r#"wirespan_stage_out_total{stage="link-send"} 4"#,
            r#"wirespan_stage_dropped_total{stage="otlp-receive",reason="malformed"} 1"#,
            "wirespan_link_connected 0",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
