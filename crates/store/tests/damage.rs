//! A byte that changes on the disk, or a file that is gone, costs what it held, is said, and nothing else.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wirespan_model::{Key, KeyKind, Span, SpanId};
use wirespan_store::{Embedded, Options, Order, Query, Store, StoreError, TimeRange};

/// A span with a name that few others have, so that a lost or shifted one shows.
fn span(n: u64) -> Arc<Span> {
    let operation = format!("OP{}", n / 10).into();
    Arc::new(Span { operation, target: format!("/item/{n}").into(), ..(*support::plain(n, 1_000_000 + n)).clone() })
}

fn file(dir: &Path, extension: &str) -> PathBuf {
    let files = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    let mut files: Vec<_> = files.filter(|p| p.extension().is_some_and(|e| e == extension)).collect();
    files.sort_by_key(|p| std::cmp::Reverse(p.metadata().unwrap().len()));
    files.swap_remove(0)
}

fn flip(path: &Path, at: u64) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at as usize] ^= 0x10;
    std::fs::write(path, bytes).unwrap();
}

fn copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap).filter(|e| e.path().is_file()) {
        std::fs::copy(entry.path(), to.path().join(entry.file_name())).unwrap();
    }
    to
}

/// Every span that the store has; none of them may differ from what was written.
fn intact(store: &Embedded, written: &BTreeMap<u64, Arc<Span>>, context: &str) -> Vec<u64> {
    let mut ids = Vec::new();
    store
        .scan(TimeRange::ALL, &mut |s| {
            ids.push(s.id.0);
            assert_eq!(*s, *written[&s.id.0], "{context}");
        })
        .unwrap();
    ids.sort_unstable();
    ids
}

#[test]
fn a_flipped_byte_of_the_log_costs_its_frame_and_is_said() {
    let original = tempfile::tempdir().unwrap();
    let store = Embedded::open(original.path(), support::options()).unwrap();
    let mut ends = vec![8];
    let mut written = BTreeMap::new();
    for frame in 0..8u64 {
        let spans: Vec<_> = (frame * 20 + 1..=frame * 20 + 20).map(span).collect();
        written.extend(spans.iter().map(|s| (s.id.0, s.clone())));
        store.append(spans).unwrap();
        store.flush().unwrap();
        ends.push(file(original.path(), "arrows").metadata().unwrap().len());
    }
    drop(store);
    // Each byte of the third frame's head, and some of its body; then the first frame, which has most names.
    let (from, to) = (ends[2], ends[3]);
    let third = (from..from + 24).chain((from + 24..to).step_by(37)).map(|at| (at, 41..=60));
    let first = (ends[0]..ends[1]).step_by(201).map(|at| (at, 1..=20));
    for (at, lost) in third.chain(first) {
        let dir = copy(original.path());
        let log = file(dir.path(), "arrows");
        flip(&log, at);
        let before = std::fs::read(&log).unwrap();
        let store = Embedded::open(dir.path(), support::options()).unwrap();
        let ids = intact(&store, &written, &format!("byte {at}"));
        assert!(ids.iter().copied().eq((1..=160).filter(|n| !lost.contains(n))), "byte {at}: {} spans", ids.len());
        let status = store.status();
        assert!(status.damaged.len() == 1 && status.damaged[0].starts_with("log-"), "byte {at}: {:?}", status.damaged);
        assert_eq!(std::fs::read(&log).unwrap(), before, "byte {at}: the log is not cut");
        // What is left becomes a segment like any other.
        store.compact().unwrap();
        drop(store);
        let store = Embedded::open(dir.path(), support::options()).unwrap();
        assert_eq!(intact(&store, &written, "as a segment").len(), 140, "byte {at}");
    }
}

#[test]
fn a_log_that_changes_while_it_is_used_costs_its_frame() {
    let dir = tempfile::tempdir().unwrap();
    let store = Embedded::open(dir.path(), support::options()).unwrap();
    let written: BTreeMap<u64, Arc<Span>> = (1..=60).map(|n| (n, span(n))).collect();
    let mut ends = Vec::new();
    for part in [1..=20, 21..=40, 41..=60] {
        store.append(part.map(span).collect()).unwrap();
        store.flush().unwrap();
        ends.push(file(dir.path(), "arrows").metadata().unwrap().len());
    }
    flip(&file(dir.path(), "arrows"), ends[1] - 5);
    assert_eq!(intact(&store, &written, "in the log").len(), 40);
    assert_eq!(store.search(&Query::default()).unwrap().len(), 40);
    assert_eq!((store.span(SpanId(30)).unwrap(), store.span(SpanId(50)).unwrap()), (None, Some(span(50))));
    store.compact().unwrap();
    assert_eq!(intact(&store, &written, "as a segment").len(), 40);
    assert!(!store.status().damaged.is_empty());
}

#[test]
fn a_log_of_something_else_is_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    let store = Embedded::open(dir.path(), support::options()).unwrap();
    store.append((1..=20).map(span).collect()).unwrap();
    drop(store);
    std::fs::write(dir.path().join("log-0000000777.arrows"), b"Dear wirespan, I am a letter.").unwrap();
    let store = Embedded::open(dir.path(), support::options()).unwrap();
    assert_eq!(store.status().spans, 20);
    assert!(store.status().damaged[0].starts_with("log-0000000777"));
    assert!(dir.path().join("log-0000000777.arrows.unreadable").exists());
}

/// A store of three segments of 6,000 spans each.
fn segments() -> (tempfile::TempDir, BTreeMap<u64, Arc<Span>>) {
    let dir = tempfile::tempdir().unwrap();
    let store = Embedded::open(dir.path(), Options { merge_count: 100, ..support::options() }).unwrap();
    let mut written = BTreeMap::new();
    for part in 0..3u64 {
        let spans: Vec<_> = (part * 6_000 + 1..=part * 6_000 + 6_000).map(span).collect();
        written.extend(spans.iter().map(|s| (s.id.0, s.clone())));
        store.append(spans).unwrap();
        store.compact().unwrap();
    }
    drop(store);
    (dir, written)
}

#[test]
fn a_missing_file_of_a_segment_costs_itself() {
    let (original, written) = segments();
    for (extension, left) in [("parquet", 12_000), ("keys", 18_000), ("sums", 18_000), ("json", 18_000)] {
        for damage in ["missing", "empty", "other"] {
            let dir = copy(original.path());
            let path = file(dir.path(), extension);
            match damage {
                "missing" => std::fs::remove_file(&path).unwrap(),
                "empty" => std::fs::write(&path, b"").unwrap(),
                _ => std::fs::write(&path, b"Dear wirespan, I am a letter.").unwrap(),
            }
            let context = format!("{extension} {damage}");
            for _ in 0..2 {
                let store = Embedded::open(dir.path(), support::options()).unwrap();
                let ids = intact(&store, &written, &context);
                assert_eq!(ids.len(), left, "{context}");
                let query = Query { order: Order::Slowest, limit: 10_000, ..Query::default() };
                assert_eq!(store.search(&query).unwrap().len(), 10_000, "{context}");
                for n in [1, 3_000, 9_000, 17_999] {
                    let found = store.find(&[Key { kind: KeyKind::Span, value: n }], TimeRange::ALL, 9).unwrap();
                    assert_eq!(found.len(), usize::from(ids.binary_search(&n).is_ok()), "{context}: span {n}");
                }
                // The store goes on: a damaged segment stops neither writing nor merging.
                store.append(vec![]).unwrap();
                store.compact().unwrap();
            }
        }
    }
}

#[test]
fn no_altered_value_is_served_and_a_flipped_byte_costs_a_page() {
    let (original, written) = segments();
    let mut least = usize::MAX;
    for round in 0..24u64 {
        let dir = copy(original.path());
        let path = file(dir.path(), if round % 6 == 5 { "keys" } else { "parquet" });
        let len = path.metadata().unwrap().len();
        let at = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) % len;
        flip(&path, at);
        let store = Embedded::open(dir.path(), support::options()).unwrap();
        let context = format!("round {round}: byte {at} of {}", path.display());
        let ids = intact(&store, &written, &context);
        for s in store.search(&Query { limit: 10_000, ..Query::default() }).unwrap() {
            assert_eq!(s, written[&s.id.0], "{context}");
        }
        for n in (1..=18_000u64).step_by(1_811) {
            match store.span(SpanId(n)).unwrap() {
                Some(found) => assert_eq!(found, written[&n], "{context}"),
                None => assert!(ids.binary_search(&n).is_err(), "{context}: span {n} is not found by its key"),
            }
        }
        // The footer and the index of pages are one part, without which a segment cannot be read.
        assert!(ids.len() >= 12_000, "{context}: {} spans", ids.len());
        assert!(ids.len() == 18_000 || !store.status().damaged.is_empty(), "{context}: nothing is said");
        least = least.min(ids.len());
    }
    println!("a flip cost at most {} spans", 18_000 - least);
    assert!(least < 18_000, "no flip hit anything");
}

#[test]
fn a_directory_that_is_looked_at_does_not_change() {
    let (dir, written) = segments();
    let store = Embedded::open(dir.path(), support::options()).unwrap();
    store.append((20_001..=20_100).map(span).collect()).unwrap();
    let busy = Embedded::look(dir.path()).err().unwrap().to_string();
    assert!(busy.contains(&std::process::id().to_string()), "{busy}");
    drop(store);
    let list = || {
        let mut all: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap())
            .map(|e| (e.file_name(), e.metadata().unwrap().len(), e.metadata().unwrap().modified().unwrap()))
            .collect();
        all.sort();
        all
    };
    let before = list();
    // These spans are older than any store keeps by default.
    let store = Embedded::look(dir.path()).unwrap();
    assert_eq!(store.status().spans, 18_100);
    assert_eq!(store.span(SpanId(20_050)).unwrap(), Some(span(20_050)));
    assert_eq!(store.span(SpanId(50)).unwrap().as_ref(), written.get(&50));
    assert!(matches!(store.append(vec![span(1)]), Err(StoreError::Stopped(why)) if why.contains("only looked at")));
    store.flush().unwrap();
    drop(store);
    assert_eq!(list(), before);
    let nothing = tempfile::tempdir().unwrap();
    assert!(Embedded::look(nothing.path()).is_err(), "an empty directory is no store");
}
