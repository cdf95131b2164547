#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;
use wirespan_model::span::{ExchangeRange, TcpHealth};
use wirespan_model::{
    Endpoint, Evidence, FiveTuple, SpanId, SpanKind, Status, TapSide, Text, TraceId, Transport, Value,
};

/// A span with every field set.
pub(super) fn full_span() -> Span {
    Span {
        id: SpanId(0x0102_0304_0506_0708),
        tap: TapSide::ServerProcess,
        kind: SpanKind::Server,
        protocol: "http".into(),
        start_ns: 1_700_000_000_000_000_001,
        response_ns: 1_700_000_000_000_000_002,
        end_ns: 1_700_000_000_000_000_003,
        status: Status::ServerError,
        status_code: Some(503),
        error: "down".into(),
        operation: "GET".into(),
        target: "/cart".into(),
        request_bytes: 100,
        response_bytes: 200,
        tuple: FiveTuple {
            transport: Transport::Tcp,
            client: Endpoint { ip: [10, 0, 0, 1].into(), port: 40000 },
            server: Endpoint { ip: "fd00::2".parse().unwrap(), port: 80 },
        },
        socket: 7,
        pid: 8,
        tid: 9,
        coroutine: 10,
        comm: "w".into(),
        netns: 11,
        cgroup_id: 12,
        host_id: 13,
        exchange: Some(ExchangeRange { first: 14, last: 15 }),
        cause: Some(16),
        cause_evidence: Some(Evidence::Thread),
        request_seq: Some(17),
        response_seq: Some(18),
        message_id: Some(19),
        trace_id: Some(TraceId([1; 16])),
        parent_span_id: Some(SpanId(20)),
        request_id: Some("r".into()),
        attrs: vec![
            ("a".into(), Value::Str("s".into())),
            ("b".into(), Value::Int(-1)),
            ("c".into(), Value::Float(0.5)),
            ("d".into(), Value::Bool(true)),
        ],
        tcp: TcpHealth { srtt_ns: 21, retransmits: 22, connect_ns: 23, queue_us: 24, resets: 25 },
        resource: Arc::new(Resource {
            service: "cart".into(),
            host: "h".into(),
            executable: "/x".into(),
            container: "".into(),
            extra: vec![("k".into(), "v".into())],
        }),
    }
}

#[test]
fn the_encoding_of_a_span_belongs_to_the_version() {
    let hash = wirespan_model::key::hash64(&[&postcard::to_stdvec(&full_span()).unwrap()]);
    assert_eq!(
        (VERSION, format!("{hash:016x}").as_str()),
        (5, "36dd41efdfda895b"),
        "model::Span is encoded differently now: raise link::VERSION and write the new hash here"
    );
}

#[test]
fn batches_come_back_as_they_were_and_share_their_resources() {
    let spans: Vec<Arc<Span>> =
        (0..5000).map(|i| Arc::new(Span { id: SpanId(i + 1), resource: Arc::default(), ..full_span() })).collect();
    let (batches, too_big) = encode_batches(&spans);
    assert_eq!(too_big, 0);
    assert!(batches.len() >= 2, "more than a batch may hold");
    let mut resources = FxHashSet::default();
    let mut back = Vec::new();
    for (n, bytes) in &batches {
        let part = decode_batch(bytes, &mut resources).unwrap();
        assert_eq!(part.len(), *n);
        back.extend(part);
    }
    assert_eq!(back, spans);
    assert!(back.iter().all(|s| Arc::ptr_eq(&s.resource, &back[0].resource)));
}

#[test]
fn batches_split_by_size_and_a_giant_span_is_counted() {
    // Bytes that do not compress.
    let mut x = 1u64;
    let mut noise = |len: usize| -> Text {
        let mut next = || {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'!' + (x >> 33) as u8 % 90)
        };
        (0..len).map(|_| next()).collect::<String>().into()
    };
    let mut spans: Vec<Arc<Span>> =
        (0..8).map(|_| Arc::new(Span { target: noise(300_000), ..Span::default() })).collect();
    spans.insert(3, Arc::new(Span { target: noise(MAX_FRAME * 2), ..Span::default() }));
    let (batches, too_big) = encode_batches(&spans);
    assert_eq!(too_big, 1);
    assert_eq!(batches.iter().map(|(n, _)| n).sum::<usize>(), 8);
    assert!(batches.iter().all(|(_, b)| b.len() + 8 <= MAX_FRAME));
}

#[test]
fn frames_come_back_as_they_were() {
    let frames = [
        Frame::Hello(Hello {
            session: 1,
            agent: AgentInfo { host: "h".into(), ..Default::default() },
            token: "t".into(),
        }),
        Frame::Welcome(7),
        Frame::Refused("no".into()),
        Frame::Spans(9, vec![1, 2, 3]),
        Frame::Ack(8),
        Frame::Ping,
        Frame::Report(vec![("lost".into(), 3)]),
        Frame::Order(10, b"do".to_vec()),
        Frame::Answer(10, vec![7; MAX_FRAME - 8]),
    ];
    let mut bytes = Vec::new();
    frames.iter().for_each(|f| f.write(&mut bytes).unwrap());
    let mut r = &bytes[..];
    for f in &frames {
        assert_eq!(&Frame::read(&mut r).unwrap(), f);
    }
    assert!(r.is_empty());
}

#[test]
fn lies_about_lengths_are_refused_before_memory_is_spent() {
    let huge = [0xff, 0xff, 0xff, 0xff, 4];
    assert!(matches!(Frame::read(&mut &huge[..]), Err(FrameError::TooLong(_))));
    let ping = [0, 0, 8, 0, 6];
    assert!(matches!(Frame::read(&mut &ping[..]), Err(FrameError::TooLong(_))), "only batches and answers may be long");
    let numberless = [7, 0, 0, 0, 10, 1, 2, 3, 4, 5, 6, 7];
    assert!(matches!(Frame::read(&mut &numberless[..]), Err(FrameError::Malformed("order"))));
    let mut bomb = (MAX_RAW as u32 + 1).to_le_bytes().to_vec();
    bomb.push(0);
    assert!(matches!(decode_batch(&bomb, &mut FxHashSet::default()), Err(FrameError::TooLong(_))));
    let count = lz4_flex::block::compress_prepend_size(&[0xff, 0xff, 0xff, 0x7f]);
    assert!(matches!(decode_batch(&count, &mut FxHashSet::default()), Err(FrameError::Malformed(_))));
}

#[test]
fn other_programs_and_versions_are_named() {
    let http = FrameError::Magic(*b"GET ").to_string();
    assert!(matches!(read_preamble(&mut &b"GET / HTTP"[..]), Err(FrameError::Magic(_))), "{http}");
    assert!(matches!(read_preamble(&mut &b"WSPN\x63\x00"[..]), Err(FrameError::Version { theirs: 99 })));
}

/// Found by the fuzz target `link`: the sign for a byte that is not UTF-8 takes three.
#[test]
fn a_text_that_is_not_utf_8_stays_within_its_bound() {
    let mut bytes = header(3, 2000).unwrap().to_vec();
    bytes.extend([0xff; 2000]);
    let frame = Frame::read(&mut &bytes[..]).unwrap();
    let Frame::Refused(why) = &frame else { panic!("{frame:?}") };
    assert!(!why.is_empty() && why.len() <= MAX_TEXT, "{}", why.len());
    let mut again = Vec::new();
    frame.write(&mut again).unwrap();
    assert_eq!(Frame::read(&mut &again[..]).unwrap(), frame);
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let mut r = &bytes[..];
        while let Ok(frame) = Frame::read(&mut r) {
            if let Frame::Spans(_, batch) = frame {
                let _ = decode_batch(&batch, &mut FxHashSet::default());
            }
        }
        let _ = read_preamble(&mut &bytes[..]);
        let _ = decode_batch(&bytes, &mut FxHashSet::default());
        // The same bytes as the inside of a batch that decompresses well.
        let _ = decode_batch(&lz4_flex::block::compress_prepend_size(&bytes), &mut FxHashSet::default());
    }

    #[test]
    fn no_truncation_or_bit_flip_panics(cut in 0usize..400, at in 0usize..400, bit in 0u8..8) {
        let raw = postcard::to_stdvec(&vec![full_span(); 3]).unwrap();
        let mut flipped = raw.clone();
        flipped[at % raw.len()] ^= 1 << bit;
        let _ = decode_batch(&lz4_flex::block::compress_prepend_size(&flipped), &mut FxHashSet::default());
        let part = &raw[..cut % raw.len()];
        prop_assert!(decode_batch(&lz4_flex::block::compress_prepend_size(part), &mut FxHashSet::default()).is_err());
        let (mut batches, _) = encode_batches(&[Arc::new(full_span())]);
        let bytes = &mut batches[0].1;
        let n = bytes.len();
        bytes[at % n] ^= 1 << bit;
        let _ = decode_batch(bytes, &mut FxHashSet::default());
    }
}
