//! Parameters of Jaeger's search.

use crate::error::ApiError;
use crate::filter::{params, parse_limit};
use crate::when::parse_duration;
use serde::Deserialize;
use wirespan_store::{Query, TimeRange};

const LIMIT: usize = 20;
const MAX_LIMIT: usize = 500;
const DAY_NS: u64 = 86_400_000_000_000;

/// The parameters of Jaeger UI and Grafana. Unlike wirespan's own API, this one accepts unknown names, because both
/// send parameters that are not needed.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Params {
    service: String,
    operation: String,
    /// Unix µs.
    start: String,
    /// Unix µs.
    end: String,
    lookback: String,
    min_duration: String,
    max_duration: String,
    limit: String,
    /// JSON object of text values.
    tags: String,
    /// `key:value`, older form.
    tag: Vec<String>,
    #[serde(rename = "traceID")]
    pub(super) trace_id: Vec<String>,
    pub(super) span_kind: Option<String>,
    /// Unix ms (dependencies).
    end_ts: String,
}

impl Params {
    pub(super) fn read(raw: Option<&str>) -> Result<Self, ApiError> {
        params(raw)
    }

    pub(super) fn service(&self) -> Result<String, ApiError> {
        if self.service.is_empty() {
            return Err(ApiError::bad_query("service", "parameter 'service' is required"));
        }
        Ok(self.service.clone())
    }

    pub(super) fn query(&self, now_ns: u64) -> Result<Query, ApiError> {
        let mut query = Query { limit: LIMIT, service: Some(self.service()?), ..Query::default() };
        let scaled = |param, text: &str, scale: u64| -> Result<Option<u64>, ApiError> {
            if text.is_empty() {
                return Ok(None);
            }
            let n: Option<u64> = text.parse().ok();
            match n.and_then(|n| n.checked_mul(scale)) {
                Some(n) => Ok(Some(n)),
                None => Err(ApiError::bad_query(param, format!("{param}: `{text}` is not a number of microseconds"))),
            }
        };
        let duration = |param, text: &str| match text {
            "" => Ok(None),
            _ => parse_duration(text).map(Some).map_err(|e| ApiError::bad_query(param, e)),
        };
        query.range.to_ns = scaled("end", &self.end, 1_000)?.map_or(u64::MAX, |end| end.saturating_add(1_000));
        query.range.from_ns = match (scaled("start", &self.start, 1_000)?, self.lookback.as_str()) {
            (Some(start), _) => start,
            (None, "" | "custom") => 0,
            (None, text) => now_ns.saturating_sub(duration("lookback", text)?.unwrap_or(0)),
        };
        if !matches!(self.operation.as_str(), "" | "all") {
            query.operation = Some(self.operation.clone());
        }
        query.min_duration_ns = duration("minDuration", &self.min_duration)?;
        query.max_duration_ns = duration("maxDuration", &self.max_duration)?;
        if !self.limit.is_empty() {
            query.limit = parse_limit(&self.limit, MAX_LIMIT).or_else(|e| match self.limit.parse::<usize>() {
                Ok(n) if n > MAX_LIMIT => Ok(MAX_LIMIT),
                _ => Err(e),
            })?;
        }
        for (key, value) in self.tag_pairs()? {
            match (key.as_str(), value.as_str()) {
                ("error", "true") => query.status = Some("error".to_owned()),
                ("wirespan.tap_side", _) => query.tap = Some(value),
                ("wirespan.status", _) => query.status = Some(value),
                _ => query.attributes.push((key, value)),
            }
        }
        Ok(query)
    }

    fn tag_pairs(&self) -> Result<Vec<(String, String)>, ApiError> {
        let mut pairs = object("tags", &self.tags)?;
        for tag in &self.tag {
            let Some((key, value)) = tag.split_once(':') else {
                return Err(ApiError::bad_query(
                    "tag",
                    format!("malformed 'tag' parameter, expecting key:value, received: {tag}"),
                ));
            };
            pairs.push((key.to_owned(), value.to_owned()));
        }
        Ok(pairs)
    }

    /// Range of `endTs` and `lookback`, both ms. Default: the last day.
    pub(super) fn dependency_range(&self, now_ns: u64) -> Result<TimeRange, ApiError> {
        let ms = |param, text: &str, default: u64| match text {
            "" => Ok(default),
            _ => text.parse::<u64>().ok().and_then(|n| n.checked_mul(1_000_000)).ok_or_else(|| {
                ApiError::bad_query(param, format!("{param}: `{text}` is not a number of milliseconds"))
            }),
        };
        let to_ns = ms("endTs", &self.end_ts, now_ns)?;
        Ok(TimeRange { from_ns: to_ns.saturating_sub(ms("lookback", &self.lookback, DAY_NS)?), to_ns })
    }
}

/// The pairs of a JSON object, values as text.
pub(super) fn object(param: &str, text: &str) -> Result<Vec<(String, String)>, ApiError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let map: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text)
        .map_err(|e| ApiError::bad_query(param, format!("{param} is not a JSON object: {e}")))?;
    let text_of = |value| match value {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    Ok(map.into_iter().map(|(key, value)| (key, text_of(value))).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn ask(raw: &str) -> Result<Query, ApiError> {
        Params::read(Some(raw))?.query(10_000_000_000)
    }

    #[test]
    fn what_jaeger_ui_sends() {
        let q = ask("end=2000000&limit=20&lookback=1h&maxDuration=2s&minDuration=1.2ms&service=cart&start=1000000\
            &operation=GET%20%2Fcart&tags=%7B%22error%22%3A%22true%22%2C%22http.route%22%3A%22%2Fx%22%7D")
        .unwrap();
        assert_eq!((q.range.from_ns, q.range.to_ns), (1_000_000_000, 2_000_001_000));
        assert_eq!((q.min_duration_ns, q.max_duration_ns), (Some(1_200_000), Some(2_000_000_000)));
        assert_eq!((q.operation.as_deref(), q.status.as_deref()), (Some("GET /cart"), Some("error")));
        assert_eq!(q.attributes, [("http.route".to_owned(), "/x".to_owned())]);
        assert_eq!(q.limit, 20);
    }

    #[test]
    fn lookback_without_start_and_large_limits() {
        let q = ask("service=cart&lookback=2s&limit=1500&tag=a:b:c").unwrap();
        assert_eq!((q.range.from_ns, q.limit), (8_000_000_000, MAX_LIMIT));
        assert_eq!(q.attributes, [("a".to_owned(), "b:c".to_owned())]);
    }

    #[test]
    fn bad_parameters_are_named() {
        for (raw, param) in [
            ("limit=1", "service"),
            ("service=a&start=x", "start"),
            ("service=a&minDuration=1", "minDuration"),
            ("service=a&tags=%7B", "tags"),
            ("service=a&tag=x", "tag"),
            ("service=a&limit=none", "limit"),
        ] {
            assert_eq!(ask(raw).unwrap_err().problem.param.as_deref(), Some(param), "{raw}");
        }
    }
}
