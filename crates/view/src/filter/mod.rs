//! Request parameters and the text query → [`Query`] of the store.
//!
//! Bias: if a part of a query is not understood, the query is refused with that part and a hint. A search that silently
//! ignores a condition shows wrong spans that look right.

mod derived;
mod text;

pub(crate) use derived::Search;

use crate::error::ApiError;
use crate::when::{now_ns, parse_duration, parse_time};
use serde::Deserialize;
use utoipa::IntoParams;
use wirespan_model::{Status, TapSide};
use wirespan_store::{Order, Query};

/// Parameters of a search.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchParams {
    /// All conditions in one text: `service=cart status=error duration>10ms http.route=/x`.
    pub(crate) q: Option<String>,
    /// Earliest start: Unix ns, RFC 3339, or `-15m`.
    pub(crate) from: Option<String>,
    /// End of the range: the same forms, or `now`.
    pub(crate) to: Option<String>,
    /// The `service.name` must equal this.
    pub(crate) service: Option<String>,
    /// The operation (`GET`) or the whole name (`GET /cart`) must equal this.
    pub(crate) operation: Option<String>,
    /// The target (`/cart`) must contain this.
    pub(crate) endpoint: Option<String>,
    /// The protocol must equal this (`http`, `redis`, …).
    pub(crate) protocol: Option<String>,
    /// Status: `error` for any error, or its name (`ok`, `server-error`, …).
    pub(crate) status: Option<String>,
    /// Observation point (`server-process`, …).
    pub(crate) tap: Option<String>,
    /// Shortest duration: `10ms`.
    pub(crate) min_duration: Option<String>,
    /// Longest duration: `2s`.
    pub(crate) max_duration: Option<String>,
    /// `key:value`: this attribute must have this value. May be repeated.
    #[serde(default)]
    pub(crate) attr: Vec<String>,
    /// Order of the results: `newest` (default) or `slowest`.
    pub(crate) order: Option<String>,
    /// Greatest number of results.
    pub(crate) limit: Option<String>,
}

/// Reads the query string of a request into parameters; unknown names are errors.
pub(crate) fn params<T: serde::de::DeserializeOwned>(raw: Option<&str>) -> Result<T, ApiError> {
    serde_html_form::from_str(raw.unwrap_or_default())
        .map_err(|e| ApiError::bad_query("", format!("the request's parameters cannot be read: {e}")))
}

impl SearchParams {
    /// The store's query. `default_limit` and `max_limit` belong to the endpoint.
    pub(crate) fn query(&self, default_limit: usize, max_limit: usize) -> Result<Query, ApiError> {
        let now = now_ns();
        let mut query = Query { limit: default_limit, ..Query::default() };
        let time = |param: &str, text: &String| parse_time(text, now).map_err(|e| ApiError::bad_query(param, e));
        if let Some(text) = filled(&self.from) {
            query.range.from_ns = time("from", text)?;
        }
        if let Some(text) = filled(&self.to) {
            query.range.to_ns = time("to", text)?;
        }
        for (param, text) in [
            ("service", &self.service),
            ("operation", &self.operation),
            ("endpoint", &self.endpoint),
            ("protocol", &self.protocol),
            ("status", &self.status),
            ("tap", &self.tap),
        ] {
            if let Some(text) = filled(text) {
                set(&mut query, param, text).map_err(|e| as_param(param, e))?;
            }
        }
        if let Some(text) = filled(&self.min_duration) {
            query.min_duration_ns = Some(parse_duration(text).map_err(|e| ApiError::bad_query("min_duration", e))?);
        }
        if let Some(text) = filled(&self.max_duration) {
            query.max_duration_ns = Some(parse_duration(text).map_err(|e| ApiError::bad_query("max_duration", e))?);
        }
        for pair in &self.attr {
            let Some((key, value)) = pair.split_once(':').filter(|(key, _)| !key.is_empty()) else {
                return Err(ApiError::bad_query("attr", format!("`{pair}` is not key:value"))
                    .hint("write attr=http.route:/cart, one attr= per condition"));
            };
            query.attributes.push((key.to_owned(), value.to_owned()));
        }
        match filled(&self.order).map(String::as_str) {
            None | Some("newest") => {}
            Some("slowest") => query.order = Order::Slowest,
            Some(other) => {
                return Err(ApiError::bad_query("order", format!("`{other}` is not an order")).hint("newest or slowest"))
            }
        }
        if let Some(text) = filled(&self.limit) {
            query.limit = parse_limit(text, max_limit)?;
        }
        if let Some(text) = filled(&self.q) {
            text::apply(text, &mut query)?;
        }
        if query.range.from_ns >= query.range.to_ns {
            return Err(ApiError::bad_query("from", "the time range is empty: `from` is not before `to`"));
        }
        Ok(query)
    }
}

/// Reads a limit: 1 to `max`.
pub(crate) fn parse_limit(text: &str, max: usize) -> Result<usize, ApiError> {
    text.parse()
        .ok()
        .filter(|n| (1..=max).contains(n))
        .ok_or_else(|| ApiError::bad_query("limit", format!("`{text}` is not a number from 1 to {max}")))
}

fn filled(text: &Option<String>) -> Option<&String> {
    text.as_ref().filter(|t| !t.is_empty())
}

fn as_param(param: &str, what: Wrong) -> ApiError {
    let e = ApiError::bad_query(param, what.message);
    match what.hint {
        Some(hint) => e.hint(hint),
        None => e,
    }
}

/// Describes the error in a value.
struct Wrong {
    message: String,
    hint: Option<String>,
}

/// Sets one text condition. A second condition on the same field with another value is an error.
fn set(query: &mut Query, field: &str, value: &str) -> Result<(), Wrong> {
    let one_of = |what: &str, names: &[&str]| {
        if names.contains(&value) {
            return Ok(());
        }
        let hint = match nearest(value, names) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("one of: {}", names.join(", ")),
        };
        Err(Wrong { message: format!("`{value}` is not a {what}"), hint: Some(hint) })
    };
    let slot = match field {
        "service" => &mut query.service,
        "operation" => &mut query.operation,
        "endpoint" => &mut query.endpoint,
        "protocol" => &mut query.protocol,
        "status" => {
            let names: Vec<&str> = std::iter::once("error").chain(Status::ALL.map(Status::as_str)).collect();
            one_of("status", &names)?;
            &mut query.status
        }
        "tap" => {
            one_of("tap side", &TapSide::ALL.map(TapSide::as_str))?;
            &mut query.tap
        }
        _ => return Err(Wrong { message: format!("`{field}` is not a field"), hint: None }),
    };
    if slot.as_deref().is_some_and(|old| old != value) {
        return Err(Wrong { message: format!("`{field}` is given twice, with different values"), hint: None });
    }
    *slot = Some(value.to_owned());
    Ok(())
}

/// The name closest to `word` by edit distance, if it is close enough to be a typing error.
fn nearest<'a>(word: &str, names: &[&'a str]) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(1);
    names.iter().map(|n| (distance(word, n), *n)).min().filter(|(d, _)| *d <= limit).map(|(_, n)| n)
}

fn distance(a: &str, b: &str) -> usize {
    // A longer word is no mistyped field name. The limit also bounds the work.
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = (corner + usize::from(x != y)).min(row[j] + 1).min(row[j + 1] + 1);
            corner = row[j + 1];
            row[j + 1] = cost;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn ask(raw: &str) -> Result<Query, ApiError> {
        params::<SearchParams>(Some(raw))?.query(100, 1000)
    }

    #[test]
    fn every_parameter_arrives() {
        let q =
            ask("from=1&to=1970-01-01T00:00:01Z&service=cart&operation=GET&endpoint=%2Fx&protocol=http&status=error\
             &tap=server-process&min_duration=10ms&max_duration=1s&attr=a:b:c&attr=d:&order=slowest&limit=7")
            .unwrap();
        assert_eq!((q.range.from_ns, q.range.to_ns), (1, 1_000_000_000));
        assert_eq!(q.service.as_deref(), Some("cart"));
        assert_eq!(q.operation.as_deref(), Some("GET"));
        assert_eq!(q.endpoint.as_deref(), Some("/x"));
        assert_eq!(q.protocol.as_deref(), Some("http"));
        assert_eq!(q.status.as_deref(), Some("error"));
        assert_eq!(q.tap.as_deref(), Some("server-process"));
        assert_eq!((q.min_duration_ns, q.max_duration_ns), (Some(10_000_000), Some(1_000_000_000)));
        assert_eq!(q.attributes, [("a".into(), "b:c".into()), ("d".into(), String::new())]);
        assert_eq!((q.order, q.limit), (Order::Slowest, 7));
    }

    #[test]
    fn empty_values_are_no_conditions() {
        assert_eq!(ask("service=&from=&q=&limit=").unwrap(), Query::default());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (raw, param, hint) in [
            ("status=eror", "status", Some("did you mean `error`?")),
            ("tap=server", "tap", None),
            ("limit=0", "limit", None),
            ("limit=1001", "limit", None),
            ("min_duration=10", "min_duration", None),
            ("from=yesterday", "from", None),
            ("from=2&to=1", "from", None),
            ("attr=nocolon", "attr", Some("write attr=http.route:/cart, one attr= per condition")),
            ("order=fastest", "order", Some("newest or slowest")),
            ("service=a&q=service%3Db", "q", None),
        ] {
            let problem = ask(raw).unwrap_err().problem;
            assert_eq!(problem.param.as_deref(), Some(param), "{raw}");
            if hint.is_some() {
                assert_eq!(problem.hint.as_deref(), hint, "{raw}");
            }
        }
        assert!(ask("servce=x").unwrap_err().problem.message.contains("servce"));
    }
}
