//! Trace context in header fields: W3C `traceparent`, B3 (single and multi), Jaeger's `uber-trace-id`, SkyWalking's
//! `sw8`, request ids.
//!
//! Sources: W3C Trace Context (level 1, section 3.2), openzipkin/b3-propagation, Jaeger's client libraries (Propagation
//! Format), SkyWalking Cross Process Propagation Headers v3. What does not validate is ignored, never repaired.

#[cfg(test)]
mod tests;

use crate::text::visible;
use std::borrow::Cow;
use wirespan_model::key::hash64;
use wirespan_model::Carried;

/// Longest request id that is kept, bytes.
pub const MAX_REQUEST_ID: usize = 128;
/// Longest SkyWalking trace id that is kept, bytes of base64.
const MAX_SW8_TRACE_ID: usize = 256;

type Ids = ([u8; 16], [u8; 8], Option<bool>);
/// Ids, if any, and the sampling flag, if stated.
type B3 = (Option<([u8; 16], [u8; 8])>, Option<bool>);

/// What an `sw8` header says.
#[derive(Clone, Copy, Debug)]
struct Sw8<'a> {
    /// Base64.
    trace: &'a [u8],
    /// The caller's span. SkyWalking numbers the spans of a segment, so this is a hash of segment and number.
    span: [u8; 8],
    sampled: bool,
}

/// Collects the context of one message field by field.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    traceparent: Option<Ids>,
    traceparent_conflict: bool,
    b3: Option<B3>,
    b3_trace: Option<[u8; 16]>,
    b3_span: Option<[u8; 8]>,
    b3_sampled: Option<bool>,
    jaeger: Option<Ids>,
    sw8: Option<Sw8<'a>>,
    request_id: Option<&'a str>,
    correlation_id: Option<&'a str>,
}

impl<'a> Context<'a> {
    /// Looks at one header field; names are compared without case, values come trimmed.
    pub fn field(&mut self, name: &[u8], value: &'a [u8]) {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match name.len() {
            2 if is("b3") => self.b3 = b3_single(value),
            3 if is("sw8") => self.sw8 = sw8(value),
            10 if is("x-b3-flags") && value == b"1" => self.b3_sampled = Some(true),
            11 if is("traceparent") => {
                let ids = traceparent(value);
                // Two different ones: the context cannot be trusted (W3C, 4.3).
                self.traceparent_conflict |= self.traceparent.is_some() && self.traceparent != ids;
                self.traceparent = ids;
            }
            11 if is("x-b3-spanid") => self.b3_span = hex(value),
            12 if is("x-b3-traceid") => self.b3_trace = b3_trace_id(value),
            12 if is("x-b3-sampled") => self.b3_sampled = b3_flag(value).or(self.b3_sampled),
            12 if is("x-request-id") => self.request_id = visible(value, MAX_REQUEST_ID),
            13 if is("uber-trace-id") => self.jaeger = jaeger(value),
            16 if is("x-correlation-id") => self.correlation_id = visible(value, MAX_REQUEST_ID),
            _ => {}
        }
    }

    /// The context: `traceparent` before `b3` before `X-B3-*` before `uber-trace-id` before `sw8`. SkyWalking's trace
    /// id and the request id stand beside them.
    pub fn finish(self) -> Carried<'a> {
        let mut carried = Carried {
            foreign_trace_id: self.sw8.and_then(|sw8| base64_text(sw8.trace)).map(Cow::Owned),
            request_id: self.request_id.or(self.correlation_id),
            ..Carried::default()
        };
        let w3c = self.traceparent.filter(|_| !self.traceparent_conflict);
        let multi = self.b3_trace.zip(self.b3_span);
        if let Some((trace, span, sampled)) = w3c {
            (carried.trace_id, carried.span_id, carried.sampled) = (Some(trace), Some(span), sampled);
        } else if let Some((ids, sampled)) = self.b3 {
            (carried.trace_id, carried.span_id) = ids.unzip();
            carried.sampled = sampled;
        } else {
            (carried.trace_id, carried.span_id) = multi.unzip();
            carried.sampled = self.b3_sampled;
        }
        if let Some((trace, span, sampled)) = self.jaeger.filter(|_| carried.trace_id.is_none()) {
            (carried.trace_id, carried.span_id, carried.sampled) = (Some(trace), Some(span), sampled);
        }
        if let Some(sw8) = self.sw8.filter(|_| carried.trace_id.is_none()) {
            carried.sampled = carried.sampled.or(Some(sw8.sampled));
            carried.span_id = carried.foreign_trace_id.is_some().then_some(sw8.span);
        }
        carried
    }
}

/// Reads a W3C `traceparent`; lower-case hexadecimal only, no zero ids, version `ff` is invalid, versions above `00`
/// may be longer.
pub fn traceparent(value: &[u8]) -> Option<Ids> {
    let (fixed, more) = value.split_at_checked(55)?;
    let version: [u8; 1] = hex_lower(fixed.get(..2)?)?;
    let dashes = [2usize, 35, 52].iter().all(|i| fixed.get(*i) == Some(&b'-'));
    let tail_ok = if version == [0] { more.is_empty() } else { more.first().is_none_or(|b| *b == b'-') };
    if !dashes || !tail_ok || version == [0xff] {
        return None;
    }
    let trace: [u8; 16] = hex_lower(fixed.get(3..35)?)?;
    let span: [u8; 8] = hex_lower(fixed.get(36..52)?)?;
    let [flags]: [u8; 1] = hex_lower(fixed.get(53..55)?)?;
    (trace != [0; 16] && span != [0; 8]).then_some((trace, span, Some(flags & 1 == 1)))
}

/// Reads a single-header B3 context: `{trace}-{span}[-{sampled}[-{parent}]]`, or the flag alone.
fn b3_single(value: &[u8]) -> Option<B3> {
    let mut parts = value.split(|b| *b == b'-');
    let first = parts.next()?;
    let Some(span) = parts.next() else {
        return b3_flag(first).map(|f| (None, Some(f)));
    };
    let trace = b3_trace_id(first)?;
    let span: [u8; 8] = hex(span).filter(|s| *s != [0; 8])?;
    let sampled = match parts.next() {
        None => None,
        Some(flag) => Some(b3_flag(flag)?),
    };
    let parent_ok = parts.next().is_none_or(|p| hex::<8>(p).is_some());
    (parent_ok && parts.next().is_none()).then_some((Some((trace, span)), sampled))
}

fn b3_flag(value: &[u8]) -> Option<bool> {
    match value {
        b"1" | b"d" | b"true" => Some(true),
        b"0" | b"false" => Some(false),
        _ => None,
    }
}

fn b3_trace_id(value: &[u8]) -> Option<[u8; 16]> {
    let id = match value.len() {
        32 => hex::<16>(value)?,
        16 => {
            let mut id = [0u8; 16];
            id.get_mut(8..)?.copy_from_slice(&hex::<8>(value)?);
            id
        }
        _ => return None,
    };
    (id != [0; 16]).then_some(id)
}

/// Reads Jaeger's context: `{trace}:{span}:{parent}:{flags}` in hexadecimal, leading zeros left out. Some libraries
/// write the colons as in a URL.
fn jaeger(value: &[u8]) -> Option<Ids> {
    let text = std::str::from_utf8(value).ok().filter(|text| text.len() <= 96)?;
    let text = if text.contains(':') { Cow::Borrowed(text) } else { Cow::Owned(text.replace("%3A", ":")) };
    let parts: Vec<&str> = text.split(':').collect();
    let [trace, span, parent, flags] = parts.as_slice() else { return None };
    let trace: [u8; 16] = short_hex(trace)?;
    let span: [u8; 8] = short_hex(span)?;
    let [flags] = short_hex(flags)?;
    short_hex::<8>(parent)?;
    (trace != [0; 16] && span != [0; 8]).then_some((trace, span, Some(flags & 1 == 1)))
}

/// Hexadecimal digits, filled up with zeros from the left.
fn short_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = N.checked_mul(2)?;
    (!text.is_empty() && text.len() <= digits).then(|| hex(format!("{text:0>digits$}").as_bytes()))?
}

/// Reads an `sw8` header: sampling flag, trace id, segment, span, service, instance, endpoint and address, separated by
/// dashes. All but the flag and the span's number are base64.
fn sw8(value: &[u8]) -> Option<Sw8<'_>> {
    let mut parts = value.split(|b| *b == b'-');
    let sampled = match parts.next()? {
        b"1" => true,
        b"0" => false,
        _ => return None,
    };
    let trace = parts.next().filter(|t| !t.is_empty() && t.len() <= MAX_SW8_TRACE_ID)?;
    let segment = parts.next().filter(|s| !s.is_empty())?;
    let number = parts.next().filter(|n| !n.is_empty() && n.iter().all(u8::is_ascii_digit))?;
    let span = hash64(&[b"sw8", segment, number]).to_be_bytes();
    (parts.count() == 4).then_some(Sw8 { trace, span, sampled })
}

/// Decodes standard base64 (padding optional) to visible ASCII.
fn base64_text(input: &[u8]) -> Option<String> {
    let data = input.strip_suffix(b"==").or_else(|| input.strip_suffix(b"=")).unwrap_or(input);
    if data.len() % 4 == 1 {
        return None;
    }
    let mut text = String::with_capacity(data.len());
    for group in data.chunks(4) {
        let mut bits = 0u32;
        for b in group {
            let six = match b {
                b'A'..=b'Z' => b.wrapping_sub(b'A'),
                b'a'..=b'z' => b.wrapping_sub(b'a').wrapping_add(26),
                b'0'..=b'9' => b.wrapping_sub(b'0').wrapping_add(52),
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits = (bits << 6) | u32::from(six);
        }
        let whole = group.len().saturating_sub(1);
        // Left-align a short last group in 24 bits.
        let bits = match group.len() {
            4 => bits,
            3 => bits << 6,
            _ => bits << 12,
        };
        for b in bits.to_be_bytes().iter().skip(1).take(whole) {
            if !b.is_ascii_graphic() {
                return None;
            }
            text.push(char::from(*b));
        }
    }
    Some(text)
}

fn hex_lower<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    if text.iter().any(u8::is_ascii_uppercase) {
        return None;
    }
    hex(text)
}

fn hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let mut out = [0u8; N];
    let (pairs, odd) = text.as_chunks::<2>();
    if pairs.len() != N || !odd.is_empty() {
        return None;
    }
    for (o, [hi, lo]) in out.iter_mut().zip(pairs) {
        *o = nibble(*hi)? << 4 | nibble(*lo)?;
    }
    Some(out)
}

fn nibble(b: u8) -> Option<u8> {
    match b {
        b'0'..=b'9' => Some(b.wrapping_sub(b'0')),
        b'a'..=b'f' => Some(b.wrapping_sub(b'a').wrapping_add(10)),
        b'A'..=b'F' => Some(b.wrapping_sub(b'A').wrapping_add(10)),
        _ => None,
    }
}
