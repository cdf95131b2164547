//! The bytes of the link: preamble, frames, batches. No I/O of its own beyond `Read` and `Write`; nothing here panics
//! on any input, and nothing allocates more than the peer has sent, but for the announced size of a batch (≤
//! [`MAX_RAW`]).

use super::AgentInfo;
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::sync::Arc;
use wirespan_model::{Flow, Resource, Span};

/// Version of the link and of the encoding of spans.
pub const VERSION: u16 = 5;
const MAGIC: &[u8; 4] = b"WSPN";
/// Largest body of a frame, bytes.
pub const MAX_FRAME: usize = 1 << 20;
/// Largest batch before compression, bytes.
pub const MAX_RAW: usize = 8 << 20;
/// Most spans in a batch.
pub const MAX_BATCH: usize = 4096;
/// Longest text of a refusal, and of any name in a hello or report, bytes.
const MAX_TEXT: usize = 1024;
/// Kinds of frames that carry batches.
pub(crate) const SPANS: u8 = 4;
pub(crate) const FLOWS: u8 = 8;
/// Kind of frames that carry answers.
const ANSWER: u8 = 11;
/// Most counters in a report.
pub(crate) const MAX_REPORT: usize = 1024;

/// Errors in the peer's bytes.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The connection failed or ended.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The peer does not speak this protocol.
    #[error("not a wirespan link: it begins with {0:02x?} instead of \"WSPN\"")]
    Magic([u8; 4]),
    /// The peer speaks another version.
    #[error("link version {theirs}, but this program speaks version {VERSION}: upgrade the older of the two")]
    Version {
        /// Version of the peer.
        theirs: u16,
    },
    /// The peer does not want us.
    #[error("refused by the server: {0}")]
    Refused(String),
    /// A frame longer than allowed.
    #[error("a frame of {0} bytes; at most {MAX_FRAME} are allowed")]
    TooLong(usize),
    /// A kind of frame that does not exist, or not here.
    #[error("unexpected frame of kind {0}")]
    Kind(u8),
    /// A body that cannot be read.
    #[error("malformed {0}")]
    Malformed(&'static str),
}

impl FrameError {
    /// Counter name.
    pub fn reason(&self) -> &'static str {
        match self {
            FrameError::Io(_) => "io",
            FrameError::Magic(_) => "magic",
            FrameError::Version { .. } => "version",
            FrameError::Refused(_) => "refused",
            FrameError::TooLong(_) => "too_long",
            FrameError::Kind(_) => "kind",
            FrameError::Malformed(_) => "malformed",
        }
    }
}

/// First frame of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// Random; the numbers of batches count within it.
    pub(crate) session: u64,
    pub(crate) agent: AgentInfo,
    /// Shared secret, if the server asks for one.
    pub(crate) token: String,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Hello(Hello),
    /// Welcome; the last batch of the session that was taken, 0 if none.
    Welcome(u64),
    Refused(String),
    /// Number, and the compressed batch.
    Spans(u64, Vec<u8>),
    /// A batch of flows, numbered together with the batches of spans.
    Flows(u64, Vec<u8>),
    /// The server has taken every batch up to this number.
    Ack(u64),
    Ping,
    /// Counters of the agent.
    Report(Vec<(String, u64)>),
    /// The server cannot take the next batch now, and why; it goes on trying.
    Busy(String),
    /// The number of an order, and what the agent should do.
    Order(u64, Vec<u8>),
    /// The number of the order that is answered, and the answer.
    Answer(u64, Vec<u8>),
}

/// Writes magic and version.
pub(crate) fn write_preamble(w: &mut impl Write) -> io::Result<()> {
    let mut bytes = [0; 6];
    bytes[..4].copy_from_slice(MAGIC);
    bytes[4..].copy_from_slice(&VERSION.to_le_bytes());
    w.write_all(&bytes)
}

/// Reads and checks magic and version.
pub(crate) fn read_preamble(r: &mut impl Read) -> Result<(), FrameError> {
    let mut magic = [0; 4];
    r.read_exact(&mut magic)?;
    if &magic != MAGIC {
        return Err(FrameError::Magic(magic));
    }
    let mut version = [0; 2];
    r.read_exact(&mut version)?;
    match u16::from_le_bytes(version) {
        VERSION => Ok(()),
        theirs => Err(FrameError::Version { theirs }),
    }
}

impl Frame {
    fn kind(&self) -> u8 {
        match self {
            Frame::Hello(_) => 1,
            Frame::Welcome(_) => 2,
            Frame::Refused(_) => 3,
            Frame::Spans(..) => SPANS,
            Frame::Ack(_) => 5,
            Frame::Ping => 6,
            Frame::Report(_) => 7,
            Frame::Flows(..) => FLOWS,
            Frame::Busy(_) => 9,
            Frame::Order(..) => 10,
            Frame::Answer(..) => ANSWER,
        }
    }

    /// Writes the frame in one call.
    pub(crate) fn write(&self, w: &mut impl Write) -> Result<(), FrameError> {
        let mut out = vec![0; 5];
        match self {
            Frame::Hello(hello) => out = encode(hello, out)?,
            Frame::Report(counters) => out = encode(counters, out)?,
            Frame::Welcome(n) | Frame::Ack(n) => out.extend_from_slice(&n.to_le_bytes()),
            Frame::Refused(why) | Frame::Busy(why) => out.extend_from_slice(why.as_bytes()),
            Frame::Spans(n, body) | Frame::Flows(n, body) | Frame::Order(n, body) | Frame::Answer(n, body) => {
                return write_batch(w, self.kind(), *n, body);
            }
            Frame::Ping => {}
        }
        let len = out.len() - 5;
        out[..5].copy_from_slice(&header(self.kind(), len)?);
        Ok(w.write_all(&out)?)
    }

    /// Reads one frame. Memory grows with the bytes that arrive, not with the length that was announced.
    pub(crate) fn read(r: &mut impl Read) -> Result<Frame, FrameError> {
        let mut header = [0; 5];
        r.read_exact(&mut header)?;
        let [a, b, c, d, kind] = header;
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        let limit = if matches!(kind, SPANS | FLOWS | ANSWER) { MAX_FRAME } else { MAX_FRAME / 8 };
        if len > limit {
            return Err(FrameError::TooLong(len));
        }
        let mut body = Vec::new();
        r.take(len as u64).read_to_end(&mut body)?;
        if body.len() < len {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Frame::parse(kind, body)
    }

    fn parse(kind: u8, body: Vec<u8>) -> Result<Frame, FrameError> {
        let number = |what| body.first_chunk().map(|b| u64::from_le_bytes(*b)).ok_or(FrameError::Malformed(what));
        Ok(match kind {
            1 => {
                let hello: Hello = decode(&body, "hello")?;
                let texts = [&hello.agent.host, &hello.agent.version, &hello.token];
                if texts.iter().any(|t| t.len() > MAX_TEXT) {
                    return Err(FrameError::Malformed("hello"));
                }
                Frame::Hello(hello)
            }
            2 => Frame::Welcome(number("welcome")?),
            3 => Frame::Refused(text(&body)),
            SPANS | FLOWS => {
                let n = number("batch number")?;
                let mut batch = body;
                batch.drain(..8);
                if kind == SPANS {
                    Frame::Spans(n, batch)
                } else {
                    Frame::Flows(n, batch)
                }
            }
            5 => Frame::Ack(number("acknowledgement")?),
            6 => Frame::Ping,
            7 => {
                let counters: Vec<(String, u64)> = decode(&body, "report")?;
                if counters.len() > MAX_REPORT || counters.iter().any(|(k, _)| k.len() > MAX_TEXT) {
                    return Err(FrameError::Malformed("report"));
                }
                Frame::Report(counters)
            }
            9 => Frame::Busy(text(&body)),
            10 => Frame::Order(number("order")?, body[8..].to_vec()),
            ANSWER => Frame::Answer(number("answer")?, body[8..].to_vec()),
            kind => return Err(FrameError::Kind(kind)),
        })
    }
}

/// A text of the peer, of at most `MAX_TEXT` bytes also where bytes are replaced that are not UTF-8.
fn text(body: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(&body[..body.len().min(MAX_TEXT)]).into_owned();
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

/// Writes a number and a body without copying the body.
pub(crate) fn write_batch(w: &mut impl Write, kind: u8, number: u64, batch: &[u8]) -> Result<(), FrameError> {
    let mut head = [0; 13];
    head[..5].copy_from_slice(&header(kind, batch.len() + 8)?);
    head[5..].copy_from_slice(&number.to_le_bytes());
    w.write_all(&head)?;
    Ok(w.write_all(batch)?)
}

fn header(kind: u8, len: usize) -> Result<[u8; 5], FrameError> {
    if len > MAX_FRAME {
        return Err(FrameError::TooLong(len));
    }
    let [a, b, c, d] = (len as u32).to_le_bytes();
    Ok([a, b, c, d, kind])
}

fn encode<T: Serialize>(value: &T, out: Vec<u8>) -> Result<Vec<u8>, FrameError> {
    postcard::to_extend(value, out).map_err(|_| FrameError::Malformed("value to encode"))
}

fn decode<'a, T: Deserialize<'a>>(body: &'a [u8], what: &'static str) -> Result<T, FrameError> {
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Ok(value),
        _ => Err(FrameError::Malformed(what)),
    }
}

/// Spans (or flows) → batches, each small enough for a frame: `(how many, compressed bytes)`. An item that is too large
/// for a frame is left out and counted in the second value.
pub(crate) fn encode_batches<T: Serialize>(items: &[T]) -> (Vec<(usize, Vec<u8>)>, u64) {
    let mut batches = Vec::new();
    let mut too_big = 0;
    let mut todo: Vec<&[T]> = items.chunks(MAX_BATCH).rev().collect();
    while let Some(part) = todo.pop() {
        match encode_batch(part) {
            Some(batch) => batches.push((part.len(), batch)),
            None if part.len() > 1 => {
                let (a, b) = part.split_at(part.len() / 2);
                todo.extend([b, a]);
            }
            None => too_big += 1,
        }
    }
    (batches, too_big)
}

fn encode_batch<T: Serialize>(items: &[T]) -> Option<Vec<u8>> {
    let raw = postcard::to_extend(items, Vec::with_capacity(items.len() * 384)).ok()?;
    if raw.len() > MAX_RAW {
        return None;
    }
    let batch = lz4_flex::block::compress_prepend_size(&raw);
    (batch.len() + 8 <= MAX_FRAME).then_some(batch)
}

/// A batch, decompressed.
fn expand(batch: &[u8]) -> Result<Vec<u8>, FrameError> {
    const BAD: FrameError = FrameError::Malformed("batch");
    let (size, block) = lz4_flex::block::uncompressed_size(batch).map_err(|_| BAD)?;
    if size > MAX_RAW {
        return Err(FrameError::TooLong(size));
    }
    let raw = lz4_flex::block::decompress(block, size).map_err(|_| BAD)?;
    // The count is read first, so that a false count allocates nothing.
    let (count, _) = postcard::take_from_bytes::<u32>(&raw).map_err(|_| BAD)?;
    if count as usize > MAX_BATCH {
        return Err(FrameError::Malformed("batch: too many"));
    }
    Ok(raw)
}

/// A compressed batch → flows.
pub(crate) fn decode_flows(batch: &[u8]) -> Result<Vec<Flow>, FrameError> {
    decode(&expand(batch)?, "batch")
}

/// A compressed batch → spans. Equal resources become one.
pub(crate) fn decode_batch(
    batch: &[u8],
    resources: &mut FxHashSet<Arc<Resource>>,
) -> Result<Vec<Arc<Span>>, FrameError> {
    let raw = expand(batch)?;
    let spans: Vec<Span> = decode(&raw, "batch")?;
    if resources.len() > MAX_BATCH {
        resources.clear();
    }
    Ok(spans
        .into_iter()
        .map(|mut span| {
            match resources.get(&span.resource) {
                Some(shared) => span.resource = shared.clone(),
                None => {
                    resources.insert(span.resource.clone());
                }
            }
            Arc::new(span)
        })
        .collect())
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
