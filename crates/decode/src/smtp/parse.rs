//! Commands, mail, and replies → messages.

use super::reason;
use super::reply::{outcome, reply, Reply};
use crate::framing::units::{Reader, Step, Unit};
use crate::framing::{Out, PerSide};
use crate::text::{clean, decimal, hide_values, len64, visible};
use std::borrow::Cow;
use std::collections::VecDeque;
use wirespan_model::{AttrVal, Body, Item, Kind, Late, Message, Outcome, Side};

/// Longest line that is kept while incomplete; the standard's limit is 512 bytes for commands, extensions raise it.
pub const MAX_LINE: usize = 2048;
/// Unanswered commands that are remembered.
pub const MAX_OUTSTANDING: usize = 1024;
/// Longest error text that is kept, bytes.
const MAX_ERROR: usize = 160;

/// The facts about a command that its reply needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Plain,
    Auth,
    Data,
    StartTls,
}

/// The verbs.
pub(super) const VERBS: [&str; 19] = [
    "EHLO", "HELO", "LHLO", "MAIL", "RCPT", "DATA", "BDAT", "RSET", "VRFY", "EXPN", "NOOP", "QUIT", "HELP", "AUTH",
    "STARTTLS", "ETRN", "TURN", "XCLIENT", "XFORWARD",
];

/// The verb of a line, and its argument.
pub(super) fn verb(line: &[u8]) -> Option<(&'static str, &[u8])> {
    let end = line.iter().position(|b| *b == b' ').unwrap_or(line.len());
    let (word, rest) = line.split_at_checked(end)?;
    let verb = VERBS.into_iter().find(|v| word.eq_ignore_ascii_case(v.as_bytes()))?;
    Some((verb, rest.trim_ascii()))
}

/// Reads lines.
#[derive(Debug, Default)]
pub struct Lines {
    asked: VecDeque<Asked>,
    /// A client has spoken.
    heard: bool,
    /// The client sends the lines of an AUTH.
    auth: bool,
    /// The client sends a mail.
    mail: bool,
    /// The mail's end was not seen or not told.
    mail_open: bool,
    /// In the rest of a line longer than [`MAX_LINE`], by side.
    in_line: PerSide<bool>,
    /// In a reply of several lines.
    in_reply: bool,
    over: bool,
}

impl Reader for Lines {
    const MAX_HEAD: usize = MAX_LINE;
    const GAP: &'static str = reason::GAP;
    const BAD: &'static str = reason::BAD_LINE;

    fn read(&mut self, unit: Unit<'_>, out: Out<'_>) -> Step {
        let (line, head) = match memchr::memchr(b'\n', unit.bytes) {
            Some(n) => (unit.bytes.get(..n).unwrap_or_default(), n.saturating_add(1)),
            None if unit.bytes.len() >= MAX_LINE || unit.cut => (unit.bytes, unit.bytes.len()),
            None => return Step::More,
        };
        let whole = head > line.len();
        let took = Step::Took { head, skip: 0 };
        if std::mem::replace(self.in_line.of(unit.side), !whole && !unit.cut) {
            return took;
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if unit.side == Side::Server {
            // Of a line whose end was not seen the code is worth telling.
            return match reply(line) {
                Some(reply) if whole || line.len() > 3 => {
                    self.reply(&reply, unit.offset, head, out);
                    took
                }
                _ => {
                    *self.in_line.of(unit.side) = false;
                    Step::Bad
                }
            };
        }
        if self.mail {
            if line == b"." && whole {
                self.mail = false;
                self.mail_ended(unit.offset.saturating_add(len64(head)), out);
            }
            return took;
        }
        if self.auth {
            return took;
        }
        let Some((verb, rest)) = verb(line).filter(|_| whole || !unit.lost) else {
            *self.in_line.of(unit.side) = false;
            return Step::Bad;
        };
        let skip = self.command(verb, rest, unit.offset, head, out);
        Step::Took { head, skip }
    }

    fn lost(&mut self, side: Side, _out: Out<'_>) {
        self.in_line = PerSide::default();
        if side == Side::Server {
            (self.in_reply, self.auth) = (false, false);
            self.asked.clear();
        }
    }

    /// A mail tells no length, so bytes missing in it are no loss.
    fn tolerates(&self, side: Side, _offset: u64) -> Option<u64> {
        (side == Side::Client && self.mail).then_some(0)
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

impl Lines {
    fn command(&mut self, verb: &'static str, rest: &[u8], offset: u64, head: usize, out: Out<'_>) -> u64 {
        self.heard = true;
        let mut m = Message::new("smtp", Side::Client, Kind::Request, offset);
        m.head_len = len64(head);
        m.operation = verb;
        let mut skip = 0;
        let asked = match verb {
            "AUTH" => {
                self.auth = true;
                let mechanism = rest.split(|b| *b == b' ').next().unwrap_or_default();
                let ok = |t: &&str| t.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
                if let Some(name) = visible(mechanism, 20).filter(ok) {
                    m.attrs.push(("wirespan.smtp.mechanism", AttrVal::Str(Cow::Owned(name.to_ascii_uppercase()))));
                }
                Asked::Auth
            }
            "DATA" => {
                (m.body, self.mail_open) = (Body::Open, true);
                Asked::Data
            }
            "STARTTLS" => Asked::StartTls,
            "BDAT" => {
                skip = rest.split(|b| *b == b' ').next().and_then(decimal).unwrap_or(0);
                if skip > 0 {
                    m.body = Body::Length(skip);
                }
                Asked::Plain
            }
            "MAIL" | "RCPT" => {
                if let Some(domain) = domain(rest) {
                    m.target = Cow::Owned(domain.to_ascii_lowercase());
                    m.attrs.push(("wirespan.smtp.domain", AttrVal::Str(m.target.clone())));
                }
                Asked::Plain
            }
            _ => Asked::Plain,
        };
        if self.asked.len() >= MAX_OUTSTANDING {
            self.asked.pop_front();
        }
        self.asked.push_back(asked);
        out(Item::Message(&m));
        skip
    }

    fn mail_ended(&mut self, offset: u64, out: Out<'_>) {
        if std::mem::take(&mut self.mail_open) {
            out(Item::End { side: Side::Client, id: None, offset, late: &Late::default() });
        }
    }

    fn reply(&mut self, reply: &Reply<'_>, offset: u64, head: usize, out: Out<'_>) {
        let end = offset.saturating_add(len64(head));
        if self.in_reply {
            self.in_reply = reply.more;
            if !reply.more {
                out(Item::End { side: Side::Server, id: None, offset: end, late: &Late::default() });
            }
            return;
        }
        let asked = self.asked.front().copied();
        let kind = match (asked, reply.code) {
            (Some(Asked::Data), 354) => {
                self.mail = true;
                Kind::Interim
            }
            (Some(Asked::Auth), 334) => Kind::Interim,
            // A greeting, or a goodbye.
            (None, 220 | 421 | 554) if !self.heard => Kind::OneWay,
            (None, 421) => Kind::OneWay,
            // The greeting of a server whose client did not wait for it: it answers nothing.
            (Some(asked), 220) if offset == 0 && asked != Asked::StartTls => Kind::OneWay,
            _ => Kind::Response,
        };
        let mut m = Message::new("smtp", Side::Server, kind, offset);
        m.head_len = len64(head);
        m.status_code = Some(i32::from(reply.code));
        m.outcome = outcome(reply.code);
        if kind == Kind::OneWay {
            m.operation = if reply.code == 421 { "closing" } else { "greeting" };
        }
        if let Some(code) = reply.enhanced {
            m.attrs.push(("wirespan.smtp.enhanced_code", AttrVal::from(code)));
        }
        if matches!(m.outcome, Outcome::ClientError | Outcome::ServerError) {
            // The answer to an AUTH may repeat its argument.
            let secret = asked == Some(Asked::Auth);
            m.error = if secret { Cow::Borrowed("") } else { hide_values(clean(reply.text, MAX_ERROR)) };
            if m.error.is_empty() {
                m.error = Cow::Owned(reply.code.to_string());
            }
            m.attrs.push(("error.type", AttrVal::Str(Cow::Owned(reply.code.to_string()))));
        }
        if reply.more {
            m.body = Body::Open;
            self.in_reply = true;
        }
        out(Item::Message(&m));
        if kind == Kind::Response {
            self.asked.pop_front();
            match asked {
                Some(Asked::Auth) => self.auth = false,
                Some(Asked::Data) => (self.mail, self.mail_open) = (false, false),
                Some(Asked::StartTls) if reply.code == 220 => {
                    self.over = true;
                    out(Item::Upgrade("tls"));
                }
                _ => {}
            }
        }
    }
}

/// The domain of `FROM:<someone@domain>`; some clients leave the brackets out.
fn domain(rest: &[u8]) -> Option<&str> {
    let address = match memchr::memchr(b'<', rest) {
        Some(open) => {
            let address = rest.get(open.saturating_add(1)..)?;
            address.get(..memchr::memchr(b'>', address)?)?
        }
        None => {
            let address = rest.get(memchr::memchr(b':', rest)?.saturating_add(1)..)?.trim_ascii_start();
            address.split(|b| *b == b' ').next()?
        }
    };
    let at = memchr::memrchr(b'@', address)?;
    let ok = |t: &&str| t.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'));
    visible(address.get(at.saturating_add(1)..)?, 255).filter(ok)
}
