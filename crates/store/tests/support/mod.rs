//! Random spans, for every test of the store.
#![allow(dead_code, clippy::unwrap_used)]

use proptest::prelude::*;
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;
use wirespan_model::test_support::SpanBuilder;
use wirespan_model::{
    Endpoint, Evidence, ExchangeRange, FiveTuple, Resource, Span, SpanId, SpanKind, Status, TapSide, TcpHealth,
    TraceId, Transport, Value,
};
use wirespan_store::Options;

/// Options that suit tests: nothing happens by itself for an hour, and the disk may be small.
pub(crate) fn options() -> Options {
    Options {
        flush_interval: Duration::from_secs(3600),
        max_age: Duration::from_secs(1000 * 365 * 24 * 3600),
        min_free_bytes: 0,
        ..Options::default()
    }
}

/// Makes texts, in any type that a field has.
fn text<T: From<&'static str> + From<String> + Clone + std::fmt::Debug>() -> impl Strategy<Value = T> {
    prop_oneof![
        Just("").prop_map(Into::into),
        prop::sample::select(vec!["GET", "/cart", "shop", "ö\"\\\n\u{0}", "a b"]).prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ]
}

fn few<T: From<&'static str> + Clone + std::fmt::Debug>(values: &'static [&'static str]) -> impl Strategy<Value = T> {
    prop::sample::select(values).prop_map(Into::into)
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    let ip = prop_oneof![
        any::<[u8; 4]>().prop_map(|b| IpAddr::V4(Ipv4Addr::from(b))),
        Just(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        any::<[u8; 16]>().prop_map(|b| IpAddr::V6(Ipv6Addr::from(b))),
    ];
    (ip, any::<u16>()).prop_map(|(ip, port)| Endpoint::new(ip, port))
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(Value::Str),
        any::<i64>().prop_map(Value::Int),
        any::<bool>().prop_map(Value::Bool),
        any::<f64>().prop_filter("JSON has no such number", |x| x.is_finite()).prop_map(Value::Float),
    ]
}

fn resource() -> impl Strategy<Value = Arc<Resource>> {
    (
        few(&["", "front", "cart", "pay"]),
        few(&["", "node-1", "node-2"]),
        text(),
        text(),
        prop::collection::vec((text(), text()), 0..3),
    )
        .prop_map(|(service, host, executable, container, extra)| {
            Arc::new(Resource { service, host, executable, container, extra })
        })
}

prop_compose! {
    fn times()(start in prop_oneof![0u64..1_000, 1_000_000_000..1_000_001_000u64, 0..i64::MAX as u64 / 2],
               duration in prop_oneof![0u64..10, 0..5_000_000_000u64], response in prop::option::of(0u64..5_000))
        -> (u64, u64, u64) {
        (start, start + duration, response.map_or(0, |r| start + r))
    }
}

prop_compose! {
    fn places()(transport in prop::sample::select(&Transport::ALL[..]),
                client in endpoint(), server in endpoint(), socket in any::<u64>(), pid in any::<u32>(),
                    tid in any::<u32>(),
                coroutine in any::<u64>(), comm in text(), netns in any::<u32>(), cgroup_id in any::<u64>(),
                    host_id in 0u64..3)
        -> Span {
        Span {
            tuple: FiveTuple { transport, client, server },
            socket, pid, tid, coroutine, comm, netns, cgroup_id, host_id,
            ..Span::default()
        }
    }
}

prop_compose! {
    fn links()(first in prop::option::of(any::<u64>()), more in 0u64..12, cause in prop::option::of(any::<u64>()),
               evidence in prop::option::of(prop::sample::select(vec![Evidence::Carried, Evidence::Thread,
                   Evidence::Inferred])),
               seqs in any::<(Option<u32>, Option<u32>)>(), message_id in any::<Option<u64>>(),
                   trace_id in any::<Option<[u8; 16]>>(),
               parent in any::<Option<u64>>(), request_id in prop::option::of(text()), base in places())
        -> Span {
        Span {
            exchange: first.map(|first| ExchangeRange { first, last: first.saturating_add(more) }),
            cause,
            cause_evidence: evidence,
            request_seq: seqs.0,
            response_seq: seqs.1,
            message_id,
            trace_id: trace_id.map(TraceId),
            parent_span_id: parent.map(SpanId),
            request_id,
            ..base
        }
    }
}

prop_compose! {
    /// A span that uses every field, with values at their limits.
    pub(crate) fn span()(base in links(), time in times(), tap in prop::sample::select(&TapSide::ALL[..]),
        kind in prop::sample::select(&SpanKind::ALL[..]),
                  status in prop::sample::select(&Status::ALL[..]),
                      protocol in few::<String>(&["http", "redis", "amqp", ""]),
                  status_code in any::<Option<i32>>(),
                      words in (text(), few(&["", "GET", "POST", "SET"]), few(&["", "/", "/cart/1", "/cart/2"])),
                  bytes in any::<(u64, u64)>(),
                      attrs in prop::collection::vec((text::<String>().prop_map(Cow::Owned), value()), 0..4),
                  tcp in any::<(u64, u32, u64, u32, u32)>(), resource in resource())
        -> Span {
        Span {
            tap, kind, status, status_code, attrs, resource,
            protocol: Cow::Owned(protocol),
            start_ns: time.0, end_ns: time.1, response_ns: time.2,
            error: words.0, operation: words.1, target: words.2,
            request_bytes: bytes.0, response_bytes: bytes.1,
            tcp: TcpHealth { srtt_ns: tcp.0, retransmits: tcp.1, connect_ns: tcp.2, queue_us: tcp.3, resets: tcp.4 },
            ..base
        }
    }
}

/// Spans with distinct ids.
pub(crate) fn spans(most: usize) -> impl Strategy<Value = Vec<Arc<Span>>> {
    prop::collection::vec(span(), 1..most).prop_map(|spans| {
        let number = |(i, s): (usize, Span)| Arc::new(Span { id: SpanId(i as u64 + 1), ..s });
        spans.into_iter().enumerate().map(number).collect()
    })
}

/// One plain span; `n` makes it distinct.
pub(crate) fn plain(n: u64, start_ns: u64) -> Arc<Span> {
    let item = format!("/item/{}", n % 50);
    let span = SpanBuilder::client(n).request("http", "GET", &item).time(start_ns, start_ns + 1_000).service("shop");
    Arc::new(Span { kind: SpanKind::Server, ..span.status(Status::Ok, None).build() })
}
