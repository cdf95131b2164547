//! What the view counts about itself.

use crate::shape::{Counter, Stage};
use std::sync::atomic::{AtomicU64, Ordering};

/// Requests by outcome, since the start.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    answered: AtomicU64,
    refused_token: AtomicU64,
    refused_host: AtomicU64,
    refused_method: AtomicU64,
    client_errors: AtomicU64,
    server_errors: AtomicU64,
    busy: AtomicU64,
}

impl Stats {
    pub(crate) fn count(&self, status: u16) {
        let counter = match status {
            401 => &self.refused_token,
            403 => &self.refused_host,
            405 => &self.refused_method,
            503 => &self.busy,
            400..=499 => &self.client_errors,
            500.. => &self.server_errors,
            _ => &self.answered,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Name, count, and whether that many answers were lost: a mistyped query or a wrong token loses nothing.
    fn rows(&self) -> [(&'static str, &AtomicU64, bool); 7] {
        [
            ("answered", &self.answered, false),
            ("refused_token", &self.refused_token, false),
            ("refused_host", &self.refused_host, false),
            ("refused_method", &self.refused_method, false),
            ("client_error", &self.client_errors, false),
            ("server_error", &self.server_errors, true),
            ("busy", &self.busy, true),
        ]
    }

    /// For the status page.
    pub(crate) fn stage(&self) -> Stage {
        let counters = self
            .rows()
            .map(|(name, value, loss)| {
                let name = format!("requests {}", name.replace('_', " "));
                Counter::new(name, value.load(Ordering::Relaxed), loss)
            })
            .into();
        Stage { name: "view".into(), counters }
    }

    /// Prometheus text.
    pub(crate) fn prometheus(&self) -> String {
        let mut text = String::from(
            "# HELP wirespan_view_requests_total HTTP requests by outcome.\n# TYPE wirespan_view_requests_total \
             counter\n",
        );
        for (name, value, _) in self.rows() {
            let value = value.load(Ordering::Relaxed);
            text.push_str(&format!("wirespan_view_requests_total{{outcome=\"{name}\"}} {value}\n"));
        }
        text
    }
}
