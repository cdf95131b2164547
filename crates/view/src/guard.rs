//! Checks before every request: only reading methods, only known host names, and headers that isolate the page.
//!
//! Why the `Host` check: a page on the internet can make a browser resolve its own name to 127.0.0.1 (DNS rebinding)
//! and then read a loopback server as its own origin. The browser still sends the page's name as `Host`.

use crate::error::ApiError;
use crate::ViewState;
use axum::extract::{Request, State};
use axum::http::{header, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::{from_fn_with_state, Next};
use axum::response::{IntoResponse, Response};
use axum::Router;
use std::net::IpAddr;
use std::sync::Arc;

/// Accepted values of the `Host` header.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    any: bool,
    names: Arc<[Box<str>]>,
}

impl Hosts {
    /// `localhost`, `*.localhost` and loopback addresses.
    pub fn loopback() -> Self {
        Hosts::default()
    }

    /// Any name: for a server behind a proxy that checks it.
    pub fn any() -> Self {
        Hosts { any: true, ..Hosts::default() }
    }

    /// Loopback, and these names or addresses (without port).
    pub fn named(names: impl IntoIterator<Item = String>) -> Self {
        Hosts { any: false, names: names.into_iter().map(|n| n.to_ascii_lowercase().into_boxed_str()).collect() }
    }

    /// A listener on a public address without named hosts gets [`Hosts::any`]: the addresses of the machine are not
    /// known here, and its data are open to the network already.
    pub(crate) fn for_public_bind(self) -> Self {
        if self.names.is_empty() {
            Hosts::any()
        } else {
            self
        }
    }

    fn accepts(&self, host: &str) -> bool {
        if self.any {
            return true;
        }
        let name = without_port(host).to_ascii_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name);
        let literal = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(name);
        name == "localhost"
            || name.ends_with(".localhost")
            || literal.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
            || self.names.iter().any(|n| n.as_ref() == name || n.as_ref() == literal)
    }
}

fn without_port(host: &str) -> &str {
    match host.rfind(':') {
        Some(colon) if !host[colon..].contains(']') => &host[..colon],
        _ => host,
    }
}

/// The UI needs only its own scripts, styles and API.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
                      connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors \
                      'none'";

const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

pub(crate) fn protect(routes: Router, state: ViewState) -> Router {
    routes.layer(from_fn_with_state(state, guard))
}

async fn guard(State(state): State<ViewState>, request: Request, next: Next) -> Response {
    let mut response = match check(&state.hosts, &request) {
        Ok(()) => next.run(request).await,
        Err(e) => {
            let mut response = e.into_response();
            if response.status() == StatusCode::METHOD_NOT_ALLOWED {
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            }
            response
        }
    };
    state.stats.count(response.status().as_u16());
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn check(hosts: &Hosts, request: &Request) -> Result<(), ApiError> {
    let host = match request.headers().get(header::HOST) {
        Some(value) => value.to_str().unwrap_or_default(),
        None => request.uri().host().unwrap_or_default(),
    };
    if !hosts.accepts(host) {
        let e =
            ApiError::refused(StatusCode::FORBIDDEN, "host", format!("requests for host `{host}` are not answered"));
        return Err(e.hint("use 127.0.0.1 or localhost, or name the host when starting the server"));
    }
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(());
    }
    let message = format!("{} is not allowed: this server only reads", request.method());
    Err(ApiError::refused(StatusCode::METHOD_NOT_ALLOWED, "method", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_names_only() {
        let hosts = Hosts::loopback();
        for good in [
            "localhost",
            "localhost:7000",
            "LOCALHOST.",
            "a.localhost:1",
            "127.0.0.1:7000",
            "127.8.0.1",
            "[::1]:7000",
            "[::1]",
            "[::ffff:127.0.0.1]:1",
        ] {
            assert!(hosts.accepts(good), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "evil.example:7000",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "[fe80::1]:1",
            "notlocalhost",
            "]:[",
        ] {
            assert!(!hosts.accepts(bad), "{bad}");
        }
    }

    #[test]
    fn named_hosts() {
        let hosts = Hosts::named(["Traces.Example".to_owned(), "10.0.0.1".to_owned()]);
        assert!(hosts.accepts("traces.example:80") && hosts.accepts("10.0.0.1:80") && hosts.accepts("localhost"));
        assert!(!hosts.accepts("other.example"));
        assert!(!hosts.for_public_bind().accepts("other.example"));
        assert!(Hosts::loopback().for_public_bind().accepts("other.example"));
    }
}
