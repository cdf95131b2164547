//! Readers of what a browser sends, for the fuzz targets (`fuzz/`). Only with the feature `fuzzed`.

use crate::filter::{params, SearchParams};
use crate::jaeger;
use crate::when::{parse_duration, parse_time};

/// A query: of the text box, as parameters of a request, and as Jaeger's UI sends it.
pub fn query(text: &str) {
    let asked = SearchParams { q: Some(text.into()), ..SearchParams::default() };
    if let Ok(query) = asked.query(20, 500) {
        assert!((1..=500).contains(&query.limit) && query.range.from_ns < query.range.to_ns, "{query:?}");
    }
    if let Ok(query) = params::<SearchParams>(Some(text)).and_then(|asked| asked.query(20, 500)) {
        assert!((1..=500).contains(&query.limit) && query.range.from_ns < query.range.to_ns, "{query:?}");
    }
    jaeger::fuzzed(text);
    let _ = parse_duration(text);
    let _ = parse_time(text, 1 << 60);
}
