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
use wirespan_model::Hosts;

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
