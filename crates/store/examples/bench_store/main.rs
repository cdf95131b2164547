//! Measures the embedded store on synthetic spans: `cargo run --release -p wirespan-store --example bench_store --
//! --spans 5000000`.
//!
//! Prints one table. The baseline is what a program would do without a store: each span as a line of JSON in a file.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod load;

use load::{Load, TRACE_SPANS};
use rustix::time::{clock_gettime, ClockId};
use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use wirespan_model::{Key, Span, SpanKind};
use wirespan_store::{Embedded, Options, Order, Query, Store, TimeRange};

const BATCH: usize = 512;
const MINUTES_15: u64 = 15 * 60 * 1_000_000_000;

fn cpu(clock: ClockId) -> f64 {
    let t = clock_gettime(clock);
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

/// CPU seconds of the process without those of `generate`, which is run on this thread.
struct Meter {
    start: f64,
    generating: f64,
}

impl Meter {
    fn new() -> Meter {
        Meter { start: cpu(ClockId::ProcessCPUTime), generating: 0.0 }
    }
    fn outside<T>(&mut self, f: impl FnOnce() -> T) -> T {
        let before = cpu(ClockId::ThreadCPUTime);
        let out = f();
        self.generating += cpu(ClockId::ThreadCPUTime) - before;
        out
    }
    fn seconds(&self) -> f64 {
        cpu(ClockId::ProcessCPUTime) - self.start - self.generating
    }
}

fn status_mb(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

fn disk_bytes(dir: &Path) -> u64 {
    std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum()
}

fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|l| l.strip_prefix("model name"))
        .unwrap_or("unknown")
        .trim_start_matches([' ', '\t', ':']);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{model}, {cores} cores, Linux {}", kernel.trim())
}

/// Milliseconds on the clock, and of the processor: on a busy machine the second says more.
struct Times {
    wall: Vec<f64>,
    cpu: Vec<f64>,
}

impl Times {
    fn of(n: usize, mut f: impl FnMut(usize)) -> Times {
        let (mut wall, mut cpu_ms) = (Vec::new(), Vec::new());
        for i in 0..n {
            let (start, before) = (Instant::now(), cpu(ClockId::ThreadCPUTime));
            f(i);
            wall.push(start.elapsed().as_secs_f64() * 1e3);
            cpu_ms.push((cpu(ClockId::ThreadCPUTime) - before) * 1e3);
        }
        wall.sort_by(f64::total_cmp);
        cpu_ms.sort_by(f64::total_cmp);
        Times { wall, cpu: cpu_ms }
    }
    fn show(&self) -> String {
        let at = |times: &[f64], q: f64| times[((times.len() - 1) as f64 * q) as usize];
        format!(
            "{:.1} / {:.1} ms (CPU {:.1} / {:.1})",
            at(&self.wall, 0.5),
            at(&self.wall, 0.99),
            at(&self.cpu, 0.5),
            at(&self.cpu, 0.99)
        )
    }
}

fn row(what: &str, value: impl std::fmt::Display, note: &str) {
    println!("| {what} | {value} | {note} |");
}

fn main() {
    let mut spans = 1_000_000usize;
    let mut dir = None;
    let mut ask = true;
    let mut rate = None;
    let mut options = Options { max_age: std::time::Duration::MAX, ..Options::default() };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match (arg.as_str(), args.next()) {
            ("--spans", Some(n)) => spans = n.replace('_', "").parse().unwrap(),
            ("--dir", Some(d)) => dir = Some(PathBuf::from(d)),
            ("--queries", Some(yes)) => ask = yes == "yes",
            ("--flush-rows", Some(n)) => options.flush_rows = n.parse().unwrap(),
            ("--rate", Some(n)) => rate = Some(n.parse::<f64>().unwrap()),
            _ => {
                eprintln!(
                    "usage: bench_store [--spans N] [--dir EMPTY_DIRECTORY] [--queries yes|no] [--rate \
                    SPANS_PER_SECOND] [--flush-rows N]"
                );
                std::process::exit(2);
            }
        }
    }
    let temporary = tempfile::tempdir().unwrap();
    let dir = dir.unwrap_or_else(|| temporary.path().join("store"));
    println!("machine: {}", machine());
    println!(
        "spans: {spans} over one hour, {TRACE_SPANS} per trace, each trace scattered over {} rows\n",
        load::SCATTER
    );
    println!("| what | value | notes |\n|---|---|---|");

    let load = Load::new(spans);
    let baseline = json_lines(&load, spans.min(200_000), &temporary.path().join("lines.json"));
    row("baseline: JSON lines, CPU", format!("{:.2} µs/span", baseline.0), "serde_json, write, sync at the end");
    row("baseline: JSON lines, size", format!("{:.0} bytes/span", baseline.1), "");

    let rss_before = status_mb("VmRSS");
    let store = Embedded::open(&dir, options.clone()).unwrap();
    let mut meter = Meter::new();
    let wall = Instant::now();
    let mut at = 0;
    while at < spans {
        let batch = meter.outside(|| (at..(at + BATCH).min(spans)).map(|i| Arc::new(load.span(i))).collect::<Vec<_>>());
        at += batch.len();
        store.append(batch).unwrap();
        if let Some(rate) = rate {
            let due = std::time::Duration::from_secs_f64(at as f64 / rate);
            std::thread::sleep(due.saturating_sub(wall.elapsed()));
        }
    }
    let appended = wall.elapsed().as_secs_f64();
    let cpu_appended = meter.seconds();
    let memory_rows = store.status().spans;
    if ask {
        println_memory(&store, &load, memory_rows);
    }
    let meter_rest = Meter::new();
    store.compact().unwrap();
    let cpu_all = cpu_appended + meter_rest.seconds();
    let n = spans as f64;
    row(
        "ingest CPU",
        format!("{:.2} µs/span ({:.2}× the baseline)", cpu_all * 1e6 / n, cpu_all * 1e6 / n / baseline.0),
        "keys, log, memory segment, segments, merging; target 2",
    );
    row("ingest, one thread appending", format!("{:.0} spans/s", n / appended), "wall clock");
    row(
        "size",
        format!(
            "{:.1} bytes/span ({:.2}× the baseline)",
            disk_bytes(&dir) as f64 / n,
            disk_bytes(&dir) as f64 / n / baseline.1
        ),
        "data and keys; target 60",
    );
    let keys: u64 = files(&dir, "keys");
    row("of this keys", format!("{:.1} bytes/span in {} segments", keys as f64 / n, count(&dir, "keys")), "");
    row("peak RSS, ingest", format!("{:.0} MB", status_mb("VmHWM")), &format!("{rss_before:.0} MB before opening"));
    if ask {
        queries(&store, &load, spans);
    }
    row("peak RSS, all", format!("{:.0} MB", status_mb("VmHWM")), "");
    drop(store);
    let start = Instant::now();
    drop(Embedded::open(&dir, options.clone()).unwrap());
    row("open and close", format!("{:.1} ms", start.elapsed().as_secs_f64() * 1e3), "");
    column_sizes(&dir, n);
}

fn files(dir: &Path, ext: &str) -> u64 {
    let of = |e: &std::fs::DirEntry| e.path().extension().is_some_and(|x| x == ext);
    std::fs::read_dir(dir).unwrap().map(|e| e.unwrap()).filter(of).map(|e| e.metadata().unwrap().len()).sum()
}

fn count(dir: &Path, ext: &str) -> usize {
    let of = |e: &std::fs::DirEntry| e.path().extension().is_some_and(|x| x == ext);
    std::fs::read_dir(dir).unwrap().map(|e| e.unwrap()).filter(of).count()
}

/// CPU µs and bytes per span of the baseline.
fn json_lines(load: &Load, spans: usize, path: &Path) -> (f64, f64) {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    let mut meter = Meter::new();
    for i in 0..spans {
        let span = meter.outside(|| load.span(i));
        serde_json::to_writer(&mut file, &span).unwrap();
        file.write_all(b"\n").unwrap();
    }
    let file = file.into_inner().unwrap();
    file.sync_all().unwrap();
    let bytes = file.metadata().unwrap().len();
    (meter.seconds() * 1e6 / spans as f64, bytes as f64 / spans as f64)
}

/// Look-ups while the newest spans are still in memory.
fn println_memory(store: &Embedded, load: &Load, rows: u64) {
    let newest = load.traces() - 1;
    let times = Times::of(100, |i| {
        let keys = load.trace_keys(newest.saturating_sub(i));
        store.find(&keys, load.around(newest.saturating_sub(i)), 1000).unwrap();
    });
    row("assembly round, newest traces", times.show(), &format!("p50 / p99, ± 5 min, part in memory, {rows} rows"));
}

fn queries(store: &Embedded, load: &Load, spans: usize) {
    let rows = format!("p50 / p99, {spans} rows");
    let pick = |i: usize| (i * 7919 + 13) % load.traces();
    let one = Times::of(300, |i| {
        let keys: Vec<Key> = load.trace_keys(pick(i));
        let found = store.find(&keys[i % keys.len()..][..1], TimeRange::ALL, 1000).unwrap();
        assert!(!found.is_empty());
    });
    row("one key, all time", one.show(), &rows);
    let near = Times::of(200, |i| {
        let found = store.find(&load.trace_keys(pick(i)), load.around(pick(i)), 1000).unwrap();
        assert_eq!(found.len(), TRACE_SPANS);
    });
    row(
        "assembly round, ± 5 min",
        near.show(),
        &format!("{rows}; all keys of {TRACE_SPANS} spans at once; target p99 20"),
    );
    let all = Times::of(200, |i| {
        let found = store.find(&load.trace_keys(pick(i + 1000)), TimeRange::ALL, 1000).unwrap();
        assert_eq!(found.len(), TRACE_SPANS);
    });
    row("assembly round, all time", all.show(), &rows);
    let (first, last) = load.times();
    let to_ns = first + (last - first) / 2;
    let range = TimeRange { from_ns: to_ns.saturating_sub(MINUTES_15), to_ns };
    let in_range = spans as f64 * (range.to_ns - range.from_ns) as f64 / (last - first) as f64;
    let filtered = Query {
        range,
        service: Some("service-3".into()),
        min_duration_ns: Some(1_000_000),
        order: Order::Slowest,
        ..Query::default()
    };
    let list = |query: &Query| Times::of(20, |_| assert_eq!(store.search(query).unwrap().len(), 100)).show();
    let note = format!("p50 / p99, 15 minutes = {in_range:.0} of {spans} rows, top 100");
    row("list: service, ≥ 1 ms, slowest", list(&filtered), &format!("{note}; target 40"));
    row("list: errors, newest", list(&Query { range, status: Some("error".into()), ..Query::default() }), &note);
    row("list: no filter, newest", list(&Query { range, ..Query::default() }), &note);
    row(
        "list: endpoint contains, slowest",
        list(&Query { range, endpoint: Some("items/77".into()), order: Order::Slowest, ..Query::default() }),
        &note,
    );
    let attribute = vec![("user_agent.original".to_owned(), "curl/8.7.1".to_owned())];
    row(
        "list: attribute, slowest",
        list(&Query { range, attributes: attribute, order: Order::Slowest, ..Query::default() }),
        &note,
    );
    let scan = Times::of(3, |_| {
        let mut n = 0;
        store.scan(range, &mut |_| n += 1).unwrap();
        assert!(n > 1000);
    });
    row("scan, whole spans", scan.show(), &note);
    let map = Times::of(5, |_| {
        let mut edges: HashMap<(Arc<wirespan_model::Resource>, u16), (u64, u64)> = HashMap::new();
        store
            .scan_outline(range, &mut |s: &Span| {
                if s.kind == SpanKind::Client {
                    let e = edges.entry((s.resource.clone(), s.tuple.server.port)).or_default();
                    *e = (e.0 + 1, e.1 + s.duration_ns());
                }
            })
            .unwrap();
        assert!(edges.len() > 10);
    });
    row("scan (map), outlines", map.show(), &note);
}

/// Compressed bytes per span of each column.
fn column_sizes(dir: &Path, spans: f64) {
    let mut sizes: Vec<(String, f64)> = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()) {
        if entry.extension().is_none_or(|e| e != "parquet") {
            continue;
        }
        let file = std::fs::File::open(entry).unwrap();
        let meta = parquet::file::metadata::ParquetMetaDataReader::new().parse_and_finish(&file).unwrap();
        for column in meta.row_groups().iter().flat_map(|g| g.columns()) {
            let (name, bytes) = (column.column_path().string(), column.compressed_size() as f64 / spans);
            match sizes.iter_mut().find(|s| s.0 == name) {
                Some(s) => s.1 += bytes,
                None => sizes.push((name, bytes)),
            }
        }
    }
    sizes.sort_by(|a, b| b.1.total_cmp(&a.1));
    let list: Vec<String> = sizes.iter().map(|(name, bytes)| format!("{name} {bytes:.2}")).collect();
    println!("\nbytes per span by column: {}", list.join(", "));
}
