//! The state of one Pulsar connection.

use super::commands::{self, BEFORE, TELLING};
use super::session::Session;
use super::{emit, reason};
use crate::framing::prefixed::{Frame, Framing, PrefixedParser, Start};
use crate::framing::Out;
use crate::MAX_BUFFERED;
use wirespan_model::Side;

/// Parser of one connection.
pub(super) type PulsarParser = PrefixedParser<Session>;

impl Framing for Session {
    const BAD: &'static str = reason::BAD_FRAME;
    const GAP: &'static str = reason::GAP;
    const KEEP: usize = MAX_BUFFERED;

    fn start(&self, _side: Side, bytes: &[u8], _lost: bool) -> Start {
        match commands::start(bytes) {
            Ok(start) => Start::Frame(start.frame),
            Err(true) if bytes.len() < TELLING => Start::More,
            Err(_) => Start::Bad,
        }
    }

    fn frame(&mut self, frame: Frame<'_>, out: Out<'_>) {
        let Ok(start) = commands::start(frame.bytes) else { return };
        let behind = frame.bytes.get(BEFORE..).unwrap_or_default();
        let (base, behind) =
            behind.split_at_checked(usize::try_from(start.size).unwrap_or(usize::MAX)).unwrap_or((behind, &[]));
        emit::emit(self, &frame, &start, base, behind, out);
    }
}
