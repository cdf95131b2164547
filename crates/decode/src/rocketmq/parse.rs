//! The state of one RocketMQ connection: where its frames are. Headers say all else themselves.

use super::emit;
use super::head::{self, Form};
use super::json::Stop;
use super::reason;
use crate::framing::prefixed::{Frame, Framing, PrefixedParser, Start};
use crate::framing::Out;
use crate::MAX_BUFFERED;
use wirespan_model::{Item, Side};

/// Parser of one connection.
pub(super) type RocketMqParser = PrefixedParser<Commands>;

/// Reads commands; their headers say all else themselves.
#[derive(Debug, Default)]
pub(super) struct Commands;

impl Framing for Commands {
    const BAD: &'static str = reason::BAD_FRAME;
    const GAP: &'static str = reason::GAP;
    const KEEP: usize = MAX_BUFFERED;

    fn start(&self, _side: Side, bytes: &[u8], lost: bool) -> Start {
        let lengths = match head::lengths(bytes) {
            Ok(lengths) => lengths,
            Err(Stop::More) => return Start::More,
            Err(Stop::Bad) => return Start::Bad,
        };
        let first = bytes.get(head::BEFORE..).unwrap_or_default();
        match (lengths.form, first) {
            (_, [] | [_]) => Start::More,
            (Form::Json, [b'{', b'"', ..]) => Start::Frame(lengths.frame),
            (Form::Json, _) => Start::Bad,
            (Form::Binary, _) => match head::head(bytes, &lengths) {
                Ok(_) => Start::Frame(lengths.frame),
                Err(Stop::More) if lost && first.len() < 21 => Start::More,
                Err(Stop::More) => Start::Frame(lengths.frame),
                Err(Stop::Bad) => Start::Bad,
            },
        }
    }

    fn frame(&mut self, frame: Frame<'_>, out: Out<'_>) {
        let Ok(lengths) = head::lengths(frame.bytes) else { return };
        match head::head(frame.bytes, &lengths) {
            Ok(head) => emit::emit(&frame, &lengths, &head, out),
            Err(Stop::More) => out(Item::Malformed { side: frame.side, reason: reason::CUT_HEADER }),
            Err(Stop::Bad) => out(Item::Malformed { side: frame.side, reason: reason::BAD_FRAME }),
        }
    }
}
