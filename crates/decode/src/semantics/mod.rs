//! What requests over HTTP mean beyond HTTP: gRPC, gRPC-Web, GraphQL, JSON-RPC 2.0, Elasticsearch and OpenSearch.
//!
//! - **where from**: method, path and content type of the head; of JSON bodies the first [`PEEKED`] bytes that were
//!   captured
//! - **certainty**: each protocol only on proof of its own: the shape of a GraphQL document, `"jsonrpc":"2.0"`, a
//!   product header or client
//! - **secrets**: of bodies only names leave: operation, method, error code; no literal, variable, parameter or value
//! - **when**: facts from the head stand in the message, facts from the body in the [`Late`] of its end
//! - **memory**: [`PEEKED`] bytes per direction of a request that is looked at, until it is answered

mod elastic;
mod graphql;
pub(crate) mod grpc;
mod grpc_web;
mod json;
mod json_rpc;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use wirespan_model::message::AttrList;
use wirespan_model::{AttrVal, Late, Outcome, Side};

/// Bytes of a body that are looked at.
pub(crate) const PEEKED: usize = 1024;
/// Longest error text that is read, bytes.
const MAX_ERROR: usize = 512;

/// The facts of a request's head.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ask<'a> {
    pub(crate) method: &'a [u8],
    /// Request target.
    pub(crate) path: &'a [u8],
    pub(crate) content_type: &'a [u8],
    pub(crate) agent: &'a [u8],
    /// A body follows.
    pub(crate) body: bool,
}

/// The possible kinds of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Nothing that is looked at.
    None,
    Json,
    Graphql,
    /// gRPC-Web, in base64 or not.
    Web {
        text: bool,
    },
}

/// The recognised protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    Graphql,
    JsonRpc,
}

/// Follows one request and its response.
#[derive(Debug)]
pub(crate) struct Peek {
    form: Form,
    found: Found,
    elastic: Option<elastic::Call>,
    web: grpc_web::Reader,
    /// First bytes of the body of the direction that is read now.
    bytes: Vec<u8>,
    /// Bytes behind the first ones were left out.
    cut: bool,
}

/// Whether a content type is JSON.
fn is_json(content_type: &[u8]) -> bool {
    let end = content_type.iter().position(|b| matches!(b, b';' | b' ')).unwrap_or(content_type.len());
    let kind = content_type.get(..end).unwrap_or_default();
    let ends = |suffix: &str| {
        let at = kind.len().checked_sub(suffix.len()).and_then(|at| kind.get(at..));
        at.is_some_and(|tail| tail.eq_ignore_ascii_case(suffix.as_bytes()))
    };
    ends("/json") || ends("+json") || ends("/json-rpc") || ends("/jsonrequest")
}

impl Peek {
    /// Looks at a head. `None` if there is nothing to follow, which is the usual case and costs no memory.
    pub(crate) fn of(ask: &Ask<'_>) -> Option<Box<Peek>> {
        let form = match ask.content_type {
            web if web.starts_with(b"application/grpc-web-text") => Form::Web { text: true },
            web if web.starts_with(b"application/grpc-web") => Form::Web { text: false },
            graphql if ask.body && graphql.starts_with(b"application/graphql") && !is_json(graphql) => Form::Graphql,
            json if ask.body && ask.method == b"POST" && is_json(json) => Form::Json,
            _ => Form::None,
        };
        let elastic = elastic::Call::of(ask);
        if form == Form::None && elastic.is_none() {
            return None;
        }
        let web = grpc_web::Reader::new(form == Form::Web { text: true });
        Some(Box::new(Peek { form, found: Found::Nothing, elastic, web, bytes: Vec::new(), cut: false }))
    }

    /// Whether the body of the request is looked at.
    pub(crate) fn wants_request(&self) -> bool {
        matches!(self.form, Form::Json | Form::Graphql)
    }

    /// Whether the body of the response is looked at, as far as is known when its head comes.
    pub(crate) fn wants_response(&self) -> bool {
        self.found != Found::Nothing || matches!(self.form, Form::Web { .. })
    }

    /// The facts of the request's head.
    pub(crate) fn asked(&self, attrs: &mut AttrList<'_>) {
        if let Some(call) = self.elastic.as_ref().filter(|call| call.system().is_some()) {
            call.attributes(attrs);
        }
    }

    /// Reads the head of a response: `product` and `version` are header fields by which servers name their software.
    pub(crate) fn answered(&self, product: &[u8], version: &[u8], attrs: &mut AttrList<'_>) {
        let Some(call) = self.elastic.as_ref().filter(|call| call.system().is_none()) else { return };
        if let Some(system) = elastic::product(product, version) {
            call.attributes_of(system, attrs);
        }
    }

    /// Bytes of a body, in order.
    pub(crate) fn body(&mut self, side: Side, bytes: &[u8]) {
        match (self.form, side) {
            (Form::Web { .. }, Side::Server) => self.web.feed(bytes),
            (Form::Json | Form::Graphql, Side::Client) => self.keep(bytes),
            (Form::Json | Form::Graphql, Side::Server) if self.found != Found::Nothing => self.keep(bytes),
            _ => {}
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.cut {
            return;
        }
        let room = PEEKED.saturating_sub(self.bytes.len());
        self.cut = bytes.len() > room;
        self.bytes.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    /// So many bytes of a body were not captured.
    pub(crate) fn missing(&mut self, _side: Side, bytes: u64) {
        self.cut |= bytes > 0;
        if bytes > 0 {
            self.web.lose();
        }
    }

    /// The facts of a body, at its end.
    pub(crate) fn late(&mut self, side: Side) -> Late<'static> {
        let late = match (self.form, side) {
            (Form::Web { .. }, Side::Server) => self.web.status().unwrap_or_default(),
            (Form::Json, Side::Client) => self.json(),
            (Form::Graphql, Side::Client) => {
                let (attrs, found) = graphql::document(&self.bytes);
                self.found = if found { Found::Graphql } else { Found::Nothing };
                Late { attrs, ..Late::default() }
            }
            (Form::Json | Form::Graphql, Side::Server) => match self.found {
                Found::Graphql => graphql::response(&self.bytes, self.cut),
                Found::JsonRpc => json_rpc::response(&self.bytes),
                Found::Nothing => Late::default(),
            },
            _ => Late::default(),
        };
        self.bytes.clear();
        self.cut = false;
        late
    }

    fn json(&mut self) -> Late<'static> {
        let mut late = Late::default();
        if let Some(attrs) = json_rpc::request(&self.bytes) {
            (self.found, late.attrs) = (Found::JsonRpc, attrs);
        } else if let Some(attrs) = graphql::request(&self.bytes) {
            (self.found, late.attrs) = (Found::Graphql, attrs);
        }
        late
    }
}

/// An error text that is safe to show: values masked as everywhere, and words that look like credentials.
pub(crate) fn error_text(text: &[u8]) -> String {
    let shown = crate::mask::text(text.get(..MAX_ERROR).unwrap_or(text), text.len() <= MAX_ERROR);
    let mut safe = String::with_capacity(shown.len());
    for (n, word) in shown.split(' ').enumerate() {
        if n > 0 {
            safe.push(' ');
        }
        let secret = word.split(['=', ':', ',', ';', '/']).any(|w| crate::url::looks_secret(w.as_bytes()));
        safe.push_str(if secret || word.contains('@') || word.contains("://") { "?" } else { word });
    }
    safe
}

/// A name: letters, digits, and a few others; nothing that could be a value.
fn name(bytes: &[u8], more: &[u8], max: usize) -> Option<String> {
    let named = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_' || more.contains(b);
    let ok = !bytes.is_empty() && bytes.len() <= max && bytes.iter().all(named) && !crate::url::looks_secret(bytes);
    ok.then(|| String::from_utf8_lossy(bytes).into_owned())
}

fn text(value: String) -> AttrVal<'static> {
    AttrVal::Str(Cow::Owned(value))
}

/// A late outcome with its text.
fn failed(outcome: Outcome, error: String) -> Late<'static> {
    Late { outcome, error: Cow::Owned(error), ..Late::default() }
}
