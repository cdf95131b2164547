//! `wirespan explain SPAN`: where the time of one request went. `wirespan explain CONDITION…`: what slow requests do
//! that others do not.

use super::client::{encode, ClientArgs};
use super::{flame, Format};
use crate::config::Config;
use crate::slow::form;
use anyhow::{bail, Context as _, Result};
use clap::Args;
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use wirespan_model::{plain, Span, SpanId, TapSide, Trace};
use wirespan_store::{Query, Store};
use wirespan_trace::{Comparison, Parts, Story, Usual};

/// Most spans of the same endpoint that are compared.
const COMPARED: usize = 500;
/// Most requests of which the slowest are compared with the others.
const MOST: usize = 5_000;
/// So many others must be alike, and half of them so many times faster, for a request to be called slow in the demo.
const ENOUGH: usize = 10;
const SLOW: u64 = 2;
/// How far back they are looked for.
const BEFORE_NS: u64 = 3_600_000_000_000;

#[derive(Args)]
pub(crate) struct ExplainArgs {
    /// Id of a span (16 hex digits), or of a trace (32): its longest request. Or conditions as of `wirespan traces`:
    /// the slowest requests that meet them are compared with the others
    #[arg(required = true, value_name = "ID|CONDITION")]
    what: Vec<String>,
    /// Since when requests are compared: -15m, an RFC 3339 time, or Unix ns
    #[arg(long, default_value = "-1h", allow_hyphen_values = true)]
    from: String,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Of a span: tell each wait and each call in the order of time, also short ones
    #[arg(long)]
    timeline: bool,
    /// Also write a flame graph of the code in which it ran and waited; of conditions, slow requests beside usual ones.
    /// The name ends in .svg for a picture, else it is folded text
    #[arg(long, value_name = "FILE")]
    flame: Option<PathBuf>,
    #[command(flatten)]
    client: ClientArgs,
}

pub(crate) fn explain(args: ExplainArgs, config: &Config) -> Result<ExitCode> {
    match &args.what[..] {
        [id] if !id.contains(['=', '<', '>']) => {
            explain_span(&args.client, args.format, id, args.timeline, config)?;
            if let Some(file) = &args.flame {
                flame::of_span(&args.client, id, file, config)?;
            }
        }
        conditions => {
            let conditions = conditions.join(" ");
            if let Some(file) = &args.flame {
                flame::of_conditions(&args.client, &conditions, &args.from, file, config)?;
            }
            compare(&args, &conditions, config)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Says of one span where its time went.
pub(super) fn explain_span(
    client: &ClientArgs,
    format: Format,
    id: &str,
    every_moment: bool,
    config: &Config,
) -> Result<()> {
    let answer = client.get(config, &format!("/api/v1/trace/{}/model", encode(id)))?;
    let trace: Trace = serde_json::from_value(answer).context("the server is of another version")?;
    let span = chosen(&trace, id)?;
    let mut others = Others { client, config, known: HashMap::new(), failed: None };
    let story = Story::of(&trace, span.id, &mut |span| others.usual(span)).context("the trace has no such span")?;
    if let Some(error) = others.failed {
        return Err(error);
    }
    match format {
        Format::Json => println!("{}", plain::json(&serde_json::to_string_pretty(&story)?)),
        Format::Text => print!("{}", story.text(every_moment)),
    }
    Ok(())
}

/// The slowest requests that meet the conditions, beside the others.
fn compare(args: &ExplainArgs, conditions: &str, config: &Config) -> Result<()> {
    let path = format!("/api/v1/spans/model?q={}&from={}&limit={MOST}", encode(conditions), encode(&args.from));
    let mut spans = spans(&args.client, config, &path)?;
    spans.retain(|span| span.tap == TapSide::ServerProcess);
    let Some(found) = Comparison::of(spans.iter()) else {
        bail!(
            "{} of the requests that meet `{conditions}` since {} say where their time went: too few to compare",
            spans.iter().filter(|span| Parts::of(span).is_some()).count(),
            args.from
        );
    };
    match args.format {
        Format::Json => println!("{}", plain::json(&serde_json::to_string_pretty(&found)?)),
        Format::Text => print!("{}\n  wirespan explain {} says it of the slowest.\n", found.text(), found.slowest),
    }
    Ok(())
}

/// The span with this id, or the longest request of the trace.
pub(super) fn chosen<'a>(trace: &'a Trace, id: &str) -> Result<&'a Span> {
    let named = (id.len() <= 16).then(|| u64::from_str_radix(id, 16)).and_then(Result::ok).map(SpanId);
    let found = match named {
        Some(id) => trace.spans.iter().map(|s| s.span.as_ref()).find(|span| span.id == id),
        None => longest(trace),
    };
    match found {
        Some(span) => Ok(span),
        None => bail!("no span {id} is in its trace"),
    }
}

/// The longest request of a trace: one whose parts are known if there is any.
fn longest(trace: &Trace) -> Option<&Span> {
    trace.spans.iter().map(|s| s.span.as_ref()).max_by_key(|span| (Parts::of(span).is_some(), span.duration_ns()))
}

/// That request in words, if it is known where its time went.
pub(super) fn longest_in_words(trace: &Trace) -> Option<String> {
    let span = longest(trace).filter(|span| Parts::of(span).is_some())?;
    Story::of(trace, span.id, &mut |_| None).map(|story| story.text(false))
}

/// Of the longest requests of these traces, the one that took most beside others like it, in words. `None` if none
/// took much longer than usual.
pub(super) fn slow_in_words(store: &dyn Store, traces: &[Trace]) -> Option<String> {
    let times = |trace| {
        let span = longest(trace).filter(|span| Parts::of(span).is_some())?;
        let usual = usual_in(store, span).filter(|usual| usual.spans >= ENOUGH)?;
        Some((trace, span, span.duration_ns() / usual.duration_ns.max(1)))
    };
    let (trace, span, _) = traces.iter().filter_map(times).max_by_key(|(.., times)| *times).filter(|s| s.2 >= SLOW)?;
    let story = Story::of(trace, span.id, &mut |span| usual_in(store, span))?;
    Some(format!("Why was it slow? `wirespan explain {}` says:\n\n{}", span.id, story.text(false)))
}

/// What is usual for spans like this one, by the newest of a store.
fn usual_in(store: &dyn Store, span: &Span) -> Option<Usual> {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let query = Query {
        service: text(&span.resource.service),
        tap: text(span.tap.as_str()),
        operation: text(&span.operation),
        limit: COMPARED,
        ..Query::default()
    };
    usual_of(span, store.search(&query).ok()?.iter().map(AsRef::as_ref))
}

/// What is usual for those of these spans that are like this one.
fn usual_of<'a>(span: &Span, spans: impl Iterator<Item = &'a Span>) -> Option<Usual> {
    let own = form(&span.target);
    Usual::of(spans.filter(|other| other.id != span.id && form(&other.target) == own))
}

/// Spans of the query API.
fn spans(client: &ClientArgs, config: &Config, path: &str) -> Result<Vec<Span>> {
    serde_json::from_value(client.get(config, path)?).context("the server is of another version")
}

/// Asks for spans to compare with.
struct Others<'a> {
    client: &'a ClientArgs,
    config: &'a Config,
    /// What was asked for already.
    known: HashMap<String, Vec<Span>>,
    failed: Option<anyhow::Error>,
}

impl Others<'_> {
    /// What is usual for spans like this one: same service, observation point, operation and form of the target, in the
    /// hour before.
    fn usual(&mut self, span: &Span) -> Option<Usual> {
        let service = &*span.resource.service;
        if self.failed.is_some() || service.is_empty() || service.contains(char::is_whitespace) {
            return None;
        }
        let conditions = format!("service={service} tap={} operation={}", span.tap.as_str(), span.operation);
        let conditions = encode(conditions.trim_end_matches("operation="));
        if !self.known.contains_key(&conditions) {
            let from_ns = span.start_ns.saturating_sub(BEFORE_NS);
            let path = format!("/api/v1/spans/model?q={conditions}&from={from_ns}&limit={COMPARED}");
            let found = spans(self.client, self.config, &path);
            let found = found.map_err(|error| self.failed = Some(error)).ok()?;
            self.known.insert(conditions.clone(), found);
        }
        usual_of(span, self.known.get(&conditions)?.iter())
    }
}
