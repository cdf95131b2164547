//! The settings of `[mask.PROTOCOL]`: the values that the user lets through, and the attributes that the user hides.
//!
//! By default messages show names and numbers only. Parsers run in the process that captures, so no other process ever
//! sees a hidden value.

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

/// A key of `[mask.PROTOCOL]` that lets something through. [`Protocol::keepable`](crate::Protocol::keepable) lists
/// those that a protocol reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepKey {
    /// Header fields of requests, by name.
    RequestHeaders,
    /// Header fields of responses, by name.
    ResponseHeaders,
    /// Parameters of a URL's query, by name.
    Query,
    /// Literals of SQL.
    Literals,
    /// The first key of a command.
    Keys,
    /// Values that queries compare with fields, by the fields' names.
    Fields,
}

impl KeepKey {
    /// The keys that HTTP reads.
    pub(crate) const HTTP: &'static [KeepKey] = &[KeepKey::RequestHeaders, KeepKey::ResponseHeaders, KeepKey::Query];

    /// The key as the configuration spells it.
    pub fn name(self) -> &'static str {
        match self {
            KeepKey::RequestHeaders => "request_headers",
            KeepKey::ResponseHeaders => "response_headers",
            KeepKey::Query => "query",
            KeepKey::Literals => "literals",
            KeepKey::Keys => "keys",
            KeepKey::Fields => "fields",
        }
    }
}

/// The settings of one protocol, as the user writes them. The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask {
    /// See [`KeepKey::RequestHeaders`].
    pub request_headers: Vec<String>,
    /// See [`KeepKey::ResponseHeaders`].
    pub response_headers: Vec<String>,
    /// See [`KeepKey::Query`].
    pub query: Vec<String>,
    /// See [`KeepKey::Literals`].
    pub literals: bool,
    /// See [`KeepKey::Keys`].
    pub keys: bool,
    /// See [`KeepKey::Fields`].
    pub fields: Vec<String>,
    /// Attributes to leave out of messages; also `operation`, `target` and `error`.
    pub hide: Vec<String>,
}

impl Mask {
    /// The keys that let something through.
    pub fn keep_keys(&self) -> impl Iterator<Item = KeepKey> {
        [
            (KeepKey::RequestHeaders, !self.request_headers.is_empty()),
            (KeepKey::ResponseHeaders, !self.response_headers.is_empty()),
            (KeepKey::Query, !self.query.is_empty()),
            (KeepKey::Literals, self.literals),
            (KeepKey::Keys, self.keys),
            (KeepKey::Fields, !self.fields.is_empty()),
        ]
        .into_iter()
        .filter_map(|(key, set)| set.then_some(key))
    }
}

/// The settings of all protocols. The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    protocols: BTreeMap<String, Kept>,
}

/// The settings of one protocol, as parsers use them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Kept {
    http: Option<Arc<KeptHttp>>,
    literals: bool,
    keys: bool,
    fields: Arc<[(String, &'static str)]>,
    hide: Arc<[String]>,
}

/// The values of HTTP that are let through.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KeptHttp {
    request: Vec<(String, &'static str)>,
    response: Vec<(String, &'static str)>,
    query: Vec<String>,
}

/// Names of header fields, lower case, with the attribute of each. Attribute names are leaked: make one `Keep` per
/// process.
fn header_fields(names: &[String], prefix: &str) -> Result<Vec<(String, &'static str)>, String> {
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

/// Names of document fields, with the attribute of each, which is leaked.
fn document_fields(names: &[String]) -> Result<Arc<[(String, &'static str)]>, String> {
    let one = |name: &String| {
        let sane = !name.is_empty() && !name.chars().any(char::is_control);
        let key = || &*Box::leak(format!("db.query.parameter.{name}").into_boxed_str());
        sane.then(|| (name.clone(), key())).ok_or_else(|| format!("`{name}` is no name of a field"))
    };
    names.iter().map(one).collect()
}

impl Keep {
    /// Adds the settings of a protocol. The error names an invalid name of a field.
    pub fn with(mut self, protocol: &str, mask: &Mask) -> Result<Self, String> {
        let http = KeptHttp {
            request: header_fields(&mask.request_headers, "http.request.header.")?,
            response: header_fields(&mask.response_headers, "http.response.header.")?,
            query: mask.query.clone(),
        };
        let kept = Kept {
            http: (http != KeptHttp::default()).then(|| Arc::new(http)),
            literals: mask.literals,
            keys: mask.keys,
            fields: document_fields(&mask.fields)?,
            hide: mask.hide.as_slice().into(),
        };
        self.protocols.insert(protocol.to_owned(), kept);
        Ok(self)
    }

    /// The values of HTTP/1, HTTP/2 and gRPC that are let through: all three are set under `http`.
    pub(crate) fn of_http(&self) -> Option<Arc<KeptHttp>> {
        self.protocols.get("http")?.http.clone()
    }

    pub(crate) fn keeps_literals(&self, protocol: L7) -> bool {
        self.protocols.get(protocol).is_some_and(|kept| kept.literals)
    }

    pub(crate) fn keeps_keys(&self, protocol: L7) -> bool {
        self.protocols.get(protocol).is_some_and(|kept| kept.keys)
    }

    pub(crate) fn of_fields(&self, protocol: L7) -> Arc<[(String, &'static str)]> {
        self.protocols.get(protocol).map(|kept| kept.fields.clone()).unwrap_or_default()
    }

    fn hidden(&self, protocol: L7) -> Option<Arc<[String]>> {
        self.protocols.get(protocol).map(|kept| kept.hide.clone()).filter(|hide| !hide.is_empty())
    }

    /// The parser; its messages come without the attributes that the user hides.
    pub(crate) fn without_hidden(&self, protocol: L7, parser: Box<dyn Parser>) -> Box<dyn Parser> {
        // gRPC is read by the parsers of HTTP.
        let names: &[L7] = if matches!(protocol, "http" | "http2") { &["http", "http2", "grpc"] } else { &[protocol] };
        let hide: Vec<_> = names.iter().filter_map(|name| Some((*name, self.hidden(name)?))).collect();
        match hide.is_empty() {
            true => parser,
            false => Box::new(Hiding { parser, hide, protocol }),
        }
    }
}

impl KeptHttp {
    /// Longest value of a header field or a query, bytes; longer ones are cut.
    pub(crate) const MAX_VALUE: usize = 256;

    /// The header fields of a side that are let through.
    pub(crate) fn names(&self, side: Side) -> FieldNames<'_> {
        match side {
            Side::Client => &self.request,
            Side::Server => &self.response,
        }
    }

    /// Writes those fields of a header block that are let through.
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

    /// Writes those parameters of a request target that are let through.
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

/// A parser whose messages come without the attributes that the user hides.
struct Hiding {
    parser: Box<dyn Parser>,
    hide: Vec<(L7, Arc<[String]>)>,
    protocol: L7,
}

/// Hands an item on without its hidden attributes.
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
