//! What the user lets through, and what the user takes out: settings of `[mask]`, by protocol.
//!
//! The defaults show names and numbers only. What is kept here is kept in the process that captures: nothing else ever
//! sees it.

use crate::text::clean;
use crate::Parser;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use wirespan_model::message::AttrList;
use wirespan_model::{AttrVal, Chunk, Item, Side, L7};

const MAX_VALUE: usize = KeptHttp::MAX_VALUE;

/// Names of header fields, lower case, each with its attribute.
pub(crate) type FieldNames<'a> = &'a [(String, &'static str)];

/// What is kept beyond the defaults, and what is left out. The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    http: Option<Arc<KeptHttp>>,
    literals: Vec<String>,
    keys: Vec<String>,
    fields: BTreeMap<String, Arc<[(String, &'static str)]>>,
    hide: BTreeMap<String, Arc<[String]>>,
}

/// What is kept of HTTP.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KeptHttp {
    request: Vec<(String, &'static str)>,
    response: Vec<(String, &'static str)>,
    query: Vec<String>,
}

/// Names of fields, lower case, with the attribute of each. Each is leaked: make one `Keep` per process.
fn fields(names: &[String], prefix: &str) -> Result<Vec<(String, &'static str)>, String> {
    let mut fields = Vec::new();
    for name in names {
        let name = name.to_ascii_lowercase();
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_graphic() && b != b':') {
            return Err(format!("`{name}` is no name of a header field"));
        }
        let key: &'static str = Box::leak(format!("{prefix}{name}").into_boxed_str());
        fields.push((name, key));
    }
    Ok(fields)
}

impl Keep {
    /// Keeps these header fields of HTTP requests and responses, and these parameters of queries.
    pub fn http(mut self, request: &[String], response: &[String], query: &[String]) -> Result<Self, String> {
        let kept = KeptHttp {
            request: fields(request, "http.request.header.")?,
            response: fields(response, "http.response.header.")?,
            query: query.to_vec(),
        };
        self.http = (kept != KeptHttp::default()).then(|| Arc::new(kept));
        Ok(self)
    }

    /// Keeps the literals of this protocol's SQL.
    pub fn literals(mut self, protocol: &str) -> Self {
        self.literals.push(protocol.to_owned());
        self
    }

    /// Keeps the first key of this protocol's commands.
    pub fn keys(mut self, protocol: &str) -> Self {
        self.keys.push(protocol.to_owned());
        self
    }

    /// Keeps what this protocol's queries compare these fields with.
    pub fn fields(mut self, protocol: &str, names: &[String]) -> Result<Self, String> {
        let one = |name: &String| {
            let sane = !name.is_empty() && !name.chars().any(char::is_control);
            let key = || &*Box::leak(format!("db.query.parameter.{name}").into_boxed_str());
            sane.then(|| (name.clone(), key())).ok_or_else(|| format!("`{name}` is no name of a field"))
        };
        let fields: Result<Arc<[_]>, String> = names.iter().map(one).collect();
        self.fields.insert(protocol.to_owned(), fields?);
        Ok(self)
    }

    /// Leaves these attributes of this protocol out (`operation`, `target` and `error` too).
    pub fn hide(mut self, protocol: &str, attributes: &[String]) -> Self {
        self.hide.insert(protocol.to_owned(), attributes.into());
        self
    }

    pub(crate) fn of_http(&self) -> Option<Arc<KeptHttp>> {
        self.http.clone()
    }

    pub(crate) fn keeps_literals(&self, protocol: L7) -> bool {
        self.literals.iter().any(|p| p == protocol)
    }

    pub(crate) fn keeps_keys(&self, protocol: L7) -> bool {
        self.keys.iter().any(|p| p == protocol)
    }

    pub(crate) fn of_fields(&self, protocol: L7) -> Arc<[(String, &'static str)]> {
        self.fields.get(protocol).cloned().unwrap_or_default()
    }

    /// The parser, without what is to be left out.
    pub(crate) fn without_hidden(&self, protocol: L7, parser: Box<dyn Parser>) -> Box<dyn Parser> {
        // gRPC is read by the parsers of HTTP.
        let names: &[L7] = if matches!(protocol, "http" | "http2") { &["http", "http2", "grpc"] } else { &[protocol] };
        let hide: Vec<_> = names.iter().filter_map(|name| Some((*name, self.hide.get(*name)?.clone()))).collect();
        match hide.is_empty() {
            true => parser,
            false => Box::new(Hiding { parser, hide, protocol }),
        }
    }
}

impl KeptHttp {
    /// Longest value of a header field or of a query that is kept, bytes.
    pub(crate) const MAX_VALUE: usize = 256;

    /// The header fields of an end that are kept.
    pub(crate) fn names(&self, side: Side) -> FieldNames<'_> {
        match side {
            Side::Client => &self.request,
            Side::Server => &self.response,
        }
    }

    /// Writes the fields of a header block that are kept.
    pub(crate) fn fields<'a>(&self, request: bool, block: &'a [u8], attrs: &mut AttrList<'a>) {
        let kept = if request { &self.request } else { &self.response };
        if kept.is_empty() {
            return;
        }
        for line in block.split(|b| *b == b'\n') {
            let Some((name, value)) = memchr::memchr(b':', line).and_then(|i| line.split_at_checked(i)) else {
                continue;
            };
            let Some((_, key)) = kept.iter().find(|(k, _)| name.eq_ignore_ascii_case(k.as_bytes())) else { continue };
            let value = value.get(1..).unwrap_or_default().trim_ascii();
            if !attrs.iter().any(|(k, _)| k == key) {
                attrs.push((key, AttrVal::Str(clean(value, MAX_VALUE))));
            }
        }
    }

    /// Writes the parameters of a request target that are kept.
    pub(crate) fn query<'a>(&self, target: &'a [u8], attrs: &mut AttrList<'a>) {
        let Some(start) = memchr::memchr(b'?', target).filter(|_| !self.query.is_empty()) else { return };
        let query = target.get(start.saturating_add(1)..).unwrap_or_default();
        let query = query.split(|b| *b == b'#').next().unwrap_or_default();
        let mut shown = String::new();
        for pair in query.split(|b| matches!(b, b'&' | b';')) {
            let name = pair.split(|b| *b == b'=').next().unwrap_or_default();
            if self.query.iter().any(|k| k.as_bytes() == name) && shown.len() < MAX_VALUE {
                if !shown.is_empty() {
                    shown.push('&');
                }
                shown.push_str(&clean(pair, MAX_VALUE.saturating_sub(shown.len())));
            }
        }
        if !shown.is_empty() {
            attrs.push(("url.query", AttrVal::Str(Cow::Owned(shown))));
        }
    }
}

/// Leaves attributes out of what a parser says.
struct Hiding {
    parser: Box<dyn Parser>,
    hide: Vec<(L7, Arc<[String]>)>,
    protocol: L7,
}

/// Hands an item on without what is hidden.
fn without(item: Item<'_, '_>, protocol: L7, hide: &[(L7, Arc<[String]>)], out: &mut dyn FnMut(Item<'_, '_>)) {
    let hidden = |of: L7, name: &str| hide.iter().any(|(p, names)| *p == of && names.iter().any(|n| n == name));
    match item {
        Item::Message(m) => {
            let mut m = m.clone();
            let of = m.protocol;
            m.attrs.retain(|(key, _)| !hidden(of, key));
            if hidden(of, "operation") {
                m.operation = "";
            }
            if hidden(of, "target") {
                m.target = "".into();
            }
            if hidden(of, "error") {
                m.error = "".into();
            }
            out(Item::Message(&m));
        }
        Item::End { side, id, offset, late } => {
            let mut late = late.clone();
            late.attrs.retain(|(key, _)| !hidden(protocol, key));
            if hidden(protocol, "error") {
                late.error = "".into();
            }
            out(Item::End { side, id, offset, late: &late });
        }
        other => out(other),
    }
}

impl Parser for Hiding {
    fn feed(&mut self, chunk: Chunk<'_>, out: &mut dyn FnMut(Item<'_, '_>)) {
        let Hiding { parser, hide, protocol } = self;
        parser.feed(chunk, &mut |item| without(item, protocol, hide, out));
    }

    fn finish(&mut self, out: &mut dyn FnMut(Item<'_, '_>)) {
        let Hiding { parser, hide, protocol } = self;
        parser.finish(&mut |item| without(item, protocol, hide, out));
    }

    fn buffered(&self) -> usize {
        self.parser.buffered()
    }

    fn handover(&mut self) -> crate::Handover {
        self.parser.handover()
    }

    fn needs_whole(&self) -> bool {
        self.parser.needs_whole()
    }
}
