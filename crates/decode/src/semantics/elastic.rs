//! Elasticsearch and OpenSearch: the endpoint of a request from its path, as the clients name it.
//!
//! A path alone proves nothing (FHIR servers have `_search` too): attributes are given only if the client or the server
//! says which product it is.

use super::{name, text, Ask};
use std::borrow::Cow;
use wirespan_model::message::AttrList;
use wirespan_model::AttrVal;

/// Longest name of an index (or list of names) that is kept, bytes.
const MAX_INDEX: usize = 255;

/// A request to an endpoint.
#[derive(Debug)]
pub(super) struct Call {
    system: Option<&'static str>,
    operation: Cow<'static, str>,
    index: Option<String>,
    template: &'static str,
}

impl Call {
    /// Reads path and client. `None` unless the path has the form of an endpoint.
    pub(super) fn of(ask: &Ask<'_>) -> Option<Call> {
        let system = client(ask);
        if system.is_none() && memchr::memmem::find(ask.path, b"/_").is_none() {
            return None;
        }
        let end = memchr::memchr2(b'?', b'#', ask.path).unwrap_or(ask.path.len());
        let path = ask.path.get(..end)?.strip_prefix(b"/")?;
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let mut parts = path.split(|b| *b == b'/');
        let first = parts.next()?;
        let (index, endpoint) = match first {
            [] => (None, None),
            [b'_', ..] => (None, Some(first)),
            _ => (Some(first), parts.next()),
        };
        let sub = parts.next();
        let (operation, template) = operation(ask.method, index.is_some(), endpoint, sub)?;
        // Commas and `*` choose several; dates and dots are part of names.
        let index = index.and_then(|i| name(i, b"-.,*+<>{}%", MAX_INDEX));
        Some(Call { system, operation, index, template })
    }

    pub(super) fn system(&self) -> Option<&'static str> {
        self.system
    }

    pub(super) fn attributes(&self, attrs: &mut AttrList<'_>) {
        if let Some(system) = self.system {
            self.attributes_of(system, attrs);
        }
    }

    pub(super) fn attributes_of(&self, system: &'static str, attrs: &mut AttrList<'_>) {
        attrs.push(("db.system.name", AttrVal::from(system)));
        attrs.push(("db.operation.name", text(self.operation.clone().into_owned())));
        if let Some(index) = &self.index {
            attrs.push(("db.collection.name", text(index.clone())));
            attrs.push(("db.operation.parameter.index", text(index.clone())));
        }
        if !self.template.is_empty() {
            attrs.push(("url.template", AttrVal::from(self.template)));
        }
    }
}

/// The product that a client is made for.
fn client(ask: &Ask<'_>) -> Option<&'static str> {
    let begins =
        |prefix: &str| ask.agent.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix.as_bytes()));
    let kind = |vendor: &[u8]| memchr::memmem::find(ask.content_type, vendor).is_some();
    if begins("opensearch-") || begins("opensearchclient") {
        Some("opensearch")
    } else if kind(b"vnd.elasticsearch+") || begins("elasticsearch") || begins("elastic-transport") {
        Some("elasticsearch")
    } else {
        None
    }
}

/// The product that a server says it is.
pub(super) fn product(product: &[u8], version: &[u8]) -> Option<&'static str> {
    if product.eq_ignore_ascii_case(b"Elasticsearch") {
        Some("elasticsearch")
    } else if version.starts_with(b"OpenSearch") {
        Some("opensearch")
    } else {
        None
    }
}

/// The endpoint's name in the clients, and the form of its path.
fn operation(
    method: &[u8],
    indexed: bool,
    endpoint: Option<&[u8]>,
    sub: Option<&[u8]>,
) -> Option<(Cow<'static, str>, &'static str)> {
    let by = |get: &'static str, put: &'static str, delete: &'static str| match method {
        b"GET" | b"HEAD" => get,
        b"DELETE" => delete,
        _ => put,
    };
    let has_id = sub.is_some();
    let (name, template) = match endpoint {
        None if indexed => (
            match method {
                b"HEAD" => "indices.exists",
                _ => by("indices.get", "indices.create", "indices.delete"),
            },
            "/{index}",
        ),
        None => (if method == b"HEAD" { "ping" } else { "info" }, "/"),
        Some(b"_search") if sub == Some(b"scroll") => {
            (if method == b"DELETE" { "clear_scroll" } else { "scroll" }, "/_search/scroll")
        }
        Some(b"_search") => ("search", if indexed { "/{index}/_search" } else { "/_search" }),
        Some(b"_msearch") => ("msearch", if indexed { "/{index}/_msearch" } else { "/_msearch" }),
        Some(b"_bulk") => ("bulk", if indexed { "/{index}/_bulk" } else { "/_bulk" }),
        Some(b"_mget") => ("mget", if indexed { "/{index}/_mget" } else { "/_mget" }),
        Some(b"_count") => ("count", if indexed { "/{index}/_count" } else { "/_count" }),
        Some(b"_doc") if has_id && method == b"HEAD" => ("exists", "/{index}/_doc/{id}"),
        Some(b"_doc") => (by("get", "index", "delete"), if has_id { "/{index}/_doc/{id}" } else { "/{index}/_doc" }),
        Some(b"_create") => ("create", "/{index}/_create/{id}"),
        Some(b"_update") => ("update", "/{index}/_update/{id}"),
        Some(b"_source") => ("get_source", "/{index}/_source/{id}"),
        Some(b"_update_by_query") => ("update_by_query", "/{index}/_update_by_query"),
        Some(b"_delete_by_query") => ("delete_by_query", "/{index}/_delete_by_query"),
        Some(b"_reindex") => ("reindex", "/_reindex"),
        Some(b"_mapping" | b"_mappings") => (by("indices.get_mapping", "indices.put_mapping", ""), "/{index}/_mapping"),
        Some(b"_settings") => (by("indices.get_settings", "indices.put_settings", ""), "/{index}/_settings"),
        Some(b"_refresh") => ("indices.refresh", if indexed { "/{index}/_refresh" } else { "/_refresh" }),
        Some(b"_alias" | b"_aliases") => {
            (by("indices.get_alias", "indices.update_aliases", "indices.delete_alias"), "")
        }
        Some(
            b"_cluster" | b"_cat" | b"_nodes" | b"_tasks" | b"_snapshot" | b"_ingest" | b"_index_template" | b"_sql"
            | b"_esql",
        ) => {
            // `_cluster/health` is `cluster.health`.
            let group = endpoint?.get(1..).and_then(|g| super::name(g, b"", 32))?;
            let what = sub.filter(|s| s.iter().all(|b| b.is_ascii_lowercase() || *b == b'_'));
            let what = what.and_then(|s| std::str::from_utf8(s).ok()).filter(|s| s.len() <= 32);
            let operation = what.map_or(group.clone(), |what| [group.as_str(), what].join("."));
            return Some((Cow::Owned(operation), ""));
        }
        _ => return None,
    };
    (!name.is_empty()).then_some((Cow::Borrowed(name), template))
}
