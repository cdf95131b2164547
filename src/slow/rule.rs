//! Rules: which requests are slow, by service and endpoint.

use anyhow::{bail, Result};

/// The word for a rule that learns.
const LEARNT: &str = "auto";

/// How it is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// By this duration, ns.
    Fixed(u64),
    /// By what is usual.
    Learnt,
}

impl Rule {
    /// Reads `50ms` or `auto`.
    pub(crate) fn read(text: &str) -> Result<Rule> {
        match text.trim() {
            LEARNT => Ok(Rule::Learnt),
            fixed => match wirespan_view::parse_duration(fixed) {
                Ok(ns) => Ok(Rule::Fixed(ns)),
                Err(why) => bail!("{why}; or write {LEARNT}"),
            },
        }
    }
}

/// What is recorded with the waits of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    /// Stacks of the kernel.
    pub(crate) kernel_stack: bool,
    /// Stacks of programs.
    pub(crate) user_stack: bool,
    /// How often threads were woken, and how long they were ready then.
    pub(crate) metrics: bool,
}

#[cfg(test)]
impl Want {
    /// Everything.
    pub(crate) const ALL: Want = Want { kernel_stack: true, user_stack: true, metrics: true };
}

/// What an order says of it; `None`: as it is configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Knobs {
    pub(crate) kernel_stack: Option<bool>,
    pub(crate) user_stack: Option<bool>,
    pub(crate) metrics: Option<bool>,
}

impl Knobs {
    /// What is recorded where this is configured.
    pub(super) fn over(self, configured: Want) -> Want {
        Want {
            kernel_stack: self.kernel_stack.unwrap_or(configured.kernel_stack),
            user_stack: self.user_stack.unwrap_or(configured.user_stack),
            metrics: self.metrics.unwrap_or(configured.metrics),
        }
    }
}

/// A rule and the requests that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scoped {
    /// Name of the service; empty for all.
    service: String,
    /// Endpoint; empty for all.
    endpoint: String,
    pub(crate) rule: Rule,
}

impl Scoped {
    /// A rule for all requests.
    pub(crate) fn general(rule: Rule) -> Self {
        Scoped { service: String::new(), endpoint: String::new(), rule }
    }

    /// A rule for a service, or one endpoint of it: `GET /cart/7`, or `/cart/7` for all operations. Parts of a path
    /// with digits, and `*`, stand for any such part.
    pub(crate) fn of(service: &str, endpoint: &str, rule: Rule) -> Self {
        let endpoint = endpoint.trim();
        let endpoint = match endpoint.split_once(' ') {
            Some((operation, target)) => named(operation, target.trim()),
            None => form(endpoint),
        };
        Scoped { service: service.trim().into(), endpoint, rule }
    }

    /// Whether it is for the same requests as another one.
    pub(crate) fn is_same(&self, other: &Scoped) -> bool {
        self.service == other.service && self.endpoint == other.endpoint
    }

    /// Whether it is for requests of this service.
    pub(crate) fn is_for(&self, service: &str) -> bool {
        self.service.is_empty() || self.service == service
    }

    /// Whether it is for this request.
    pub(crate) fn fits(&self, service: &str, operation: &str, target: &str) -> bool {
        let endpoint = || self.endpoint == form(target) || self.endpoint == named(operation, target);
        self.is_for(service) && (self.endpoint.is_empty() || endpoint())
    }
}

/// The name of an endpoint.
pub(super) fn named(operation: &str, target: &str) -> String {
    format!("{operation} {}", form(target))
}

/// A target without its query and with its numbers and ids left out: requests of one form do the same work.
pub(crate) fn form(target: &str) -> String {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let part = |part: &str| if part.contains(|c: char| c.is_ascii_digit()) { "*" } else { part }.to_string();
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn targets_of_one_form() {
        assert_eq!(form("/cart/17?x=1"), form("/cart/a3f"));
        assert_ne!(form("/cart/17"), form("/pay/17"));
    }

    #[test]
    fn thresholds_are_durations_or_learnt() {
        assert_eq!(Rule::read("50ms").unwrap(), Rule::Fixed(50_000_000));
        assert_eq!(Rule::read(" auto").unwrap(), Rule::Learnt);
        let error = Rule::read("soon").unwrap_err().to_string();
        assert!(error.contains("`soon` is not a duration") && error.ends_with("or write auto"), "{error}");
    }

    #[test]
    fn a_rule_is_for_a_service_and_an_endpoint() {
        let fits = |service, endpoint| Scoped::of(service, endpoint, Rule::Learnt).fits("shop", "GET", "/cart/17?x=1");
        assert!(fits("shop", "") && fits("", "") && fits("shop", "GET /cart/9") && fits("shop", "GET /cart/*"));
        assert!(fits("shop", "/cart/*") && fits("", "GET  /cart/3"));
        assert!(!fits("shop", "PUT /cart/9") && !fits("shop", "GET /cart") && !fits("pay", "GET /cart/9"));
    }
}
