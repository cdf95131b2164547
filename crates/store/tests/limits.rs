//! Retention by age and size, and a full disk.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use wirespan_model::{Span, SpanId};
use wirespan_store::{Embedded, Options, Store, StoreError, TimeRange};

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < until, "{what}: not within 20 s");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn ids(store: &Embedded) -> Vec<u64> {
    let mut ids = Vec::new();
    store.scan(TimeRange::ALL, &mut |s| ids.push(s.id.0)).unwrap();
    ids.sort_unstable();
    ids
}

/// A file that is renamed or removed between the listing and the look counts nothing: the store works meanwhile.
fn bytes_of(dir: &Path) -> u64 {
    std::fs::read_dir(dir).unwrap().filter_map(|e| Some(e.ok()?.metadata().ok()?.len())).sum()
}

#[test]
fn old_segments_are_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { max_age: Duration::from_secs(3600), merge_count: 100, ..support::options() };
    let store = Embedded::open(dir.path(), options).unwrap();
    let hour = 3_600_000_000_000;
    store.append((1..=10).map(|n| support::plain(n, now_ns() - 2 * hour)).collect()).unwrap();
    store.compact().unwrap();
    store.append((11..=20).map(|n| support::plain(n, now_ns() - hour / 2)).collect()).unwrap();
    store.compact().unwrap();
    wait("the old segment goes", || ids(&store) == (11..=20).collect::<Vec<_>>());
    assert_eq!(store.status().spans, 10);
    assert!(store.status().oldest_ns > now_ns() - hour);
    assert_eq!(store.span(SpanId(3)).unwrap(), None);
    assert_eq!(
        std::fs::read_dir(dir.path())
            .unwrap()
            .filter(|e| e.as_ref().unwrap().path().extension().is_some_and(|x| x == "parquet"))
            .count(),
        1
    );
}

#[test]
fn the_oldest_go_when_there_is_too_much() {
    let dir = tempfile::tempdir().unwrap();
    let max_bytes = 1_500_000;
    let options = Options { max_bytes, merge_count: 100, ..support::options() };
    let store = Embedded::open(dir.path(), options).unwrap();
    for round in 0..30u64 {
        // Targets that do not compress.
        let span = |n: u64| {
            let text: String =
                (0..40).map(|i| char::from(b'a' + (n.wrapping_mul(0x9e37_79b9 + i * 7) >> 13) as u8 % 26)).collect();
            Arc::new(Span { target: text.into(), ..(*support::plain(n, 1_000_000 + n)).clone() })
        };
        store.append((round * 2_000 + 1..=round * 2_000 + 2_000).map(span).collect()).unwrap();
        store.compact().unwrap();
    }
    wait("the store shrinks", || bytes_of(dir.path()) <= max_bytes);
    let ids = ids(&store);
    assert!(ids.len() > 2_000, "{} spans are left", ids.len());
    assert!(ids.iter().copied().eq(60_001 - ids.len() as u64..=60_000), "the newest stay");
    assert!(store.status().disk_bytes <= max_bytes);
}

#[test]
fn memory_forgets_the_oldest() {
    let options = Options { max_bytes: 400_000, ..support::options() };
    let store = Embedded::memory(options).unwrap();
    for round in 0..100u64 {
        store.append((round * 1_000 + 1..=round * 1_000 + 1_000).map(|n| support::plain(n, n)).collect()).unwrap();
    }
    let ids = ids(&store);
    assert!(ids.len() < 100_000 && ids.len() > 1_000, "{}", ids.len());
    assert_eq!(ids.last(), Some(&100_000));
    let status = store.status();
    assert_eq!(status.spans, ids.len() as u64);
    assert_eq!(status.dropped.iter().map(|d| d.1).sum::<u64>(), 100_000 - ids.len() as u64);
}

const FULL: &str = "WIRESPAN_STORE_TEST_FULL_DISK";

/// Runs the test below in a mount namespace of its own, on a file system of 8 MB.
#[test]
fn a_full_disk_stops_writing_and_recovers() {
    if std::env::var_os(FULL).is_some() {
        return;
    }
    let mount = tempfile::tempdir().unwrap();
    let run = |script: &str| {
        Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"])
            .arg(mount.path())
            .arg(std::env::current_exe().unwrap())
            .env(FULL, mount.path())
            .output()
    };
    match run("mount -t tmpfs -o size=8m tmpfs \"$1\"") {
        Ok(out) if out.status.success() => {}
        Ok(out) => return println!("skipped: no mount namespace ({})", String::from_utf8_lossy(&out.stderr).trim()),
        Err(e) => return println!("skipped: unshare cannot be run ({e})"),
    }
    let out = run("mount -t tmpfs -o size=8m tmpfs \"$1\" && exec \"$2\" --exact on_a_small_disk --nocapture").unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    println!("{text}{}", String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success() && text.contains("1 passed") && text.contains("small disk: done"), "see above");
}

fn rss_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

#[test]
fn on_a_small_disk() {
    let Some(dir) = std::env::var_os(FULL) else { return };
    let (dir, ballast) = (Path::new(&dir).join("store"), Path::new(&dir).join("ballast"));
    for min_free_bytes in [0, 1 << 20] {
        fill_and_recover(&dir, &ballast, min_free_bytes);
    }
    println!("small disk: done");
}

fn fill_and_recover(dir: &Path, ballast: &Path, min_free_bytes: u64) {
    std::fs::write(ballast, vec![0; 3 << 20]).unwrap();
    let options = Options { flush_rows: 20_000, min_free_bytes, ..support::options() };
    let store = Embedded::open(dir, options.clone()).unwrap();
    let mut taken = Vec::new();
    let (mut next, mut most_rss) = (store.status().newest_ns + 1, 0);
    let refused = std::cell::Cell::new(0);
    let noisy = |n: u64| {
        let text: String =
            (0..60).map(|i| char::from(b'a' + (n.wrapping_mul(0x9e37_79b9 + i * 7) >> 13) as u8 % 26)).collect();
        Arc::new(Span { target: text.into(), ..(*support::plain(n, n)).clone() })
    };
    let before = ids(&store);
    let mut append = |store: &Embedded, taken: &mut Vec<u64>| {
        let batch: Vec<u64> = (next..next + 500).collect();
        next += 500;
        match store.append(batch.iter().map(|n| noisy(*n)).collect()) {
            Ok(()) => {
                taken.extend(batch);
                true
            }
            Err(StoreError::Stopped(why)) => {
                assert!(why.contains("disk full"), "{why}");
                refused.set(refused.get() + 500);
                false
            }
            Err(other) => panic!("{other}"),
        }
    };
    // Fill the disk until it stays full: making segments of logs frees some room at first.
    let mut full_since = None;
    while full_since.is_none_or(|since: Instant| since.elapsed() < Duration::from_secs(3)) {
        if append(&store, &mut taken) {
            full_since = None;
        } else {
            full_since = full_since.or(Some(Instant::now()));
        }
        assert!(taken.len() < 2_000_000, "the disk is never full");
        std::thread::sleep(Duration::from_millis(1));
    }
    // Spans appended now must not stay in memory.
    let rss = rss_mb();
    for _ in 0..4_000 {
        append(&store, &mut taken);
        most_rss = most_rss.max(rss_mb());
    }
    // Two million spans would take a gigabyte. The temporary memory of a merge is far less.
    assert!(most_rss < rss + 64, "memory grew from {rss} to {most_rss} MB while nothing was written");
    println!("min_free {min_free_bytes}: {rss} MB when full, {most_rss} MB after two million spans more");
    let status = store.status();
    println!("min_free {min_free_bytes}: {} spans, {}", status.spans, status.stopped.clone().unwrap_or_default());
    assert!(status.stopped.is_some_and(|s| s.contains("disk full")));
    let found = ids(&store).len() as u64 - before.len() as u64;
    assert_eq!((status.refused, found), (refused.get(), taken.len() as u64), "a batch is taken whole or refused whole");
    assert!(refused.get() > 0);
    // There is room again, and the store continues by itself.
    std::fs::remove_file(ballast).unwrap();
    let mut after = Vec::new();
    wait("writing goes on", || append(&store, &mut after));
    wait("the state is clear", || store.status().stopped.is_none());
    store.flush().unwrap();
    let have = ids(&store);
    drop(store);
    let store = Embedded::open(dir, options).unwrap();
    assert_eq!(ids(&store), have, "nothing changes by opening again");
    for n in before.iter().chain(&taken).chain(&after) {
        assert!(have.binary_search(n).is_ok(), "span {n} was taken and is gone");
    }
}

#[test]
fn a_store_that_is_behind_refuses_whole_batches_and_takes_them_later() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { flush_rows: 2_000, patience: Duration::ZERO, merge_count: 1_000, ..support::options() };
    let store = Embedded::open(dir.path(), options).unwrap();
    let mut refused = 0;
    for batch in 0..200u64 {
        let spans: Vec<_> = (batch * 500 + 1..=batch * 500 + 500).map(|n| support::plain(n, n)).collect();
        wait("the batch is taken", || match store.append(spans.clone()) {
            Ok(()) => true,
            Err(StoreError::Stopped(why)) => {
                assert!(why.contains("not written as fast"), "{why}");
                refused += 500;
                false
            }
            Err(other) => panic!("{other}"),
        });
    }
    assert!(refused > 0, "the flusher was never behind");
    assert_eq!(store.status().refused, refused);
    assert!(ids(&store).into_iter().eq(1..=100_000), "each span is there once");
}

#[test]
fn all_files_together_stay_below_the_limit_also_while_they_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let max_bytes = 6 << 20;
    let options = Options { max_bytes, merge_rows: 60_000, merge_count: 3, ..support::options() };
    let store = Embedded::open(dir.path(), options).unwrap();
    let noisy = |n: u64| {
        let text: String =
            (0..300).map(|i| char::from(b'a' + (n.wrapping_mul(0x9e37_79b9 + i * 7) >> 13) as u8 % 26)).collect();
        Arc::new(Span { target: text.into(), ..(*support::plain(n, now_ns())).clone() })
    };
    let (mut most, mut last) = (0, 0);
    for batch in 0..200u64 {
        last = batch * 500 + 500;
        store.append((batch * 500 + 1..=last).map(noisy).collect()).unwrap();
        most = most.max(bytes_of(dir.path()));
    }
    println!("at most {most} bytes of {max_bytes}");
    assert!(most <= max_bytes, "{most} bytes");
    store.compact().unwrap();
    let ids = ids(&store);
    assert!(ids.last() == Some(&last) && ids.len() > 2_000, "the newest stay: {} spans", ids.len());
}

#[test]
fn a_clock_that_jumped_while_the_store_was_closed_deletes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let week = 7 * 24 * 3_600_000_000_000;
    let store = Embedded::open(dir.path(), support::options()).unwrap();
    store.append((1..=10).map(|n| support::plain(n, now_ns() - week + n)).collect()).unwrap();
    store.compact().unwrap();
    drop(store);
    // Seen from these spans, the clock has jumped by a week.
    let options = Options { max_age: Duration::from_secs(24 * 3600), ..support::options() };
    let store = Embedded::open(dir.path(), options).unwrap();
    store.append((11..=20).map(|n| support::plain(n, now_ns())).collect()).unwrap();
    store.compact().unwrap();
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(ids(&store).len(), 20);
}
