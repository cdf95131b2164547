//! Recognises RocketMQ by a header that agrees with the lengths before it.
//!
//! Bias: against. In JSON: an object that ends where its length says and has a code, an opaque number and a flag. In
//! binary: fixed fields of known ranges, a remark and fields that fill the header to the last byte; without any field
//! it takes an answer with the same number. If a header was not captured whole, its start must be valid, and either the
//! other end must be certain or the capture source must know which end asks.

use super::codes;
use super::head::{self, Form, BEFORE};
use super::json::Stop;
use crate::{Detect, Probe};

/// What one end's bytes look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    Silent,
    /// A header.
    Whole {
        response: bool,
        /// The client sent it, as far as its code and flag say.
        client: bool,
        opaque: i32,
        certain: bool,
    },
    /// The beginning of a header: in JSON with its code first, in binary with lengths that agree.
    Part,
    /// Too short to tell.
    Start,
    Other,
}

fn looks(bytes: &[u8]) -> Looks {
    if bytes.is_empty() {
        return Looks::Silent;
    }
    let lengths = match head::lengths(bytes) {
        Ok(lengths) => lengths,
        Err(Stop::More) => return Looks::Start,
        Err(Stop::Bad) => return Looks::Other,
    };
    match head::head(bytes, &lengths) {
        Ok(head) if (0..=3).contains(&head.flag) => {
            let certain = lengths.form == Form::Json || head.fields.count > 0;
            let response = head.flag & 1 == 1;
            // Clients answer too, but seldom.
            let client = !response && !codes::is_brokers(head.code);
            Looks::Whole { response, client, opaque: head.opaque, certain }
        }
        Err(Stop::More) => {
            let start = bytes.get(BEFORE..).unwrap_or_default();
            let named = start.starts_with(b"{\"code\":") && start.get(8).is_some_and(u8::is_ascii_digit);
            match lengths.form {
                Form::Json if named => Looks::Part,
                Form::Json if b"{\"code\":".starts_with(start.get(..8).unwrap_or(start)) => Looks::Start,
                Form::Json => Looks::Other,
                Form::Binary if start.len() < 21 => Looks::Start,
                Form::Binary => Looks::Part,
            }
        }
        _ => Looks::Other,
    }
}

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    if !probe.transport.is_stream() {
        return Detect::No;
    }
    let (first, second) = (looks(probe.first), looks(probe.second));
    // Brokers ask as well, so the connecting end counts more than the asking end.
    let yes = |asked_first: bool| Detect::Yes { first_is_client: probe.first_is_client.unwrap_or(asked_first) };
    match (first, second) {
        (Looks::Whole { client, certain: true, .. }, _) => yes(client),
        (_, Looks::Whole { client, certain: true, .. }) => yes(!client),
        (Looks::Whole { response: a, client, opaque: x, .. }, Looks::Whole { response: b, opaque: y, .. })
            if a != b && x == y =>
        {
            yes(if a { false } else { client })
        }
        (Looks::Part, Looks::Silent | Looks::Start | Looks::Part) if probe.first_is_client.is_some() => yes(true),
        (Looks::Whole { .. }, Looks::Whole { .. }) => Detect::Maybe,
        (Looks::Whole { .. } | Looks::Part | Looks::Start, Looks::Silent | Looks::Start | Looks::Part) => Detect::Maybe,
        _ => Detect::No,
    }
}
