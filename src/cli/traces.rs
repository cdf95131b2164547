//! `wirespan traces`: search the traces of a running wirespan.

use super::client::{encode, ClientArgs};
use super::Format;
use crate::config::Config;
use anyhow::Result;
use clap::Args;
use std::collections::HashSet;
use std::process::ExitCode;
use wirespan_model::{plain, waits_for_work, Trace};
use wirespan_store::{Order, Query, Store};
use wirespan_trace::{assemble, fold, is_noise, tree, Limits};
use wirespan_view::StoredSpans;

#[derive(Args)]
pub(crate) struct TracesArgs {
    /// Conditions, all of which must hold: service=cart status=error duration>10ms operation=GET endpoint=/x
    /// protocol=redis
    #[arg(value_name = "CONDITION")]
    query: Vec<String>,
    /// Since when: -15m, an RFC 3339 time, or Unix ns
    #[arg(long, default_value = "-1h", allow_hyphen_values = true)]
    from: String,
    /// Until when
    #[arg(long, allow_hyphen_values = true)]
    to: Option<String>,
    /// Slowest first (else newest first)
    #[arg(long)]
    slowest: bool,
    /// Most traces
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    client: ClientArgs,
}

pub(crate) fn traces(args: TracesArgs, config: &Config) -> Result<ExitCode> {
    let mut path = format!("/api/v1/traces?from={}&limit={}", encode(&args.from), args.limit);
    if let Some(to) = &args.to {
        path.push_str(&format!("&to={}", encode(to)));
    }
    if args.slowest {
        path.push_str("&order=slowest");
    }
    if !args.query.is_empty() {
        path.push_str(&format!("&q={}", encode(&args.query.join(" "))));
    }
    let answer = args.client.get(config, &path)?;
    let traces = answer["traces"].as_array().cloned().unwrap_or_default();
    if args.format == Format::Json {
        traces.iter().for_each(|t| println!("{}", plain::json(&t.to_string())));
        return Ok(ExitCode::SUCCESS);
    }
    for t in &traces {
        let text = |key: &str| plain::line(t[key].as_str().unwrap_or("")).into_owned();
        let errors = t["errors"].as_u64().filter(|n| *n > 0).map(|n| format!("  {n} errors")).unwrap_or_default();
        println!(
            "{}  {:>9}  {:>3} spans  {}{errors}",
            text("id"),
            tree::duration(i128::from(t["duration_ns"].as_u64().unwrap_or(0))),
            t["spans"].as_u64().unwrap_or(0),
            format_args!("{}: {}", text("service"), text("name")),
        );
    }
    if traces.is_empty() {
        eprintln!("wirespan: nothing matches");
    }
    Ok(ExitCode::SUCCESS)
}

/// Most traces that are assembled to find the slowest.
const LOOKED_AT: usize = 200;

/// The slowest traces of a store, each once. A span that nothing joins tells little: such traces come last, and behind
/// them calls whose duration is no speed: connections of an unknown protocol, and calls that wait for work.
///
/// Unless `housekeeping` is wanted, that of drivers is folded, and traces of nothing but housekeeping or port probes
/// are given only if there is nothing else.
pub(super) fn slowest(store: &dyn Store, limit: usize, limits: &Limits, housekeeping: bool) -> Result<Vec<Trace>> {
    let query = Query { order: Order::Slowest, limit: 2000, ..Query::default() };
    let mut seen = HashSet::new();
    let (mut joined, mut alone, mut noise) = (Vec::new(), Vec::new(), Vec::new());
    let mut spans = store.search(&query)?;
    spans.sort_by_key(|s| matches!(&*s.protocol, "tcp" | "udp" | "unix") || waits_for_work(s));
    for span in spans {
        if joined.len() == limit || joined.len() + alone.len() == LOOKED_AT.max(limit) {
            break;
        }
        if seen.contains(&span.id) {
            continue;
        }
        let mut trace = assemble(&StoredSpans(store), span.id, limits)?;
        seen.extend(trace.spans.iter().map(|s| s.span.id));
        if !housekeeping && is_noise(&trace) {
            noise.push(trace);
            continue;
        }
        if !housekeeping {
            fold(&mut trace);
        }
        if trace.spans.len() > 1 { &mut joined } else { &mut alone }.push(trace);
    }
    joined.extend(alone);
    if joined.is_empty() {
        joined = noise;
    }
    joined.truncate(limit);
    Ok(joined)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use wirespan_model::{ExchangeRange, Span, SpanId, Status, TapSide};
    use wirespan_store::{Embedded, Options};

    /// Within the store's retention, ns after the epoch.
    fn span(id: u64, length_ns: u64) -> Span {
        let start_ns = crate::clock::now_ns() - 1_000_000_000;
        let tap = TapSide::ServerProcess;
        Span { id: SpanId(id), start_ns, end_ns: start_ns + length_ns, protocol: "http".into(), tap, ..Span::default() }
    }

    #[test]
    fn whole_traces_come_before_slower_spans_that_nothing_joins() {
        let store = Embedded::memory(Options::default()).expect("in memory");
        let exchange = ExchangeRange { first: 7 << 24 | 1, last: 7 << 24 | 1 };
        let request = Span { exchange: Some(exchange), ..span(1, 1_000_000) };
        let call = Span { cause: Some(exchange.first), tap: TapSide::ClientProcess, ..span(2, 500_000) };
        let spans = vec![Arc::new(request), Arc::new(call), Arc::new(span(3, 900_000_000))];
        store.append(spans).expect("it is stored");
        let traces = slowest(&store, 5, &Limits::default(), false).expect("it is searched");
        let sizes: Vec<usize> = traces.iter().map(|t| t.spans.len()).collect();
        assert_eq!(sizes, [2, 1]);
        assert_eq!(slowest(&store, 1, &Limits::default(), false).expect("it is searched").len(), 1);
    }

    #[test]
    fn calls_that_wait_for_work_are_not_the_slowest() {
        let store = Embedded::memory(Options::default()).expect("in memory");
        let poll = Span { protocol: "redis".into(), operation: "BLPOP".into(), ..span(1, 900_000_000) };
        store.append(vec![Arc::new(poll), Arc::new(span(2, 1_000_000))]).expect("it is stored");
        let traces = slowest(&store, 5, &Limits::default(), false).expect("it is searched");
        let ids: Vec<SpanId> = traces.iter().map(|t| t.spans[0].span.id).collect();
        assert_eq!(ids, [SpanId(2), SpanId(1)]);
    }

    #[test]
    fn housekeeping_is_shown_only_if_there_is_nothing_else() {
        let of = |id, protocol: &'static str, operation: &str| {
            let operation = operation.into();
            Arc::new(Span { protocol: protocol.into(), operation, status: Status::Ok, ..span(id, 1_000_000) })
        };
        let store = Embedded::memory(Options::default()).expect("in memory");
        store.append(vec![of(1, "redis", "PING")]).expect("it is stored");
        let printed = |housekeeping| -> Vec<SpanId> {
            let traces = slowest(&store, 5, &Limits::default(), housekeeping).expect("it is searched");
            traces.iter().map(|t| t.spans[0].span.id).collect()
        };
        assert_eq!(printed(false), [SpanId(1)], "all that `redis-cli ping` did");
        store.append(vec![of(2, "http", "GET")]).expect("it is stored");
        assert_eq!(printed(false), [SpanId(2)]);
        assert_eq!(printed(true).len(), 2);
    }
}
