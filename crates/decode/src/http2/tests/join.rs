//! Joining in the middle, against another implementation: every request is counted, nothing that is said is wrong.
#![allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::cast_possible_truncation
)]

use crate::http2::Http2;
use crate::testing::{cut, probe, Turn};
use crate::{Detect, Protocol};
use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use wirespan_model::{AttrVal, Chunk, Item, Kind, Side, Transport};

/// One end of a connection whose writes are written down.
struct Recorder {
    side: Side,
    inner: DuplexStream,
    calls: Arc<Mutex<Vec<Turn>>>,
}

impl AsyncRead for Recorder {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl AsyncWrite for Recorder {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        if let Poll::Ready(Ok(n)) = written {
            self.calls.lock().unwrap().push((self.side, bytes[..n].to_vec(), 0));
        }
        written
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// What the client did with stream `2n + 1`.
fn path(n: u32) -> String {
    match n % 4 {
        // The same again and again: resolved only through the table.
        0 => "/always".into(),
        1 => format!("/item/{}", n / 9),
        // Enough to evict what came before.
        _ => format!("/long/{n}/{}", "x".repeat(n as usize % 7 * 60)),
    }
}

fn status(n: u32) -> u16 {
    [200, 200, 404, 201, 503][n as usize % 5]
}

async fn serve(io: Recorder) {
    let mut connection = h2::server::handshake(io).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        tokio::spawn(async move {
            let n = request.headers()["x-n"].to_str().unwrap().parse::<u32>().unwrap();
            let mut body = request.into_body();
            while let Some(Ok(part)) = body.data().await {
                body.flow_control().release_capacity(part.len()).unwrap();
            }
            let response =
                http::Response::builder().status(status(n)).header("x-n", n).header("server", "t").body(()).unwrap();
            let mut stream = respond.send_response(response, false).unwrap();
            stream.send_data(vec![b'r'; n as usize % 5 * 700].into(), true).unwrap();
        });
    }
}

/// A connection of `requests` requests, as calls.
fn conversation(requests: u32) -> Vec<Turn> {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (a, b) = tokio::io::duplex(1 << 16);
        let recorder = |side, inner| Recorder { side, inner, calls: calls.clone() };
        tokio::spawn(serve(recorder(Side::Server, b)));
        let (mut client, connection) = h2::client::handshake(recorder(Side::Client, a)).await.unwrap();
        tokio::spawn(async move { connection.await.unwrap() });
        for n in 0..requests {
            let request = http::Request::builder()
                .method(if n % 3 == 0 { "POST" } else { "GET" })
                .uri(format!("http://shop.example{}?token=canary", path(n)))
                .header("x-n", n)
                .header("authorization", "Bearer canary");
            let with_body = n % 3 == 0;
            client = client.ready().await.unwrap();
            let (response, mut body) = client.send_request(request.body(()).unwrap(), !with_body).unwrap();
            if with_body {
                body.send_data(vec![b'q'; n as usize % 4 * 900].into(), true).unwrap();
            }
            let mut body = response.await.unwrap().into_body();
            while let Some(Ok(part)) = body.data().await {
                body.flow_control().release_capacity(part.len()).unwrap();
            }
        }
    });
    let recorded = std::mem::take(&mut *calls.lock().unwrap());
    recorded
}

/// The messages of each stream: the path (if it is known), and the status.
#[derive(Debug, Default, PartialEq, Clone)]
struct Said {
    request: bool,
    path: Option<String>,
    response: bool,
    status: Option<i32>,
    ended: bool,
}

fn listen(turns: &[Turn]) -> BTreeMap<u64, Said> {
    let mut parser = Http2.parser(Transport::Tcp);
    let mut said: BTreeMap<u64, Said> = BTreeMap::new();
    let mut take = |item: Item<'_, '_>| match item {
        Item::Message(m) => {
            let entry = said.entry(m.id.unwrap()).or_default();
            let unknown = m.attrs.iter().find(|(k, _)| *k == "wirespan.unknown");
            let hidden = |name| matches!(unknown, Some((_, AttrVal::Str(list))) if list.split(',').any(|n| n == name));
            assert!(!format!("{m:?}").contains("canary"), "{m:?}");
            match m.kind {
                Kind::Request => {
                    assert!(!entry.request, "twice {m:?}");
                    entry.request = true;
                    assert_eq!(m.target.is_empty(), hidden("url.path"), "{m:?}");
                    entry.path = (!m.target.is_empty()).then(|| m.target.to_string());
                }
                _ => {
                    entry.response = true;
                    entry.status = m.status_code;
                }
            }
        }
        Item::End { side: Side::Server, id, .. } => said.entry(id.unwrap()).or_default().ended = true,
        _ => {}
    };
    for (side, bytes, missing) in turns {
        parser.feed(Chunk { side: *side, bytes, missing: *missing }, &mut take);
    }
    parser.finish(&mut take);
    said
}

fn check(said: &BTreeMap<u64, Said>, expected: impl Iterator<Item = u32>, what: &str) -> usize {
    let mut known = 0;
    for n in expected {
        let one = said.get(&u64::from(2 * n + 1)).unwrap_or_else(|| panic!("{what}: request {n} is missing"));
        assert!(one.request, "{what}: request {n} is missing");
        assert!(one.path.as_ref().is_none_or(|p| *p == path(n)), "{what}: {n} {one:?}");
        known += usize::from(one.path.is_some());
        assert!(one.status.is_none_or(|s| s == i32::from(status(n))), "{what}: {n} {one:?}");
    }
    known
}

const REQUESTS: u32 = 120;

/// Number of client bytes before each request, read by the parser from the start (which `check` has verified).
fn request_offsets(calls: &[Turn]) -> Vec<u64> {
    let mut parser = Http2.parser(Transport::Tcp);
    let mut offsets = Vec::new();
    for (side, bytes, missing) in calls {
        parser.feed(Chunk { side: *side, bytes, missing: *missing }, &mut |item| {
            if let Item::Message(m) = item {
                if m.kind == Kind::Request {
                    offsets.push(m.offset);
                }
            }
        });
    }
    offsets
}

#[test]
fn from_the_start_everything_is_known() {
    let calls = conversation(REQUESTS);
    let said = listen(&calls);
    assert_eq!(said.len(), REQUESTS as usize);
    assert_eq!(check(&said, 0..REQUESTS, "start"), REQUESTS as usize);
    assert!(said.values().all(|s| s.status.is_some() && s.ended));
    assert_eq!(request_offsets(&calls).len(), REQUESTS as usize);
    // However it is cut.
    assert_eq!(listen(&cut(&calls, &[1])), said);
    assert_eq!(listen(&cut(&calls, &[7, 100, 3, 9, 1])), said);
}

#[test]
fn joined_between_any_two_calls_every_request_is_counted_and_none_is_wrong() {
    let calls = conversation(REQUESTS);
    let offsets = request_offsets(&calls);
    let mut passed = 0u64;
    let mut recovered = 0;
    for (k, call) in calls.iter().enumerate() {
        let rest = &calls[k..];
        let expected = (0..REQUESTS).filter(|n| offsets[*n as usize] >= passed);
        let left = expected.clone().count();
        let known = check(&listen(rest), expected, &format!("join at call {k}"));
        if left > 40 {
            assert!(known * 10 >= left * 6, "join at call {k}: {known} of {left} paths");
            recovered += 1;
        }
        if call.0 == Side::Client {
            passed += call.1.len() as u64;
        }
    }
    assert!(recovered > 50);
}

#[test]
fn joined_inside_a_frame_every_later_request_is_counted() {
    let calls = conversation(16);
    let offsets = request_offsets(&calls);
    let mut passed = 0u64;
    for (k, call) in calls.iter().enumerate() {
        for inside in (1..call.1.len()).step_by(23) {
            let mut rest = calls[k..].to_vec();
            rest[0].1.drain(..inside);
            let from = if call.0 == Side::Client { passed + inside as u64 } else { passed };
            let expected = (0..16).filter(|n| offsets[*n as usize] >= from);
            check(&listen(&rest), expected, &format!("join at call {k}, byte {inside}"));
        }
        if call.0 == Side::Client {
            passed += call.1.len() as u64;
        }
    }
}

#[test]
fn calls_cut_short_lose_no_request_of_which_the_frame_header_was_seen() {
    let calls = conversation(REQUESTS);
    let offsets = request_offsets(&calls);
    for keep in [20, 64, 300, 512, 1000, 4096] {
        let mut seen = Vec::new();
        let mut at = 0u64;
        let mut short = calls.clone();
        for (side, bytes, missing) in &mut short {
            let whole = bytes.len() as u64;
            bytes.truncate(keep);
            *missing = whole - bytes.len() as u64;
            if *side == Side::Client {
                let kept = at..at + bytes.len() as u64;
                seen.extend((0..REQUESTS).filter(|n| {
                    let offset = offsets[*n as usize];
                    kept.contains(&offset) && kept.contains(&(offset + 12))
                }));
                at += whole;
            }
        }
        assert!(seen.len() > 80, "{keep}: {}", seen.len());
        check(&listen(&short), seen.into_iter(), &format!("{keep} bytes of each call"));
    }
}

#[test]
fn a_connection_is_recognised_from_its_middle() {
    let calls = conversation(60);
    let gather = |calls: &[Turn], side| -> Vec<u8> {
        calls.iter().filter(|c| c.0 == side).flat_map(|c| c.1.iter().copied()).take(4096).collect()
    };
    let mut joined = 0;
    for k in 4..calls.len() - 12 {
        // As the joiner sees it: more calls until there is an answer.
        let found = (1..=8).find_map(|n| {
            let calls = &calls[k..k + n];
            let first = gather(calls, calls[0].0);
            let second = gather(calls, calls[0].0.peer());
            match Http2.detect(&probe(&first, &second)) {
                Detect::Yes { first_is_client } => Some(first_is_client == (calls[0].0 == Side::Client)),
                _ => None,
            }
        });
        assert_eq!(found, Some(true), "join at call {k}");
        joined += 1;
    }
    assert!(joined >= 100, "{joined}");
}
