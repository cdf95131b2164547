//! An appended span is found by every key and comes back unchanged, wherever it is stored at the time.
#![allow(clippy::unwrap_used)]

mod support;

use proptest::prelude::*;
use std::sync::Arc;
use wirespan_model::Span;
use wirespan_store::{Embedded, Store, TimeRange};

/// Each span can be found by each of its keys, by its id, and by a scan.
fn check(store: &Embedded, spans: &[Arc<Span>], when: &str) {
    for span in spans {
        for key in span.keys() {
            let found = store.find(&[key], TimeRange::ALL, 10_000).unwrap();
            assert!(found.contains(span), "{when}: {key:?} finds {} spans, and not {span:#?}", found.len());
            assert!(found.iter().all(|s| s.keys().contains(&key)), "{when}: a stranger was found by {key:?}");
        }
        assert_eq!(store.span(span.id).unwrap().as_ref(), Some(span), "{when}");
        let range = TimeRange { from_ns: span.start_ns, to_ns: span.start_ns + 1 };
        assert!(store.find(&span.keys(), range, 10_000).unwrap().contains(span), "{when}: in its own nanosecond");
        let range = TimeRange { from_ns: span.start_ns + 1, to_ns: u64::MAX };
        assert!(!store.find(&span.keys(), range, 10_000).unwrap().contains(span), "{when}: after its start");
    }
    let mut scanned = Vec::new();
    store.scan(TimeRange::ALL, &mut |s| scanned.push(s.clone())).unwrap();
    scanned.sort_by_key(|s| s.id);
    assert!(scanned.iter().eq(spans.iter().map(|s| &**s)), "{when}: a scan sees every span once");
    assert_eq!(store.status().spans, spans.len() as u64, "{when}");
    let mut outlines = 0;
    let mut outline = |s: &Span| {
        outlines += 1;
        let span = &spans[s.id.0 as usize - 1];
        let parts = |s: &Span| {
            let words = (s.resource.service.clone(), s.resource.host.clone(), s.comm.clone(), s.operation.clone());
            let times = (s.start_ns, s.end_ns, s.response_ns, s.request_bytes, s.response_bytes, s.tcp.retransmits);
            (
                s.id,
                s.tap,
                s.kind,
                s.protocol.clone(),
                s.status,
                s.status_code,
                s.tuple,
                s.host_id,
                s.netns,
                words,
                times,
            )
        };
        assert_eq!(parts(s), parts(span), "{when}: an outline");
    };
    store.scan_outline(TimeRange::ALL, &mut outline).unwrap();
    assert_eq!(outlines, spans.len(), "{when}: outlines");
    let mut parents = Vec::new();
    let mut with_parent = |s: &Span| parents.push((s.id, s.tap, s.resource.service.clone(), s.parent_span_id));
    store.scan_parents(TimeRange::ALL, &mut with_parent).unwrap();
    parents.sort_by_key(|(id, ..)| *id);
    let known = spans.iter().map(|s| (s.id, s.tap, s.resource.service.clone(), s.parent_span_id));
    assert!(parents.into_iter().eq(known), "{when}: parents");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn spans_come_back(spans in support::spans(40), cut in 0usize..40) {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = spans.split_at(cut.min(spans.len()));
        let store = Embedded::open(dir.path(), support::options()).unwrap();
        store.append(first.to_vec()).unwrap();
        check(&store, first, "in the tail");
        store.flush().unwrap();
        check(&store, first, "in the memory segment");
        drop(store);
        let store = Embedded::open(dir.path(), support::options()).unwrap();
        check(&store, first, "after replay");
        store.compact().unwrap();
        check(&store, first, "in a segment");
        store.append(second.to_vec()).unwrap();
        check(&store, &spans, "in a segment and the tail");
        store.compact().unwrap();
        check(&store, &spans, "in two segments");
        drop(store);
        let store = Embedded::open(dir.path(), support::options()).unwrap();
        check(&store, &spans, "after opening again");
    }

    #[test]
    fn spans_come_back_from_memory(spans in support::spans(40)) {
        let store = Embedded::memory(support::options()).unwrap();
        store.append(spans.clone()).unwrap();
        check(&store, &spans, "in the tail");
        store.flush().unwrap();
        check(&store, &spans, "in a chunk");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("CASES").ok().and_then(|c| c.parse().ok()).unwrap_or(300)
    ))]

    #[test]
    fn every_field_survives_a_chunk(spans in support::spans(20)) {
        let store = Embedded::memory(support::options()).unwrap();
        store.append(spans.clone()).unwrap();
        store.flush().unwrap();
        for span in &spans {
            prop_assert_eq!(store.span(span.id).unwrap(), Some(span.clone()));
        }
    }
}

/// A group whose optional fields are all present, and all zero or empty, is not a group without them.
#[test]
fn a_zero_is_kept_apart_from_an_absent_value() {
    let dir = tempfile::tempdir().unwrap();
    let store = Embedded::open(dir.path(), support::options()).unwrap();
    let span = Arc::new(Span {
        request_id: Some("".into()),
        cause: Some(0),
        status_code: Some(0),
        message_id: Some(0),
        ..(*support::plain(1, 5)).clone()
    });
    store.append(vec![span.clone()]).unwrap();
    store.compact().unwrap();
    assert_eq!(store.span(span.id).unwrap(), Some(span));
}

#[test]
fn many_chunks_groups_and_merges() {
    let dir = tempfile::tempdir().unwrap();
    let options = wirespan_store::Options { flush_rows: 5_000, merge_count: 3, ..support::options() };
    let store = Embedded::open(dir.path(), options.clone()).unwrap();
    // Start times that are not in the order of arrival.
    let all: Vec<_> = (1..=60_000u64).map(|n| support::plain(n, 1_000_000_000 + n * 7_919 % 100_003)).collect();
    for batch in all.chunks(777) {
        store.append(batch.to_vec()).unwrap();
    }
    let look = |store: &Embedded, when: &str| {
        for span in all.iter().step_by(997) {
            assert_eq!(store.span(span.id).unwrap().as_ref(), Some(span), "{when}");
        }
        assert_eq!(store.status().spans, 60_000, "{when}");
        let mut ids = Vec::new();
        store.scan(TimeRange::ALL, &mut |s| ids.push(s.id.0)).unwrap();
        ids.sort_unstable();
        assert!(ids.into_iter().eq(1..=60_000), "{when}: each once");
    };
    look(&store, "while segments are being made");
    store.compact().unwrap();
    look(&store, "after merging");
    drop(store);
    let files = std::fs::read_dir(dir.path()).unwrap().count();
    assert!(files < 12, "{files} files are left");
    look(&Embedded::open(dir.path(), options).unwrap(), "after opening again");
}

/// Queries see every span once, during any flush and merge.
#[test]
fn readers_never_miss_what_is_moving() {
    let dir = tempfile::tempdir().unwrap();
    let options = wirespan_store::Options { flush_rows: 4_000, merge_count: 3, ..support::options() };
    let store = Embedded::open(dir.path(), options).unwrap();
    let (appended, done) = (std::sync::atomic::AtomicU64::new(0), std::sync::atomic::AtomicBool::new(false));
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut rounds = 0;
            while !done.load(relaxed) {
                let least = appended.load(relaxed);
                let mut ids = Vec::new();
                store.scan_outline(TimeRange::ALL, &mut |s| ids.push(s.id.0)).unwrap();
                ids.sort_unstable();
                assert!(ids.len() as u64 >= least, "{} of at least {least}", ids.len());
                assert!(ids.iter().copied().eq(1..=ids.len() as u64), "a gap or a duplicate");
                if least > 0 {
                    let id = wirespan_model::SpanId(1 + rounds * 7_919 % least);
                    assert!(store.span(id).unwrap().is_some(), "{id} of {least}");
                }
                rounds += 1;
            }
            rounds
        });
        for n in 0..400u64 {
            store.append((n * 250 + 1..=n * 250 + 250).map(|n| support::plain(n, 1_000 + n)).collect()).unwrap();
            appended.store((n + 1) * 250, relaxed);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        done.store(true, relaxed);
        assert!(reader.join().unwrap() > 20);
    });
}
