//! A crash may lose the last second, and nothing else.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wirespan_model::SpanId;
use wirespan_store::{Embedded, Options, Store, TimeRange};

const CHILD: &str = "WIRESPAN_STORE_TEST_CHILD";

/// Small limits, so that logs are rotated, segments made and merged while the child runs.
fn busy() -> Options {
    Options { flush_rows: 10_000, merge_count: 3, ..support::options() }
}

/// The body of the process that is killed, not a test of its own. It appends numbered spans, and prints after each
/// append how many spans the store has taken.
#[test]
fn child_appends_until_killed() {
    let Some(dir) = std::env::var_os(CHILD) else { return };
    let store = Embedded::open(Path::new(&dir), busy()).unwrap();
    let mut n = store.status().spans;
    let mut out = std::io::stdout().lock();
    loop {
        let batch = (n + 1..=n + 100).map(|n| support::plain(n, 1_000_000 + n)).collect();
        store.append(batch).unwrap();
        n += 100;
        writeln!(out, "acked {n}").unwrap();
        // About 50,000 spans per second: enough to be busy, not enough to fill a disk.
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn kill_loses_at_most_the_last_second() {
    let dir = tempfile::tempdir().unwrap();
    let mut before = 0;
    for (round, run_ms) in [1_700u64, 2_300, 1_250, 3_100, 1_900].into_iter().enumerate() {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_appends_until_killed", "--nocapture", "--test-threads=1"])
            .env(CHILD, dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        // The time at which each count was read.
        let acked = std::thread::spawn(move || {
            let counts = output.lines().map_while(Result::ok);
            counts
                .filter_map(|l| l.split_once("acked ").and_then(|(_, n)| n.parse::<u64>().ok()))
                .map(|n| (Instant::now(), n))
                .collect::<Vec<_>>()
        });
        std::thread::sleep(Duration::from_millis(run_ms));
        let killed = Instant::now();
        child.kill().unwrap();
        child.wait().unwrap();
        let acked = acked.join().unwrap();
        let safe = acked.iter().rfind(|(at, _)| *at + Duration::from_secs(1) < killed).map_or(before, |a| a.1);
        let last = acked.last().map_or(before, |a| a.1);

        let store = Embedded::open(dir.path(), busy()).unwrap();
        let mut ids = Vec::new();
        store.scan(TimeRange::ALL, &mut |s| ids.push(s.id.0)).unwrap();
        ids.sort_unstable();
        let kept = ids.len() as u64;
        println!("round {round}: acknowledged {last}, older than a second {safe}, kept {kept}");
        assert!(last > before + 1_000, "round {round}: the child did nothing");
        assert!(ids.into_iter().eq(1..=kept), "round {round}: a gap or a duplicate");
        assert!(kept >= safe, "round {round}: {safe} were older than a second, {kept} are left");
        assert!(kept <= last + 100, "round {round}: more than were appended");
        for n in (1..=kept).step_by(1 + kept as usize / 50) {
            let found = store.span(SpanId(n)).unwrap();
            assert_eq!(found, Some(support::plain(n, 1_000_000 + n)), "round {round}");
        }
        before = kept;
    }
}

fn log_of(dir: &Path) -> std::path::PathBuf {
    let logs = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    logs.filter(|p| p.extension().is_some_and(|e| e == "arrows")).max_by_key(|p| p.metadata().unwrap().len()).unwrap()
}

/// Copies a store's files, the log cut to `len` bytes and with one byte changed if asked.
fn damaged(from: &Path, len: usize, flip: Option<usize>) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let log = log_of(from);
    std::fs::copy(from.join("manifest.json"), dir.path().join("manifest.json")).unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    bytes.truncate(len);
    if let Some(at) = flip {
        bytes[at] ^= 0x10;
    }
    std::fs::write(dir.path().join(log.file_name().unwrap()), bytes).unwrap();
    dir
}

#[test]
fn a_torn_tail_costs_itself_wherever_it_is_torn() {
    let original = tempfile::tempdir().unwrap();
    let store = Embedded::open(original.path(), support::options()).unwrap();
    let first: Vec<_> = (1..=20).map(|n| support::plain(n, n)).collect();
    store.append(first.clone()).unwrap();
    store.flush().unwrap();
    let whole = log_of(original.path()).metadata().unwrap().len() as usize;
    // The second record brings a new name, so that its names frame is torn as well.
    let span = support::plain(21, 21);
    let span = Arc::new(wirespan_model::Span { operation: "DELETE".into(), ..(*span).clone() });
    store.append(vec![span.clone()]).unwrap();
    store.flush().unwrap();
    let longer = log_of(original.path()).metadata().unwrap().len() as usize;
    assert!(longer > whole);
    for len in whole..=longer {
        let dir = damaged(original.path(), len, None);
        let store = Embedded::open(dir.path(), support::options()).unwrap();
        let expected = if len == longer { 21 } else { 20 };
        assert_eq!(store.status().spans, expected, "cut at {len} of {longer}");
        assert_eq!(store.span(SpanId(20)).unwrap(), Some(first[19].clone()), "cut at {len}");
        assert_eq!(store.span(span.id).unwrap().is_some(), len == longer, "cut at {len}");
        if len % 16 != 0 {
            continue;
        }
        // The store continues: spans appended now survive the next start.
        store.append(vec![support::plain(99, 99)]).unwrap();
        drop(store);
        let store = Embedded::open(dir.path(), support::options()).unwrap();
        assert_eq!(store.status().spans, expected + 1, "cut at {len}, then appended");
    }
    for at in (whole..longer).step_by(3) {
        let dir = damaged(original.path(), longer, Some(at));
        let store = Embedded::open(dir.path(), support::options()).unwrap();
        assert_eq!(store.status().spans, 20, "a bit flipped at {at}");
    }
}

#[test]
fn what_a_crash_leaves_behind_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let store = Embedded::open(dir.path(), support::options()).unwrap();
    store.append((1..=100).map(|n| support::plain(n, n)).collect()).unwrap();
    store.compact().unwrap();
    drop(store);
    for name in ["segment-0000000077.parquet", "segment-0000000077.keys", "segment-0000000078.parquet.tmp"] {
        std::fs::write(dir.path().join(name), b"half").unwrap();
    }
    let store = Embedded::open(dir.path(), support::options()).unwrap();
    assert_eq!(store.status().spans, 100);
    let left = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    assert!(!left.into_iter().any(|n| n.contains("77") || n.contains("tmp")));
}

#[test]
fn a_second_writer_is_refused_with_the_owner_of_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let store = Embedded::open(dir.path(), support::options()).unwrap();
    let error = Embedded::open(dir.path(), support::options()).err().unwrap().to_string();
    assert!(error.contains(&std::process::id().to_string()) && error.contains("another directory"), "{error}");
    drop(store);
    Embedded::open(dir.path(), support::options()).unwrap();
}

#[test]
fn another_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(Embedded::open(dir.path(), support::options()).unwrap());
    let manifest = dir.path().join("manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("\"format\":3", "\"format\":99")).unwrap();
    let error = Embedded::open(dir.path(), support::options()).err().unwrap().to_string();
    assert!(error.contains("format 99") && error.contains("manifest.json"), "{error}");
}
