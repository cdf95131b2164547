//! The methods: their names, senders and answers, and the arguments that name their target.

use crate::framing::Cursor;
use wirespan_model::{Outcome, Side};

/// Class and method.
pub(super) type Id = (u16, u16);

/// Part of a method in its exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Waits for an answer, unless it says that it does not.
    Asks,
    /// Answers this method.
    Answers(Id),
    /// Neither.
    Alone,
    /// A content follows.
    Content,
    /// Answers this method with a content.
    ContentOf(Id),
}

/// The ends that may send a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    Client,
    Server,
    Both,
}

impl Sender {
    pub(super) fn is(self, side: Side) -> bool {
        match self {
            Sender::Both => true,
            Sender::Client => side == Side::Client,
            Sender::Server => side == Side::Server,
        }
    }
}

pub(super) const CONNECTION_CLOSE: Id = (10, 50);
pub(super) const CHANNEL_CLOSE: Id = (20, 40);
pub(super) const PUBLISH: Id = (60, 40);
pub(super) const RETURN: Id = (60, 50);
pub(super) const DELIVER: Id = (60, 60);
pub(super) const GET_OK: Id = (60, 71);
pub(super) const ACK: Id = (60, 80);
pub(super) const REJECT: Id = (60, 90);
pub(super) const NACK: Id = (60, 120);
pub(super) const CONFIRM_SELECT: Id = (85, 10);

/// Name, sender and part of a method; `None` if there is no such method.
pub(super) fn method(id: Id) -> Option<(&'static str, Sender, Part)> {
    use Part::{Alone, Answers, Asks, Content, ContentOf};
    use Sender::{Both, Client, Server};
    Some(match id {
        (10, 10) => ("connection.start", Server, Asks),
        (10, 11) => ("connection.start-ok", Client, Answers((10, 10))),
        (10, 20) => ("connection.secure", Server, Asks),
        (10, 21) => ("connection.secure-ok", Client, Answers((10, 20))),
        (10, 30) => ("connection.tune", Server, Asks),
        (10, 31) => ("connection.tune-ok", Client, Answers((10, 30))),
        (10, 40) => ("connection.open", Client, Asks),
        (10, 41) => ("connection.open-ok", Server, Answers((10, 40))),
        (10, 50) => ("connection.close", Both, Asks),
        (10, 51) => ("connection.close-ok", Both, Answers((10, 50))),
        (10, 60) => ("connection.blocked", Server, Alone),
        (10, 61) => ("connection.unblocked", Server, Alone),
        (10, 70) => ("connection.update-secret", Client, Asks),
        (10, 71) => ("connection.update-secret-ok", Server, Answers((10, 70))),
        (20, 10) => ("channel.open", Client, Asks),
        (20, 11) => ("channel.open-ok", Server, Answers((20, 10))),
        (20, 20) => ("channel.flow", Both, Asks),
        (20, 21) => ("channel.flow-ok", Both, Answers((20, 20))),
        (20, 40) => ("channel.close", Both, Asks),
        (20, 41) => ("channel.close-ok", Both, Answers((20, 40))),
        (40, 10) => ("exchange.declare", Client, Asks),
        (40, 11) => ("exchange.declare-ok", Server, Answers((40, 10))),
        (40, 20) => ("exchange.delete", Client, Asks),
        (40, 21) => ("exchange.delete-ok", Server, Answers((40, 20))),
        (40, 30) => ("exchange.bind", Client, Asks),
        (40, 31) => ("exchange.bind-ok", Server, Answers((40, 30))),
        (40, 40) => ("exchange.unbind", Client, Asks),
        (40, 51) => ("exchange.unbind-ok", Server, Answers((40, 40))),
        (50, 10) => ("queue.declare", Client, Asks),
        (50, 11) => ("queue.declare-ok", Server, Answers((50, 10))),
        (50, 20) => ("queue.bind", Client, Asks),
        (50, 21) => ("queue.bind-ok", Server, Answers((50, 20))),
        (50, 30) => ("queue.purge", Client, Asks),
        (50, 31) => ("queue.purge-ok", Server, Answers((50, 30))),
        (50, 40) => ("queue.delete", Client, Asks),
        (50, 41) => ("queue.delete-ok", Server, Answers((50, 40))),
        (50, 50) => ("queue.unbind", Client, Asks),
        (50, 51) => ("queue.unbind-ok", Server, Answers((50, 50))),
        (60, 10) => ("basic.qos", Client, Asks),
        (60, 11) => ("basic.qos-ok", Server, Answers((60, 10))),
        (60, 20) => ("basic.consume", Client, Asks),
        (60, 21) => ("basic.consume-ok", Server, Answers((60, 20))),
        (60, 30) => ("basic.cancel", Both, Asks),
        (60, 31) => ("basic.cancel-ok", Both, Answers((60, 30))),
        (60, 40) => ("basic.publish", Client, Content),
        (60, 50) => ("basic.return", Server, Content),
        (60, 60) => ("basic.deliver", Server, Content),
        (60, 70) => ("basic.get", Client, Asks),
        (60, 71) => ("basic.get-ok", Server, ContentOf((60, 70))),
        (60, 72) => ("basic.get-empty", Server, Answers((60, 70))),
        (60, 80) => ("basic.ack", Both, Alone),
        (60, 90) => ("basic.reject", Client, Alone),
        (60, 100) => ("basic.recover-async", Client, Alone),
        (60, 110) => ("basic.recover", Client, Asks),
        (60, 111) => ("basic.recover-ok", Server, Answers((60, 110))),
        (60, 120) => ("basic.nack", Both, Alone),
        (85, 10) => ("confirm.select", Client, Asks),
        (85, 11) => ("confirm.select-ok", Server, Answers((85, 10))),
        (90, 10) => ("tx.select", Client, Asks),
        (90, 11) => ("tx.select-ok", Server, Answers((90, 10))),
        (90, 20) => ("tx.commit", Client, Asks),
        (90, 21) => ("tx.commit-ok", Server, Answers((90, 20))),
        (90, 30) => ("tx.rollback", Client, Asks),
        (90, 31) => ("tx.rollback-ok", Server, Answers((90, 30))),
        _ => return None,
    })
}

/// The target of a requesting method, and whether it waits for an answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct About<'a> {
    pub(super) target: &'a [u8],
    /// No answer will come.
    pub(super) no_wait: bool,
}

/// Reads the arguments of methods that ask.
pub(super) fn about(id: Id, arguments: &[u8]) -> Option<About<'_>> {
    let mut at = Cursor::new(arguments);
    let mut about = About::default();
    // Place of the no-wait bit behind these many short strings.
    let (reserved, strings, bit) = match id {
        (10, 40) | (60, 30) => (0, 1, (id.0 == 60).then_some(0)),
        (40, 10) => (2, 2, Some(4)),
        (40, 20) => (2, 1, Some(1)),
        (40, 30 | 40) => (2, 3, Some(0)),
        (50, 10) => (2, 1, Some(4)),
        (50, 20) => (2, 3, Some(0)),
        (50, 30) => (2, 1, Some(0)),
        (50, 40) => (2, 1, Some(2)),
        (50, 50) => (2, 3, None),
        (60, 20) => (2, 2, Some(3)),
        (60, 70) => (2, 1, None),
        (85, 10) => (0, 0, Some(0)),
        _ => return Some(about),
    };
    at.take(reserved)?;
    for n in 0..strings {
        let text = at.bytes8()?;
        if n == 0 {
            about.target = text;
        }
    }
    if let Some(bit) = bit {
        about.no_wait = at.u8()? >> bit & 1 == 1;
    }
    Some(about)
}

/// Whose fault a reply code is.
pub(super) fn outcome(code: u16) -> Outcome {
    match code {
        200 => Outcome::Ok,
        // Forced by an operator, out of something, not there, or broken.
        320 | 506 | 540 | 541 => Outcome::ServerError,
        _ => Outcome::ClientError,
    }
}

/// A frame whose payload is at hand: type, channel and length of the payload.
pub(super) fn frame_head(bytes: &[u8]) -> Option<(u8, u16, u64)> {
    let mut at = Cursor::new(bytes);
    Some((at.u8()?, at.u16()?, u64::from(at.u32()?)))
}

/// Class and method of a method frame, if the method exists and this end may send it.
pub(super) fn known_method(bytes: &[u8], side: Option<Side>) -> Option<Id> {
    let mut at = Cursor::new(bytes.get(7..)?);
    let id = (at.u16()?, at.u16()?);
    let (_, from, _) = method(id)?;
    side.is_none_or(|s| from.is(s)).then_some(id)
}
