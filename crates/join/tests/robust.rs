//! Whatever comes, the joiner neither panics nor keeps anything, and bytes cut differently give the same spans.
#![allow(clippy::unwrap_used)]

mod common;
use common::{get, ok, End, Stage, MS, T0};
use proptest::prelude::{any, prop, proptest, Just, ProptestConfig, Strategy};
use proptest::prop_oneof;
use wirespan_join::JoinConfig;
use wirespan_model::event::SocketChange;
use wirespan_model::{Direction, Event, Role, Span, Transport};

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..80),
        Just(get("/x")),
        Just(ok(20)),
        Just(ok(2000)),
        Just(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n".to_vec()),
        Just(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec()),
        Just(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".to_vec()),
        Just(b"$-1\r\n".to_vec()),
        Just(b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n".to_vec()),
        Just(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n".to_vec()),
    ]
}

fn events() -> impl Strategy<Value = Vec<(u64, bool, Vec<u8>, u8, u64, i64)>> {
    prop::collection::vec((1u64..4, any::<bool>(), bytes(), 0u8..40, 0u64..3_000_000_000, -3000i64..3000), 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_events_leave_nothing_behind(all in events(), udp in any::<bool>()) {
        let config = JoinConfig { max_connections: 2, max_pending: 3, reorder_events: 4, ..JoinConfig::default() };
        let mut stage = Stage::with(config);
        let mut now = T0;
        let mut ends: Vec<End> = (1..4).map(|i| if i == 2 { End::server(i) } else { End::client(i) }).collect();
        ends[2].role = Role::Unknown;
        for (socket, out, bytes, what, pause, jump) in all {
            let e = &mut ends[socket as usize - 1];
            if udp {
                (e.transport, e.seq) = (Transport::Udp, [None, None]);
            }
            now += pause;
            match what {
                0 => stage.event(e.change(now, SocketChange::Close)),
                1 => stage.event(e.change(now, SocketChange::Reset(104))),
                2 => stage.event(e.change(now, SocketChange::Open)),
                3 => stage.event(e.change(now, SocketChange::ConnectFailed(111))),
                4 => stage.tick(now),
                _ => {
                    let mut d = e.call(if out { Direction::Egress } else { Direction::Ingress }, now, &bytes);
                    match what {
                        5 => d.payload.clear(),
                        6 => d.seq = d.seq.map(|s| s.wrapping_add(jump as u32)),
                        7 => d.len = d.len.saturating_sub(5),
                        8 => d.len = u64::MAX / 4,
                        9 => d.exit_ns = d.exit_ns.wrapping_add_signed(jump * 1_000_000),
                        10 => d.payload.truncate(3),
                        11 => (d.len, d.errno) = (0, 104),
                        12 => d.seq = None,
                        13 => (d.enter_ns, d.exit_ns) = (0, 0),
                        _ => {}
                    }
                    stage.event(Event::Data(d));
                }
            }
        }
        stage.finish();
        assert_eq!((stage.joiner.connections(), stage.joiner.buffered()), (0, 0));
        assert_eq!(stage.stat("spans_out"), stage.spans.len() as u64);
        for s in &stage.spans {
            assert_ne!(s.id.0, 0);
            assert!(s.end_ns >= s.start_ns, "{s:#?}");
        }
    }

    #[test]
    fn cutting_and_shuffling_changes_nothing(
        cuts in prop::collection::vec(1usize..200, 40),
        swaps in prop::collection::vec(any::<bool>(), 400),
        requests in 1usize..6,
    ) {
        let whole = run(&[100_000], &[false; 400], requests);
        let cut = run(&cuts, &swaps, requests);
        assert_eq!(whole.len(), requests);
        let facts = |s: &Span| {
            let sizes = (s.request_bytes, s.response_bytes, s.request_seq, s.response_seq);
            (s.target.clone(), s.status, sizes, s.trace_id, s.exchange, s.cause)
        };
        assert_eq!(whole.iter().map(facts).collect::<Vec<_>>(), cut.iter().map(facts).collect::<Vec<_>>());
    }
}

/// Sequential requests, their bytes cut at `cuts`, neighbours swapped where `swaps` says so. All is captured.
fn run(cuts: &[usize], swaps: &[bool], requests: usize) -> Vec<Span> {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    c.cut = usize::MAX;
    let (mut cuts, mut swaps) = (cuts.iter().cycle(), swaps.iter());
    let mut now = T0;
    for i in 0..requests {
        for (out, bytes) in [(true, get(&format!("/{i}"))), (false, ok(i * 300))] {
            let mut calls = Vec::new();
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (part, more) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                rest = more;
                now += 1000;
                calls.push(if out { c.send(now, part) } else { c.recv(now, part) });
            }
            // The first call of a connection marks the start of its stream, so it stays first.
            let from = usize::from(i == 0);
            for k in from..calls.len().saturating_sub(1) {
                if *swaps.next().unwrap_or(&false) {
                    calls.swap(k, k + 1);
                }
            }
            calls.into_iter().for_each(|e| stage.event(e));
            now += MS;
        }
    }
    stage.tick(now + 1000 * MS);
    stage.finish();
    stage.spans
}
