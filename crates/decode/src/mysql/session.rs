//! What both sides of a connection have agreed on, and how far the answer to the oldest command is.

use super::packet::{com, Header, MAX_QUERY};
use super::{detect, reason};
use crate::framing::exchange::{Frame, Measure, Session};
use crate::framing::Out;
use crate::mask::{Backslash, Dialect, Masker, Rules, Statements};
use std::collections::VecDeque;
use wirespan_model::{Item, Side};

/// Unanswered commands that are remembered.
const MAX_OUTSTANDING: usize = 4096;

/// Where a connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing was seen.
    #[default]
    Start,
    /// The server greeted.
    Greeted,
    /// The client logged in; both sides exchange credentials.
    Auth,
    /// Commands and answers.
    Commands,
}

/// How far the answer to the oldest command is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Answer {
    /// Its first packet, or that of the next result, comes next.
    #[default]
    Begin,
    /// Definitions of columns or parameters, so many; then rows or the end.
    Definitions { left: u64, rows: bool },
    /// Rows.
    Rows,
}

/// A command that waits for (the rest of) its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub(super) command: u8,
    /// Its answer has begun.
    pub(super) begun: bool,
    /// Rows seen.
    pub(super) rows: u64,
    /// A result with rows was seen.
    pub(super) result: bool,
    pub(super) affected: Option<u64>,
    /// Provisional key of the statement that it prepares.
    pub(super) prepares: Option<u64>,
}

impl Unit {
    pub(super) fn new(command: u8) -> Self {
        Unit { command, begun: false, rows: 0, result: false, affected: None, prepares: None }
    }
}

/// State of one connection.
#[derive(Debug, Default)]
pub(super) struct MySession {
    pub(super) phase: Phase,
    pub(super) answer: Answer,
    pub(super) queue: VecDeque<Unit>,
    pub(super) masker: Masker,
    pub(super) statements: Statements,
    /// Keys of statements whose number is not known yet, and the number given last.
    pub(super) provisional: u32,
    pub(super) last_statement: Option<u32>,
    pub(super) database: String,
    /// Database that a command selects if it succeeds.
    pub(super) selecting: String,
    pub(super) backslash: Backslash,
    pub(super) double_byte: bool,
    /// Capabilities of both; unknown if we joined later.
    pub(super) server_caps: u64,
    pub(super) deprecate_eof: Option<bool>,
    pub(super) attributes: Option<bool>,
    /// The packets have the headers of compression; unknown before the first packet.
    pub(super) compressed: Option<bool>,
    /// The last client packet was as long as can be: the next goes on with it.
    pub(super) continued: bool,
    /// Events stream.
    pub(super) dumping: bool,
    pub(super) server_lost: bool,
    /// A command was sent after packets of the server were lost, and nothing else waits: what the server says next is
    /// its answer.
    pub(super) realigned: bool,
    pub(super) over: bool,
}

impl MySession {
    pub(super) fn with(masker: Masker) -> Self {
        MySession { masker, ..MySession::default() }
    }

    pub(super) fn rules(&self) -> Rules {
        Rules { dialect: Dialect::MySql, backslash: self.backslash, double_byte: self.double_byte }
    }

    /// Remembers a command that is answered.
    pub(super) fn push(&mut self, unit: Unit, out: Out<'_>) {
        if std::mem::take(&mut self.server_lost) {
            // Older ones were answered unseen.
            self.queue.clear();
            self.answer = Answer::Begin;
            self.realigned = true;
        }
        if self.queue.len() >= MAX_OUTSTANDING {
            self.queue.pop_front();
            self.answer = Answer::Begin;
            out(Item::Malformed { side: Side::Client, reason: reason::TOO_MANY_OUTSTANDING });
        }
        self.queue.push_back(unit);
    }

    /// Whether packets are wrapped; decided by the first ones if the login was not seen.
    pub(super) fn is_compressed(&self, bytes: &[u8]) -> bool {
        match self.compressed {
            Some(known) => known && self.phase == Phase::Commands,
            None => self.phase == Phase::Start && detect::is_compressed(bytes),
        }
    }
}

impl Session for MySession {
    const BAD: &'static str = reason::BAD_PACKET;
    const GAP: &'static str = reason::GAP;

    fn measure(&self, side: Side, bytes: &[u8]) -> Measure {
        let Some(header) = Header::read(bytes) else { return Measure::More(4) };
        let len = u64::from(header.len);
        if self.compressed.is_none() && self.phase == Phase::Start && bytes.len() < 14 {
            // Whether packets are wrapped shows in the first bytes.
            let whole = len.saturating_add(4);
            if crate::text::len64(bytes.len()) < whole {
                return Measure::More(14.min(crate::text::at_most(whole, 14)));
            }
        }
        if self.is_compressed(bytes) {
            let keep = if side == Side::Client { MAX_QUERY } else { 640 };
            return if bytes.len() < 7 {
                Measure::More(7)
            } else {
                Measure::Frame { len: len.saturating_add(7), keep }
            };
        }
        if len == 0 {
            return Measure::Frame { len: 4, keep: 4 };
        }
        let Some(first) = bytes.get(4) else { return Measure::More(5) };
        let keep = match (side, *first) {
            (Side::Server, f) if self.dumping && f != 0xff => 5,
            (Side::Client, _) if self.phase == Phase::Greeted => 600,
            (Side::Client, _) if header.seq != 0 || self.continued => 5,
            (Side::Client, com::QUERY | com::STMT_PREPARE) => MAX_QUERY,
            (Side::Client, com::INIT_DB | com::CHANGE_USER) => 300,
            (Side::Client, _) => 16,
            (Side::Server, 0x0a) if self.phase == Phase::Start => 300,
            (Side::Server, 0xff) => 640,
            (Side::Server, _) => 40,
        };
        Measure::Frame { len: len.saturating_add(4), keep }
    }

    fn frame(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        if self.is_compressed(frame.bytes) {
            (self.compressed, self.phase) = (Some(true), Phase::Commands);
            return self.unwraps(frame, out);
        }
        match frame.side {
            Side::Client => self.asks(frame, out),
            Side::Server => self.answers(frame, out),
        }
    }

    fn resumes(&self, side: Side, bytes: &[u8]) -> bool {
        match (side, self.compressed) {
            (_, Some(true)) => detect::is_compressed(bytes),
            (Side::Client, _) => detect::resumes_client(bytes),
            (Side::Server, _) => !self.server_lost && detect::resumes_server(bytes),
        }
    }

    fn lost(&mut self, side: Side, _out: Out<'_>) -> bool {
        match side {
            // File contents and long parameters are no commands.
            Side::Client => !self.queue.front().is_some_and(|u| u.begun),
            Side::Server => {
                self.server_lost = true;
                self.queue.len() > 1 || !self.queue.front().is_some_and(|u| u.begun)
            }
        }
    }

    fn realigns(&mut self) -> bool {
        std::mem::take(&mut self.realigned)
    }

    fn is_over(&self) -> bool {
        self.over
    }
}
