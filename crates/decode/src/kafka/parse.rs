//! The state of one Kafka connection.

use super::api::{self, Api};
use super::emit::{self, Remembered};
use super::facts::Facts;
use super::fetches::Fetches;
use super::head::{self, Head, MAX_FRAME};
use super::wire::{Reader, Stop};
use super::{reason, request, response, topics};
use crate::framing::prefixed::{Frame, Framing, PrefixedParser, Start};
use crate::framing::Out;
use crate::text::at_most;
use std::collections::VecDeque;
use wirespan_model::{Item, Kind, Message, Side};

/// Most unanswered requests that are remembered.
pub const MAX_OUTSTANDING: usize = 1024;
/// Bytes of a frame that are kept until it is read: the heads of its batches stand among the records.
const KEEP: usize = 64 * 1024;
/// The same of an answer to a fetch. By default a consumer asks for at most 1 MiB of a partition, and gets as much when
/// it is behind.
const KEEP_FETCHED: usize = KEEP + 1024 * 1024;
/// Longest SASL token that passes by without a header.
const MAX_TOKEN: u64 = 1 << 20;

/// A request that waits for its response.
#[derive(Clone, Copy, Debug)]
struct Asked {
    correlation: i32,
    api: Option<&'static Api>,
    key: i16,
    version: i16,
    remembered: Remembered,
}

/// Parser of one connection.
pub(super) type KafkaParser = PrefixedParser<Session>;

#[derive(Debug, Default)]
pub(super) struct Session {
    asked: VecDeque<Asked>,
    /// A handshake of version 0 is under way: SASL tokens follow without a header.
    raw_sasl: bool,
    fetches: Fetches,
}

impl Framing for Session {
    const BAD: &'static str = reason::BAD_FRAME;
    const GAP: &'static str = reason::GAP;
    const KEEP: usize = KEEP;

    fn keep(&self, side: Side, bytes: &[u8]) -> usize {
        let id = bytes.get(4..8).and_then(|b| b.first_chunk::<4>()).filter(|_| side == Side::Server);
        let is_fetch = id.and_then(|id| self.asked_by(*id)).is_some_and(|asked| asked.key == api::FETCH);
        if is_fetch {
            KEEP_FETCHED
        } else {
            KEEP
        }
    }

    /// Records that a broker sends without copying them stand between the heads of partitions.
    fn bridges(&self, side: Side) -> bool {
        side == Side::Server
    }

    fn start(&self, side: Side, bytes: &[u8], lost: bool) -> Start {
        match side {
            Side::Client => self.request_start(bytes, lost),
            Side::Server => self.response_start(bytes, lost),
        }
    }

    fn frame(&mut self, frame: Frame<'_>, out: Out<'_>) {
        match frame.side {
            Side::Client => self.request(frame, out),
            Side::Server => self.response(frame, out),
        }
    }
}

impl Session {
    fn request_start(&self, bytes: &[u8], lost: bool) -> Start {
        let Some(len) = head::frame_len(bytes) else { return Start::More };
        match head::head(bytes, lost || self.raw_sasl) {
            Ok(_) => Start::Frame(len),
            Err(_) if self.raw_sasl && !lost => {
                if len > MAX_TOKEN {
                    return Start::Bad;
                }
                // It may be a request whose header is not there yet.
                let more = bytes.len() < at_most(len, 64) && head::head(bytes, true).is_err_and(|e| e == Stop::More);
                if more {
                    Start::More
                } else {
                    Start::Silent(len)
                }
            }
            // A request cannot end within its header.
            Err(Stop::More) if bytes.len() < at_most(len, usize::MAX) => Start::More,
            Err(_) => Start::Bad,
        }
    }

    fn response_start(&self, bytes: &[u8], lost: bool) -> Start {
        let Some(len) = head::frame_len(bytes) else { return Start::More };
        if len > MAX_FRAME {
            return Start::Bad;
        }
        if self.raw_sasl && !lost {
            return Start::Silent(len);
        }
        if len < 8 {
            return Start::Bad;
        }
        match bytes.get(4..8).and_then(|b| b.first_chunk::<4>()) {
            None => Start::More,
            Some(id) if !lost || self.was_asked(*id) => Start::Frame(len),
            // An answer to a request from before the join, if a known answer stands behind it.
            Some(_) if self.leads_to_known(bytes, len) => Start::Silent(len),
            Some(_) => Start::Bad,
        }
    }

    fn was_asked(&self, correlation: [u8; 4]) -> bool {
        self.asked_by(correlation).is_some()
    }

    fn asked_by(&self, correlation: [u8; 4]) -> Option<&Asked> {
        self.asked.iter().find(|a| a.correlation == i32::from_be_bytes(correlation))
    }

    fn leads_to_known(&self, bytes: &[u8], len: u64) -> bool {
        let next = bytes.get(at_most(len, usize::MAX)..).unwrap_or_default();
        head::frame_len(next).is_some_and(|len| (8..=MAX_FRAME).contains(&len))
            && next.get(4..8).and_then(|b| b.first_chunk::<4>()).is_some_and(|id| self.was_asked(*id))
    }

    fn request(&mut self, frame: Frame<'_>, out: Out<'_>) {
        let Ok((head, mut body)) = head::head(frame.bytes, false) else {
            // The capture ends within the header.
            out(Item::Malformed { side: frame.side, reason: reason::BAD_FRAME });
            return;
        };
        self.raw_sasl = false;
        let mut fetches = std::mem::take(&mut self.fetches);
        let mut facts = Facts::default();
        // Facts that were read before an error count.
        let read = request::body(&head, &mut body, &mut facts);
        let mut remembered = Remembered::of(head.key, &facts);
        if head.key == api::FETCH {
            remembered = fetches.asked(&facts, remembered);
            if read.is_err() {
                // Which topics leave the session stands at the end.
                facts.forgets = true;
            }
            let topic = fetches.topic(&facts);
            if facts.topics == Some(0) {
                facts.topic = topic;
            }
        }
        let one_way = head.key == api::PRODUCE && facts.acks == Some(0);
        let kind = if one_way { Kind::OneWay } else { Kind::Request };
        let mut message = Message::new("kafka", frame.side, kind, frame.offset);
        emit::place(&mut message, &frame, head.correlation);
        emit::request(&mut message, &head, facts);
        out(Item::Message(&message));
        drop(message);
        self.fetches = fetches;
        if !one_way {
            self.ask(&head, remembered, out);
        }
    }

    fn ask(&mut self, head: &Head<'_>, remembered: Remembered, out: Out<'_>) {
        if self.asked.len() >= MAX_OUTSTANDING {
            self.asked.pop_front();
            out(Item::Malformed { side: Side::Client, reason: reason::TOO_MANY_OUTSTANDING });
        }
        let Head { key, version, correlation, api, .. } = *head;
        self.asked.push_back(Asked { correlation, api, key, version, remembered });
    }

    fn response(&mut self, frame: Frame<'_>, out: Out<'_>) {
        let mut message = Message::new("kafka", frame.side, Kind::Response, frame.offset);
        let mut r = Reader::with_holes(frame.bytes, frame.holes);
        let (Ok(_), Ok(correlation)) = (r.i32(), r.i32()) else { return };
        emit::place(&mut message, &frame, correlation);
        // Brokers answer in the order of the requests: the answers to earlier requests were lost.
        let asked = self.asked.iter().position(|a| a.correlation == correlation).map(|at| {
            self.asked.drain(..at);
            self.asked.pop_front()
        });
        let Some(asked) = asked.flatten() else { return out(Item::Message(&message)) };
        let mut facts = Facts::default();
        if let Some(api) = asked.api.filter(|api| asked.version <= api.newest) {
            let flexible = asked.version >= api.flexible;
            let mut body = r.encoded(flexible);
            // An old broker has to be able to refuse any version: this response has kept its first header.
            let tags = if asked.key == api::API_VERSIONS { Ok(()) } else { body.tags() };
            let mut learn = topics::learn;
            let read = tags.and_then(|()| response::body(api, asked.version, &mut body, &mut facts, &mut learn));
            if asked.key == api::SASL_HANDSHAKE && asked.version == 0 && facts.error == Some(0) {
                self.raw_sasl = true;
            }
            facts.len = frame.len;
            if asked.key == api::FETCH && frame.rest() > 0 && frame.bytes.len() >= KEEP_FETCHED {
                out(Item::Malformed { side: frame.side, reason: reason::RECORDS_CUT });
            }
            emit::response(&mut message, asked.key, facts, &asked.remembered, read.is_err());
        }
        out(Item::Message(&message));
    }
}
