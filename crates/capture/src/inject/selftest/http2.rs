//! Requests of HTTP/2: each must arrive as it was sent, but for one field at the end of its block of headers.

use super::{connect, ensure, said, Check, Expect, PATIENCE};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// What is added to a block: a field that no table keeps, its name and its value with their lengths.
const FIELD: &[u8] = b"\x00\x0btraceparent\x37";
const ADDED: usize = 69;
/// `:method`, `:scheme` and `:path` by their numbers, and an `:authority` that the table keeps.
const BLOCK: &[u8] = b"\x82\x86\x84\x41\x09self.test";
const OWN: &[u8] = b"\x82\x86\x84\x40\x0btraceparent\x0500-00";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
/// Reads of the server that wait for the client, at most.
const PIECES: usize = 64;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u8, bytes: &[u8]) -> Vec<u8> {
    let [.., high, low] = bytes.len().to_be_bytes();
    [&[0, high, low, kind, flags, 0, 0, 0, stream], bytes].concat()
}

fn head(stream: u8, block: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, block)
}

/// A connection. What arrives is read by another thread, so that the sender acts for no request that it has read;
/// neither waits for the other one (no lock, no blocking receive), so that nothing is handed over.
struct Ends {
    client: TcpStream,
    came: Receiver<Vec<u8>>,
}

impl Ends {
    fn begin() -> Result<Ends, String> {
        let (client, mut server) = connect()?;
        let (arrived, came) = mpsc::sync_channel(PIECES);
        let read = move || {
            let mut piece = [0; 4096];
            while let Ok(n @ 1..) = server.read(&mut piece) {
                if arrived.try_send(piece.iter().take(n).copied().collect()).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("self-test".into()).spawn(read).map_err(|e| e.to_string())?;
        let mut ends = Ends { client, came };
        let all = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
        let came = ends.pass(&all, all.len())?;
        ensure(came == all, || "the preface of HTTP/2 was changed".into())?;
        Ok(ends)
    }

    /// Sends bytes in one call, and returns what arrived.
    fn pass(&mut self, sent: &[u8], expected: usize) -> Result<Vec<u8>, String> {
        self.client.write_all(sent).map_err(said("sending frames"))?;
        let (begin, mut all) = (Instant::now(), Vec::new());
        while all.len() < expected && begin.elapsed() < PATIENCE {
            match self.came.try_recv() {
                Ok(piece) => all.extend(piece),
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        Ok(all)
    }

    /// Sends these frames in one call. Those with a true beside them must arrive with a context.
    fn send(&mut self, frames: &[(Vec<u8>, bool)]) -> Check {
        let sent: Vec<u8> = frames.iter().flat_map(|(f, _)| f).copied().collect();
        let added = ADDED * frames.iter().filter(|(_, context)| *context).count();
        let all = self.pass(&sent, sent.len() + added)?;
        ensure(all.len() == sent.len() + added, || {
            format!("{} bytes of HTTP/2 arrived of {} with {added} of contexts", all.len(), sent.len())
        })?;
        let mut rest = all.as_slice();
        for (frame, context) in frames {
            let (begin, behind) = rest.split_at(frame.len().min(rest.len()));
            let (added, behind) = behind.split_at(if *context { ADDED.min(behind.len()) } else { 0 });
            rest = behind;
            ensure(begin.get(3..) == frame.get(3..), || "a frame of HTTP/2 was changed".into())?;
            let said = begin.iter().take(3).fold(0, |n, byte| n << 8 | usize::from(*byte));
            ensure(said + 9 == begin.len() + added.len(), || format!("a frame of HTTP/2 says {said} bytes"))?;
            ensure(!*context || added.starts_with(FIELD), || "a frame of HTTP/2 came without its context".into())?;
        }
        Ok(())
    }
}

pub(super) fn talk(expect: Expect) -> Check {
    let every = expect == Expect::Every;
    let body = |stream| frame(DATA, 1, stream, &[b'x'; 100]);
    let mut ends = Ends::begin()?;
    ends.send(&[(head(1, BLOCK), every), (body(1), false)])?;
    // Two of one call, the second while the first is not answered; trailers get none.
    ends.send(&[(head(3, BLOCK), every), (body(3), false), (head(5, BLOCK), every)])?;
    ends.send(&[(body(5), false), (head(5, b"\x40\x01a\x01b"), false)])?;
    // Once the application has sent a context, any later request may name it by a number.
    ends.send(&[(head(7, OWN), false), (head(9, BLOCK), false)])?;
    let mut ends = Ends::begin()?;
    let open = frame(HEADERS, 0, 1, BLOCK);
    ends.send(&[(open, false), (frame(CONTINUATION, END_HEADERS, 1, b"\x84"), false), (head(3, BLOCK), false)])
}
