//! Heads → messages, and the facts at the end of a message.

use super::head::{Head, Wrap, CALL, EXCEPTION, ONE_WAY};
use crate::rpc;
use std::borrow::Cow;
use wirespan_model::{AttrVal, Kind, Late, Message, Outcome, Side};

/// The result of a call, from its response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Told<'a> {
    #[default]
    Nothing,
    /// Number of the result's first field: 0 is a value, none a void success, another a declared exception.
    Result(Option<i16>),
    /// `TApplicationException`.
    Exception { code: Option<i32>, text: &'a [u8] },
}

impl Told<'_> {
    fn outcome(&self) -> Outcome {
        match self {
            Told::Nothing => Outcome::Unset,
            Told::Result(None | Some(0)) => Outcome::Ok,
            Told::Result(Some(_)) => Outcome::ServerError,
            // Unknown method, wrong type or name, bad sequence, protocol, transform: the client's message was wrong.
            Told::Exception { code: Some(1..=4 | 7..=10), .. } => Outcome::ClientError,
            Told::Exception { .. } => Outcome::ServerError,
        }
    }

    fn status_code(&self) -> Option<i32> {
        match self {
            Told::Exception { code, .. } => *code,
            _ => None,
        }
    }

    /// Type and text of the failure.
    fn failure(&self) -> Option<(Cow<'static, str>, Cow<'static, str>)> {
        match self {
            Told::Result(Some(n)) if *n != 0 => {
                Some((Cow::Owned(format!("declared exception {n}")), Cow::Borrowed("")))
            }
            Told::Exception { code, text } => {
                let name = match code {
                    Some(1) => "UNKNOWN_METHOD",
                    Some(2) => "INVALID_MESSAGE_TYPE",
                    Some(3) => "WRONG_METHOD_NAME",
                    Some(4) => "BAD_SEQUENCE_ID",
                    Some(5) => "MISSING_RESULT",
                    Some(6) => "INTERNAL_ERROR",
                    Some(7) => "PROTOCOL_ERROR",
                    Some(8) => "INVALID_TRANSFORM",
                    Some(9) => "INVALID_PROTOCOL",
                    Some(10) => "UNSUPPORTED_CLIENT_TYPE",
                    _ => "UNKNOWN",
                };
                Some((Cow::Borrowed(name), rpc::error_text(text)))
            }
            _ => None,
        }
    }
}

pub(super) fn message<'a>(h: &Head<'a>, side: Side, told: Told<'_>) -> Message<'a> {
    let kind = match h.kind {
        CALL => Kind::Request,
        ONE_WAY => Kind::OneWay,
        _ => Kind::Response,
    };
    let (service, method) = h.name.rsplit_once(':').unwrap_or(("", h.name));
    let mut m = rpc::call("thrift", "thrift", side, kind, service, method);
    m.id = Some(u64::from(h.seq));
    m.carried = h.context.finish();
    if h.wrap == Wrap::Header {
        m.attrs.push(("wirespan.thrift.transport", AttrVal::from("theader")));
    }
    if h.kind == EXCEPTION || kind == Kind::Response {
        m.status_code = told.status_code();
        m.outcome = told.outcome();
        if let Some((kind, text)) = told.failure() {
            rpc::fail(&mut m, told.outcome(), kind, text);
        }
    }
    m
}

pub(super) fn late(told: Told<'_>) -> Late<'_> {
    let mut late = Late { status_code: told.status_code(), outcome: told.outcome(), ..Late::default() };
    if let Some((kind, text)) = told.failure() {
        late.error = if text.is_empty() { kind.clone() } else { text };
        late.attrs.push(("error.type", AttrVal::Str(kind)));
    }
    late
}
