//! Apache Thrift (apache/thrift, `doc/specs/thrift-rpc.md`, `thrift-binary-protocol.md`, `thrift-compact-protocol.md`,
//! `HeaderFormat.md`).
//!
//! - **encodings**: binary (strict and not), compact; each message says which
//! - **transports**: framed, unframed (the end is found by walking the fields), THeader without transforms
//! - **pairing**: by sequence id. Clients that write 0 always have one call at a time
//! - **names**: method; with a multiplexed protocol (`Service:method`) the service too
//! - **one-way**: message type 4
//! - **need**: the configured bytes of every call; whole calls after the first message without frame, or the first
//!   one-way call. Their receiver reads many of them with one call, and one that ends behind the captured bytes hides
//!   the next
//! - **errors**: exceptions with type and masked text; a declared exception (a reply whose first field is not 0) by its
//!   number
//! - **arguments, results**: walked over and never kept
//! - **context**: THeader's headers
//! - **detection**: version bytes, a method name and a first field that fit; the old binary form needs call and reply
//!   with one name

mod emit;
mod head;
mod walk;

#[cfg(test)]
mod tests;

use crate::framing::calls::{CallParser, Format, Frame, Reasons, Start, Walked};
use crate::framing::{decide, Looks, Out};
use crate::text::len64;
use crate::{Detect, Pairing, Parser, Probe, Protocol};
use emit::Told;
use head::{Encoding, Head, Wrap};
use walk::Walker;
use wirespan_model::{Item, Side, Transport, L7};

const REASONS: Reasons = Reasons { bad: "thrift_bad_frame", gap: "thrift_gap" };
/// Bytes of a framed message that are read behind its head: enough for an exception.
const WANT: usize = 512;

/// Apache Thrift.
#[derive(Clone, Copy, Debug)]
pub struct Thrift;

impl Protocol for Thrift {
    fn name(&self) -> L7 {
        "thrift"
    }

    fn detect(&self, probe: &Probe<'_>) -> Detect {
        if !probe.transport.is_stream() {
            return Detect::No;
        }
        let (first, second) = (head::read(probe.first), head::read(probe.second));
        if let (Ok(Some(a)), Ok(Some(b))) = (&first, &second) {
            // A reply names the method of its call.
            let agree = (a.name, a.seq) == (b.name, b.seq) && a.is_call() != b.is_call();
            if !agree && !a.encoding.is_versioned() {
                return Detect::No;
            }
        }
        decide(probe, looks(&first, probe.first), looks(&second, probe.second))
    }

    fn pairing(&self) -> Pairing {
        Pairing::ById
    }

    fn parser(&self, transport: Transport) -> Box<dyn Parser> {
        Box::new(CallParser::new(ThriftFormat::default(), transport))
    }
}

fn looks(head: &Result<Option<Head<'_>>, ()>, bytes: &[u8]) -> Looks {
    match head {
        Ok(None) => Looks::More,
        Err(()) => Looks::Other,
        Ok(Some(h)) if !first_field_fits(h, bytes) => Looks::Other,
        Ok(Some(h)) => match h.encoding {
            Encoding::Strict => Looks::Certain(Some(h.is_call())),
            Encoding::Compact if h.wrap != Wrap::None || h.name.len() >= 6 => Looks::Certain(Some(h.is_call())),
            _ => Looks::Likely(Some(h.is_call())),
        },
    }
}

/// Whether the bytes behind a head can be a structure.
fn first_field_fits(h: &Head<'_>, bytes: &[u8]) -> bool {
    match bytes.get(h.len) {
        None => true,
        Some(first) if h.encoding == Encoding::Compact => *first == 0 || (1..=13).contains(&(first & 0x0f)),
        Some(first) => matches!(first, 0 | 2..=4 | 6 | 8 | 10..=16),
    }
}

/// A side that is in a message without a frame.
#[derive(Debug, Default)]
struct Under {
    walker: Walker,
    seq: u32,
    kind: u8,
}

#[derive(Debug, Default)]
struct ThriftFormat {
    sides: [Under; 2],
    /// One read may hold many messages.
    many: bool,
}

impl ThriftFormat {
    fn under(&mut self, side: Side) -> &mut Under {
        let [client, server] = &mut self.sides;
        match side {
            Side::Client => client,
            Side::Server => server,
        }
    }
}

impl Format for ThriftFormat {
    fn reasons(&self) -> Reasons {
        REASONS
    }

    fn start(&mut self, _: Side, bytes: &[u8], lost: bool) -> Start {
        let head = head::read(bytes);
        match &head {
            Ok(None) => Start::More,
            Err(()) => Start::Bad,
            Ok(Some(_)) if lost && !matches!(looks(&head, bytes), Looks::Certain(_)) => Start::Bad,
            Ok(Some(h)) => match h.frame {
                Some(len) => Start::Frame {
                    len: u64::from(len).saturating_add(4),
                    want: if h.is_call() { h.len } else { h.len.saturating_add(WANT) },
                },
                None => Start::Walk { head: h.len },
            },
        }
    }

    fn head(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        let Ok(Some(h)) = head::read(frame.bytes) else { return };
        self.many |= frame.len.is_none() || h.kind == head::ONE_WAY;
        let under = self.under(frame.side);
        under.walker.begin(h.encoding == Encoding::Compact, h.kind == head::EXCEPTION);
        (under.seq, under.kind) = (h.seq, h.kind);
        let mut told = Told::default();
        if frame.len.is_some() && !h.is_call() {
            let rest = frame.bytes.get(h.len..).unwrap_or_default();
            let ended = under.walker.walk(rest);
            told = under.walker.told(h.kind, ended != Walked::Bad);
        }
        let mut m = emit::message(&h, frame.side, told);
        frame.place(&mut m);
        out(Item::Message(&m));
    }

    fn walk(&mut self, side: Side, bytes: &[u8]) -> Walked {
        self.under(side).walker.walk(bytes)
    }

    fn walk_gap(&mut self, side: Side, missing: u64) -> bool {
        self.under(side).walker.gap(missing)
    }

    fn walked(&mut self, side: Side, offset: u64, out: Out<'_>) {
        let under = self.under(side);
        let late = emit::late(under.walker.told(under.kind, true));
        let id = Some(u64::from(under.seq));
        debug_assert!(len64(under.walker.depth()) == 0);
        out(Item::End { side, id, offset, late: &late });
    }

    fn needs_whole(&self) -> bool {
        self.many
    }
}
