//! Checks before every request: only reading methods (and two orders), only known host names, and headers that isolate
//! the page.
//!
//! Why the `Host` check: a page on the internet can make a browser resolve its own name to 127.0.0.1 (DNS rebinding)
//! and then read a loopback server as its own origin. The browser still sends the page's name as `Host`.

use crate::api::ORDERS;
use crate::error::ApiError;
use crate::pack;
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
    let packs = request.method() == Method::GET && pack::accepted(request.headers());
    let mut response = match check(&state.hosts, &request) {
        Ok(()) => match state.token.as_deref().map_or(Entry::Free, |token| entry(token, &request)) {
            Entry::Free => next.run(request).await,
            Entry::ByLink(response) => response,
            Entry::Refused => {
                let e = ApiError::refused(StatusCode::UNAUTHORIZED, "token", "this server asks for a token");
                e.hint("open the address that wirespan printed at its start, or send `Authorization: Bearer TOKEN`")
                    .into_response()
            }
        },
        Err(e) => {
            let mut response = e.into_response();
            if response.status() == StatusCode::METHOD_NOT_ALLOWED {
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            }
            response
        }
    };
    state.stats.count(response.status().as_u16());
    if packs {
        response = pack::pack(response).await;
    }
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether a request may enter a server that asks for a token.
enum Entry {
    Free,
    /// It came by the link with the token: the answer sets a cookie and hides the token from the address line.
    ByLink(Response),
    Refused,
}

const COOKIE: &str = "wirespan_token";

fn entry(token: &str, request: &Request) -> Entry {
    let headers = request.headers();
    let text = |name| headers.get(name).and_then(|v: &HeaderValue| v.to_str().ok()).unwrap_or_default();
    let mut cookies = text(header::COOKIE).split(';').filter_map(|c| c.trim().split_once('='));
    let known = text(header::AUTHORIZATION).strip_prefix("Bearer ").is_some_and(|given| same(given.trim(), token))
        || cookies.any(|(name, value)| name == COOKIE && same(value, token));
    // Probes of orchestrators have no secret, and learn nothing but whether it writes.
    if known || request.uri().path() == "/healthz" {
        return Entry::Free;
    }
    let query = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes());
    let (given, rest): (Vec<_>, Vec<_>) = query.partition(|(name, _)| name == "token");
    if !given.iter().any(|(_, value)| same(value, token)) {
        return Entry::Refused;
    }
    let rest = form_urlencoded::Serializer::new(String::new()).extend_pairs(rest).finish();
    let place = match rest.is_empty() {
        true => request.uri().path().to_owned(),
        false => format!("{}?{rest}", request.uri().path()),
    };
    let cookie = format!("{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict");
    let mut response = StatusCode::SEE_OTHER.into_response();
    // `//host` would lead elsewhere.
    let place = format!("/{}", place.trim_start_matches('/'));
    for (name, value) in [(header::LOCATION, place), (header::SET_COOKIE, cookie)] {
        match HeaderValue::try_from(value) {
            Ok(value) => drop(response.headers_mut().insert(name, value)),
            Err(_) => return Entry::Refused,
        }
    }
    Entry::ByLink(response)
}

/// Compares secrets in constant time.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |all, (x, y)| all | (x ^ y)) == 0
}

/// Whether it is one of the orders that are taken, and no page of another origin has sent it: a browser asks first
/// before it sends JSON elsewhere, and the answer to that question (OPTIONS) is no.
fn is_order(request: &Request) -> bool {
    let header = |name| request.headers().get(name).and_then(|v: &HeaderValue| v.to_str().ok());
    let origin = header(header::ORIGIN).and_then(|origin| origin.split_once("://"));
    let own = header(header::ORIGIN).is_none() || origin.map(|(_, host)| host) == header(header::HOST);
    let json = header(header::CONTENT_TYPE).is_some_and(|kind| kind.starts_with("application/json"));
    *request.method() == Method::POST && ORDERS.contains(&request.uri().path()) && json && own
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
    if matches!(*request.method(), Method::GET | Method::HEAD) || is_order(request) {
        return Ok(());
    }
    let message = format!("{} is not allowed: this server only reads", request.method());
    Err(ApiError::refused(StatusCode::METHOD_NOT_ALLOWED, "method", message))
}
