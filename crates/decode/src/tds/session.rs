//! Packets of both sides → requests and answers.

use super::token::{behind_headers, call, kind, last_token, outcome, tokens, utf16, Call, Packet, Tokens, HEADER};
use super::{detect, reason};
use crate::framing::exchange::{Frame, Measure, Session};
use crate::framing::Out;
use crate::mask::{self, Described, Dialect, Masker, Rules};
use crate::text::len64;
use std::borrow::Cow;
use std::collections::VecDeque;
use wirespan_model::{AttrVal, Body, Item, Kind, Late, Message, Outcome, Side};

/// Protocol and system, as OpenTelemetry writes them.
const NAME: &str = "microsoft.sql_server";
/// Bytes of a packet that are read (4096 is the size that is agreed on by default).
const MAX_PACKET: usize = 8192;
/// Unanswered requests that are remembered.
const MAX_OUTSTANDING: usize = 64;

/// State of one connection.
#[derive(Debug, Default)]
pub(super) struct TdsSession {
    masker: Masker,
    utf8: String,
    database: String,
    /// Requests that wait; true if the answer has begun.
    waiting: VecDeque<bool>,
    returned: Option<u64>,
    affected: Option<u64>,
    /// The client is in the middle of a message.
    inside: bool,
    /// The server's choice: 0 login only, 1 and 3 everything.
    encryption: Option<u8>,
    attentions: u32,
    server_lost: bool,
    over: bool,
}

impl TdsSession {
    pub(super) fn with(masker: Masker) -> Self {
        TdsSession { masker, ..TdsSession::default() }
    }

    fn asks(&mut self, frame: &Frame<'_>, packet: Packet, out: Out<'_>) {
        let begins = !std::mem::replace(&mut self.inside, !packet.last);
        let body = frame.bytes.get(HEADER..).unwrap_or_default();
        if packet.kind == kind::PRELOGIN && body.first() == Some(&0x16) {
            // The handshake of TLS in our packets: for the login only, or for everything.
            if matches!(self.encryption, Some(1 | 3)) {
                self.over = true;
                out(Item::Upgrade("tls"));
            }
            return;
        }
        if !begins || packet.kind == kind::SSPI {
            return;
        }
        let one_way = packet.kind == kind::ATTENTION;
        if one_way {
            self.attentions = self.attentions.saturating_add(1);
        } else {
            if std::mem::take(&mut self.server_lost) || self.waiting.len() >= MAX_OUTSTANDING {
                self.waiting.clear();
            }
            self.waiting.push_back(false);
        }
        self.masker.clear();
        let mut procedure = false;
        let name = match packet.kind {
            kind::BATCH => {
                self.read(behind_headers(body));
                "BATCH"
            }
            kind::RPC => match call(behind_headers(body)) {
                Some(Call::Named(name)) => {
                    utf16(name, &mut self.utf8);
                    procedure = true;
                    "EXECUTE"
                }
                Some(Call::Statement { text, executed }) => {
                    self.read(text);
                    if executed {
                        "BATCH"
                    } else {
                        "PREPARE"
                    }
                }
                Some(Call::System(name)) => {
                    self.utf8.clear();
                    self.utf8.push_str(name);
                    procedure = !name.is_empty();
                    "EXECUTE"
                }
                Some(Call::Prepared) | None => "EXECUTE",
            },
            kind::ATTENTION => "ATTENTION",
            kind::BULK => "BULK LOAD",
            kind::TRANSACTION => transaction(behind_headers(body)),
            kind::LOGIN => "LOGIN",
            kind::PRELOGIN => "PRELOGIN",
            _ => "",
        };
        let mut m = Message::new(NAME, Side::Client, if one_way { Kind::OneWay } else { Kind::Request }, frame.offset);
        m.head_len = frame.shown();
        m.body = if packet.last { frame.body() } else { Body::Open };
        let mut described = Described::from(&self.masker);
        if procedure {
            described = Described { procedure: &self.utf8, ..Described::default() };
        }
        let verb = if name == "BATCH" && !described.operation.is_empty() { "" } else { name };
        described.write(&mut m, NAME, verb, &self.database);
        out(Item::Message(&m));
    }

    fn read(&mut self, text: &[u8]) {
        utf16(text, &mut self.utf8);
        self.masker.read(self.utf8.as_bytes(), Rules::of(Dialect::MsSql));
    }

    fn answers(&mut self, frame: &Frame<'_>, packet: Packet, out: Out<'_>) {
        let body = frame.bytes.get(HEADER..).unwrap_or_default();
        if packet.kind == kind::PRELOGIN
            || (self.encryption.is_none() && packet.kind == kind::ANSWER && body.first() == Some(&0))
        {
            if body.first() == Some(&0x16) {
                return;
            }
            self.encryption = encryption(body).or(self.encryption);
        }
        let begun = self.waiting.front().copied().unwrap_or(false);
        // Packets cut rows anywhere: only the first can be read from its beginning, only the last has an end.
        let whole = frame.shown() == frame.len;
        let said = match (begun, packet.last && whole) {
            (false, _) => tokens(body),
            (true, true) => last_token(body),
            (true, false) => Tokens::default(),
        };
        if self.attentions > 0 && said.attention {
            self.attentions = self.attentions.saturating_sub(1);
            if self.waiting.is_empty() {
                return;
            }
        }
        if self.waiting.is_empty() {
            self.waiting.push_back(false);
        }
        if let Some(database) = said.database {
            let mut name = std::mem::take(&mut self.database);
            utf16(database, &mut name);
            self.database = name;
        }
        for (sum, n) in [(&mut self.returned, said.returned), (&mut self.affected, said.affected)] {
            *sum = n.map(|n| sum.unwrap_or(0).saturating_add(n)).or(*sum);
        }
        let mut late = Late::default();
        let mut status = None;
        if let Some((number, class, text)) = said.error {
            utf16(text, &mut self.utf8);
            status = Some((number, outcome(class, number), mask::text(self.utf8.as_bytes(), true)));
        }
        if !begun {
            let mut m = Message::new(NAME, Side::Server, Kind::Response, frame.offset);
            m.head_len = frame.shown();
            m.body = Body::Open;
            m.outcome = Outcome::Ok;
            if let Some((number, outcome, text)) = status.take() {
                m.status_code = Some(number);
                m.outcome = outcome;
                m.error = text;
                let code: Cow<'_, str> = Cow::Owned(number.to_string());
                m.attrs.push(("db.response.status_code", AttrVal::Str(code.clone())));
                m.attrs.push(("error.type", AttrVal::Str(code)));
            }
            out(Item::Message(&m));
            if let Some(front) = self.waiting.front_mut() {
                *front = true;
            }
        }
        if begun && said.failed {
            // The error itself stands between rows.
            late.outcome = Outcome::ClientError;
            late.attrs.push(("error.type", AttrVal::from("_OTHER")));
        }
        if packet.last {
            self.waiting.pop_front();
            for (name, sum) in [
                ("db.response.returned_rows", self.returned.take()),
                ("wirespan.db.affected_rows", self.affected.take()),
            ] {
                if let Some(n) = sum {
                    late.attrs.push((name, AttrVal::Int(i64::try_from(n).unwrap_or(i64::MAX))));
                }
            }
            out(Item::End { side: Side::Server, id: None, offset: frame.end(), late: &late });
        }
    }
}

/// Name of a transaction request.
fn transaction(body: &[u8]) -> &'static str {
    match body.first() {
        Some(5) => "BEGIN TRANSACTION",
        Some(6) => "PROMOTE TRANSACTION",
        Some(7) => "COMMIT",
        Some(8) => "ROLLBACK",
        Some(9) => "SAVE TRANSACTION",
        _ => "TRANSACTION",
    }
}

/// The server's choice of encryption, from its list of options.
fn encryption(body: &[u8]) -> Option<u8> {
    let mut rest = body;
    while let [option, a, b, _, _, more @ ..] = rest {
        match option {
            0xff => return None,
            1 => return body.get(usize::from(u16::from_be_bytes([*a, *b]))).copied(),
            _ => rest = more,
        }
    }
    None
}

impl Session for TdsSession {
    const BAD: &'static str = reason::BAD_PACKET;
    const GAP: &'static str = reason::GAP;

    fn measure(&self, side: Side, bytes: &[u8]) -> Measure {
        if bytes.len() < HEADER {
            return Measure::More(HEADER);
        }
        if let [0x14..=0x17, 3, _, a, b, ..] = bytes {
            // A record of TLS: the login.
            let len = u64::from(u16::from_be_bytes([*a, *b])).saturating_add(5);
            return Measure::Frame { len, keep: 5 };
        }
        match Packet::read(bytes) {
            Some(packet) if (packet.kind == kind::ANSWER) <= (side == Side::Server) => {
                Measure::Frame { len: u64::from(packet.len), keep: MAX_PACKET.min(usize::from(packet.len)) }
            }
            _ => Measure::Bad,
        }
    }

    fn frame(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        if matches!(frame.bytes.first(), Some(0x14..=0x17)) && frame.bytes.get(1) == Some(&3) {
            if frame.side == Side::Client && self.waiting.is_empty() {
                self.waiting.push_back(false);
                let mut m = Message::new(NAME, Side::Client, Kind::Request, frame.offset);
                m.head_len = len64(frame.bytes.len());
                m.body = frame.body();
                Described::default().write(&mut m, NAME, "LOGIN", "");
                out(Item::Message(&m));
            }
            return;
        }
        let Some(packet) = Packet::read(frame.bytes) else { return };
        match frame.side {
            Side::Client => self.asks(frame, packet, out),
            Side::Server => self.answers(frame, packet, out),
        }
    }

    fn resumes(&self, side: Side, bytes: &[u8]) -> bool {
        detect::resumes(side, bytes)
    }

    fn lost(&mut self, side: Side, _out: Out<'_>) -> bool {
        match side {
            Side::Client => std::mem::take(&mut self.inside),
            Side::Server => {
                self.server_lost = true;
                (self.returned, self.affected) = (None, None);
                self.waiting.len() > 1 || self.waiting.front() != Some(&true)
            }
        }
    }

    fn is_over(&self) -> bool {
        self.over
    }
}
