//! What JetStream says of messages: sequences in reply subjects, answers to publications and to its API.

use super::line::json_value;
use crate::text::decimal;

/// Where a delivered message stands, from its reply subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delivery<'a> {
    pub(super) stream: &'a str,
    pub(super) consumer: &'a str,
    /// Times that it was delivered.
    pub(super) delivered: u64,
    pub(super) stream_sequence: u64,
    pub(super) consumer_sequence: u64,
}

/// Reads `$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>`, or the longer form
/// that has domain and account before the stream.
pub(super) fn delivery(reply: &[u8]) -> Option<Delivery<'_>> {
    let text = std::str::from_utf8(reply).ok()?.strip_prefix("$JS.ACK.")?;
    let tokens = text.split('.').count();
    let mut parts = text.split('.');
    if tokens >= 9 {
        parts.nth(1)?;
    } else if tokens != 7 {
        return None;
    }
    let (stream, consumer) = (parts.next()?, parts.next()?);
    let mut number = || decimal(parts.next()?.as_bytes());
    Some(Delivery { stream, consumer, delivered: number()?, stream_sequence: number()?, consumer_sequence: number()? })
}

/// Stream and sequence of a publication, from its answer. Only an object that is nothing else is believed: an
/// application's answer may have members of these names too.
pub(super) fn published(payload: &[u8]) -> Option<(&str, u64)> {
    let rest = payload.strip_prefix(b"{\"stream\":")?.trim_ascii_start().strip_prefix(b"\"")?;
    let end = rest.iter().position(|b| *b == b'"')?;
    let (stream, rest) = rest.split_at_checked(end)?;
    let named =
        !stream.is_empty() && stream.iter().all(|b| b.is_ascii_graphic() && !matches!(b, b'.' | b'*' | b'>' | b'\\'));
    let rest = rest.strip_prefix(b"\",")?.trim_ascii_start();
    let rest = rest.strip_prefix(b"\"seq\":")?.trim_ascii_start();
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let (number, rest) = rest.split_at_checked(digits)?;
    let known_rest = match rest {
        b"}" => true,
        _ => [&b",\"domain\":"[..], b",\"duplicate\":", b", \"duplicate\":"].iter().any(|p| rest.starts_with(p)),
    };
    (named && known_rest).then_some(())?;
    Some((std::str::from_utf8(stream).ok()?, decimal(number)?))
}

/// Error code of an answer of the API, or of a refused publication: HTTP's codes, and the server's own.
pub(super) fn error(payload: &[u8]) -> Option<(u16, Option<u64>)> {
    let known =
        payload.starts_with(b"{\"error\":{\"code\":") || payload.starts_with(b"{\"type\":\"io.nats.jetstream.api.");
    let error = json_value(payload, "error").filter(|_| known)?;
    let inside = error.get(..error.iter().position(|b| *b == b'}').unwrap_or(error.len()))?;
    let number = |name| {
        let value = json_value(inside, name)?;
        let digits = value.iter().take_while(|b| b.is_ascii_digit()).count();
        decimal(value.get(..digits)?)
    };
    Some((u16::try_from(number("code")?).ok()?, number("err_code")))
}

/// The answer of a consumer to a delivery.
pub(super) fn acknowledgement(payload: &[u8]) -> &'static str {
    match payload {
        b"" => "ack",
        p if p.starts_with(b"+ACK") => "ack",
        p if p.starts_with(b"-NAK") => "nak",
        p if p.starts_with(b"+WPI") => "in progress",
        p if p.starts_with(b"+NXT") => "ack next",
        p if p.starts_with(b"+TERM") => "term",
        _ => "settle",
    }
}
