//! Envelopes: length, message id, operation.

use super::layer::{self, Token};
use super::{emit, reason};
use crate::ber::{elements, head, unsigned, Stop};
use crate::framing::units::{Reader, Step, Unit};
use crate::framing::{Out, PerSide};
use crate::text::len64;
use wirespan_model::{AttrVal, Body, Item, Kind, Late, Side};

/// Bytes of a message that are looked at.
pub const MAX_HEAD: usize = 1024;
/// Searches whose answers are under way and are remembered.
const MAX_SEARCHES: usize = 256;
/// Largest message that is believed.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// A message, as far as it was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Envelope<'a> {
    /// Bytes on the wire.
    pub(super) total: usize,
    pub(super) id: u64,
    /// Tag of the operation.
    pub(super) tag: u8,
    /// Stated length of the operation's content.
    pub(super) len: usize,
    pub(super) content: &'a [u8],
    /// Whether operation and controls fill the message.
    pub(super) exact: bool,
}

/// Reads an envelope.
pub(super) fn envelope(bytes: &[u8]) -> Result<Envelope<'_>, Stop> {
    if bytes.first().is_some_and(|b| *b != 0x30) {
        return Err(Stop::Bad);
    }
    let outer = head(bytes)?;
    if outer.len > MAX_MESSAGE || outer.len < 5 {
        return Err(Stop::Bad);
    }
    let rest = bytes.get(outer.head..).unwrap_or_default();
    let number = head(rest)?;
    if number.tag != 2 || !(1..=5).contains(&number.len) {
        return Err(Stop::Bad);
    }
    let id = unsigned(rest.get(number.head..number.total()).ok_or(Stop::More)?).ok_or(Stop::Bad)?;
    let rest = rest.get(number.total()..).unwrap_or_default();
    let op = head(rest)?;
    let used = number.total().saturating_add(op.total());
    if id > 0x7fff_ffff || used > outer.len || !emit::is_known(op.tag) {
        return Err(Stop::Bad);
    }
    let content = rest.get(op.head..).unwrap_or_default();
    let controls = content.get(op.len..).unwrap_or_default();
    Ok(Envelope {
        total: outer.total(),
        id,
        tag: op.tag,
        len: op.len,
        content: content.get(..op.len).unwrap_or(content),
        exact: used == outer.len || matches!(controls.first(), None | Some(0xa0)),
    })
}

/// A search that was answered in part.
#[derive(Clone, Copy, Debug)]
struct Search {
    id: u64,
    entries: i64,
    references: i64,
}

/// Reads messages.
#[derive(Debug, Default)]
pub struct Messages {
    searches: Vec<Search>,
    /// Bytes of a token of a SASL layer that were not read, by side.
    token: PerSide<u64>,
    /// A bind with a mechanism that may bring a layer was seen.
    sasl: bool,
    /// Id of a StartTLS that was not answered.
    start_tls: Option<u64>,
    over: bool,
    scratch: emit::Scratch,
}

impl Reader for Messages {
    const MAX_HEAD: usize = MAX_HEAD;
    const GAP: &'static str = reason::GAP;
    const BAD: &'static str = reason::BAD_MESSAGE;

    fn read(&mut self, unit: Unit<'_>, out: Out<'_>) -> Step {
        let left = std::mem::take(self.token.of(unit.side));
        if left == 0 && unit.bytes.first() == Some(&0) {
            return self.token(&unit);
        }
        let step = self.message(&unit, out);
        if left == 0 {
            return step;
        }
        match step {
            Step::More => {
                *self.token.of(unit.side) = left;
                Step::More
            }
            // What is no message belongs to the token all the same.
            Step::Bad => stepped_over(&unit, left),
            Step::Took { head, skip } => {
                let left = left.saturating_sub(len64(head).saturating_add(skip));
                // Too little for a message: a checksum.
                let rest = if left <= len64(layer::MAX_BEHIND) { left } else { 0 };
                *self.token.of(unit.side) = left.saturating_sub(rest);
                Step::Took { head, skip: skip.saturating_add(rest) }
            }
        }
    }

    fn lost(&mut self, side: Side, _out: Out<'_>) {
        *self.token.of(side) = 0;
        if side == Side::Server {
            self.searches.clear();
        }
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

impl Messages {
    /// The head of a token of a SASL layer; the messages inside are the next units.
    fn token(&mut self, unit: &Unit<'_>) -> Step {
        match layer::token(unit.bytes, unit.cut || unit.bytes.len() >= MAX_HEAD) {
            Ok(Token { total, before: Some(before) }) => {
                *self.token.of(unit.side) = len64(total).saturating_sub(len64(before));
                Step::Took { head: before, skip: 0 }
            }
            Ok(Token { total, before: None }) if self.sasl && !unit.lost => stepped_over(unit, len64(total)),
            Err(Stop::More) => Step::More,
            _ => Step::Bad,
        }
    }

    fn message(&mut self, unit: &Unit<'_>, out: Out<'_>) -> Step {
        let envelope = match envelope(unit.bytes) {
            Ok(envelope) => envelope,
            Err(Stop::More) => return Step::More,
            Err(Stop::Bad) => return Step::Bad,
        };
        let want = envelope.total.min(MAX_HEAD);
        if unit.bytes.len() < want && !unit.cut {
            return Step::More;
        }
        let seen = unit.bytes.get(..want).unwrap_or(unit.bytes);
        // Read again without the bytes behind this message.
        let Ok(envelope) = self::envelope(seen) else { return Step::Bad };
        if emit::asks(envelope.tag) != (unit.side == Side::Client) || unit.lost && !envelope.exact {
            return Step::Bad;
        }
        let skip = len64(envelope.total).saturating_sub(len64(seen.len()));
        let place = Place { offset: unit.offset, len: len64(seen.len()), skip };
        match unit.side {
            Side::Client => self.request(&envelope, place, out),
            Side::Server => self.reply(&envelope, place, out),
        }
        Step::Took { head: seen.len(), skip }
    }
}

/// Takes this many bytes without reading them.
fn stepped_over(unit: &Unit<'_>, len: u64) -> Step {
    let head = crate::text::at_most(len, unit.bytes.len());
    Step::Took { head, skip: len.saturating_sub(len64(head)) }
}

/// Where a message lies.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: u64,
    len: u64,
    skip: u64,
}

impl Place {
    fn body(self) -> Body {
        if self.skip > 0 {
            Body::Length(self.skip)
        } else {
            Body::None
        }
    }
}

impl Messages {
    fn request(&mut self, envelope: &Envelope<'_>, place: Place, out: Out<'_>) {
        let mut m = emit::request(envelope, place.offset, &mut self.scratch);
        (m.head_len, m.body) = (place.len, place.body());
        if m.operation == "startTLS" {
            self.start_tls = m.id;
        }
        let simple = m.attrs.iter().any(|(key, value)| *key == emit::MECHANISM && *value == AttrVal::from("simple"));
        self.sasl |= m.operation == "bind" && !simple;
        out(Item::Message(&m));
    }

    fn reply(&mut self, envelope: &Envelope<'_>, place: Place, out: Out<'_>) {
        let under_way = self.searches.iter().position(|s| s.id == envelope.id);
        if matches!(envelope.tag, emit::ENTRY | emit::REFERENCE | emit::INTERMEDIATE) {
            let at = match under_way {
                Some(at) => at,
                None => {
                    if self.searches.len() >= MAX_SEARCHES {
                        self.searches.remove(0);
                    }
                    self.searches.push(Search { id: envelope.id, entries: 0, references: 0 });
                    let mut m = emit::part(envelope, place.offset);
                    m.head_len = place.len;
                    out(Item::Message(&m));
                    self.searches.len().saturating_sub(1)
                }
            };
            if let Some(search) = self.searches.get_mut(at) {
                search.entries = search.entries.saturating_add(i64::from(envelope.tag == emit::ENTRY));
                search.references = search.references.saturating_add(i64::from(envelope.tag == emit::REFERENCE));
            }
            return;
        }
        let result = emit::result(envelope);
        if let Some(search) = under_way.map(|at| self.searches.swap_remove(at)) {
            let mut late = Late { status_code: result.code, outcome: result.outcome, ..Late::default() };
            if !result.error().is_empty() {
                late.error = result.error().into();
                late.attrs.push(("error.type", AttrVal::from(result.name)));
            }
            late.attrs.push(("wirespan.ldap.entries", AttrVal::Int(search.entries)));
            if search.references > 0 {
                late.attrs.push(("wirespan.ldap.references", AttrVal::Int(search.references)));
            }
            let end = place.offset.saturating_add(place.len);
            out(Item::End { side: Side::Server, id: Some(envelope.id), offset: end, late: &late });
            return;
        }
        let mut m = emit::response(envelope, &result, place.offset);
        (m.head_len, m.body) = (place.len, place.body());
        if envelope.tag == emit::DONE {
            m.attrs.push(("wirespan.ldap.entries", AttrVal::Int(0)));
        }
        let answered = m.kind == Kind::Response && self.start_tls == m.id;
        out(Item::Message(&m));
        if answered {
            self.start_tls = None;
            if result.code == Some(0) {
                self.over = true;
                out(Item::Upgrade("tls"));
            }
        }
    }
}

/// The first element of an operation, an integer or an enumeration: the version of a bind, the code of a result.
pub(super) fn first_number(content: &[u8]) -> Option<u64> {
    elements(content).next().filter(|(tag, _)| matches!(tag, 2 | 10)).and_then(|(_, n)| unsigned(n))
}
