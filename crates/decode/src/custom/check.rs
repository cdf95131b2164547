//! Whether a definition can work, said in words before the first connection.

use super::definition::{Definition, Form, Source};
use super::detect::Pattern;
use super::{Custom, Rules, MAX_HEAD};
use crate::framing::calls::Reasons;
use crate::REGISTRY;
use std::fmt;
use std::sync::Arc;
use wirespan_model::event::MAX_PAYLOAD_BYTES;

/// An error of a definition, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem(pub String);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Problem {}

fn no<T>(text: impl Into<String>) -> Result<T, Problem> {
    Err(Problem(text.into()))
}

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

impl Custom {
    /// Checks a definition. Its names are leaked: make each protocol once.
    pub fn new(definition: Definition) -> Result<Custom, Problem> {
        let d = &definition;
        name(&d.name)?;
        if !matches!(d.transport.as_str(), "" | "tcp" | "udp" | "both") {
            return no(format!("transport `{}`: it is tcp, udp or both", d.transport));
        }
        if d.need_bytes > MAX_PAYLOAD_BYTES {
            return no(format!("need_bytes {}: the kernel copies at most {MAX_PAYLOAD_BYTES}", d.need_bytes));
        }
        let magic = magic(d)?;
        let delimiter = framing(d)?;
        let mut head = magic.iter().map(Pattern::end).max().unwrap_or(0);
        head = head.max(usize_of(d.frame.length_offset).saturating_add(usize::from(d.frame.length_size)));
        for (what, source) in sources(d) {
            head = head.max(field(what, source, !delimiter.is_empty())?);
        }
        if head > MAX_HEAD {
            return no(format!("fields lie up to byte {head} of a frame; only its first {MAX_HEAD} are read"));
        }
        kinds(d)?;
        for attribute in &d.attribute {
            let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_');
            if attribute.key.is_empty() || attribute.key.len() > 64 || !attribute.key.bytes().all(fits) {
                return no(format!("attribute key `{}`: lower-case letters, digits, `.` and `_`", attribute.key));
            }
        }
        let reasons = Reasons { bad: leak(format!("{}_bad_frame", d.name)), gap: leak(format!("{}_gap", d.name)) };
        let attributes = d.attribute.iter().map(|a| leak(a.key.clone())).collect();
        let name = leak(d.name.clone());
        Ok(Custom { rules: Arc::new(Rules { name, reasons, magic, delimiter, head, attributes, definition }) })
    }
}

fn usize_of(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

fn name(name: &str) -> Result<(), Problem> {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-');
    if name.is_empty() || name.len() > 32 || !name.bytes().all(fits) {
        return no(format!("name `{name}`: 1 to 32 lower-case letters, digits, `_` and `-`"));
    }
    if REGISTRY.iter().any(|p| p.name() == name) {
        return no(format!("name `{name}` is a built-in protocol's"));
    }
    Ok(())
}

fn magic(d: &Definition) -> Result<Vec<Pattern>, Problem> {
    let mut patterns = Vec::new();
    for m in &d.magic {
        let bytes = match (m.hex.is_empty(), m.text.is_empty()) {
            (true, false) => m.text.as_bytes().to_vec(),
            (false, true) => match hex(&m.hex) {
                Some(bytes) => bytes,
                None => return no(format!("magic hex `{}`: pairs of hexadecimal digits, like `ca fe`", m.hex)),
            },
            _ => return no("magic: give either hex or text"),
        };
        patterns.push(Pattern { offset: usize_of(m.offset), bytes });
    }
    let len: usize = patterns.iter().map(|p| p.bytes.len()).fold(0, usize::saturating_add);
    if d.ports.is_empty() && len < 2 {
        return no("give at least 2 bytes of magic, or the ports of the servers: else every connection could be it");
    }
    Ok(patterns)
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let pair = |p: &[u8]| std::str::from_utf8(p).ok().and_then(|t| u8::from_str_radix(t, 16).ok());
    if !digits.len().is_multiple_of(2) || digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    digits.chunks(2).map(pair).collect()
}

fn framing(d: &Definition) -> Result<Vec<u8>, Problem> {
    let f = &d.frame;
    match (f.length_size, f.delimiter.as_str()) {
        (0, "") => no("frame: give length_size (and length_offset), or a delimiter"),
        (0, delimiter) if delimiter.len() > 8 => no("frame: a delimiter has at most 8 bytes"),
        (0, delimiter) => Ok(delimiter.as_bytes().to_vec()),
        (_, delimiter) if !delimiter.is_empty() => no("frame: give a length or a delimiter, not both"),
        (1..=4 | 8, _) if f.adjust.unsigned_abs() > 65_536 => no("frame: adjust is at most 65536 either way"),
        (1..=4 | 8, _) => Ok(Vec::new()),
        (n, _) => no(format!("frame: length_size {n}: 1, 2, 3, 4 or 8")),
    }
}

fn sources(d: &Definition) -> Vec<(&'static str, &Source)> {
    let single = [("id", &d.id), ("operation", &d.operation), ("target", &d.target)];
    let mut all: Vec<_> = single.into_iter().filter_map(|(what, s)| s.as_ref().map(|s| (what, s))).collect();
    all.extend(d.kind.as_ref().map(|k| ("kind.field", &k.field)));
    all.extend(d.status.as_ref().map(|s| ("status.field", &s.field)));
    all.extend(d.attribute.iter().map(|a| ("attribute.field", &a.field)));
    all
}

/// Bytes of a frame that a field needs.
fn field(what: &str, s: &Source, lines: bool) -> Result<usize, Problem> {
    let size = usize::from(s.size);
    let at = usize_of(s.offset);
    let numbers = matches!(s.size, 1..=4 | 8);
    if s.mask != 0 && s.form != Form::Number {
        return no(format!("{what}: only a number has a mask"));
    }
    match s.form {
        Form::Number if numbers => Ok(at.saturating_add(size)),
        Form::Number => no(format!("{what}: size {size} of a number: 1, 2, 3, 4 or 8")),
        Form::Text if size > 0 => Ok(at.saturating_add(size)),
        Form::Text => no(format!("{what}: give the size of the text")),
        Form::Prefixed if matches!(s.size, 1..=4) => Ok(at.saturating_add(size).saturating_add(super::MAX_TEXT)),
        Form::Prefixed => no(format!("{what}: size {size} of a text's length: 1 to 4")),
        Form::Word if lines => Ok(0),
        Form::Word => no(format!("{what}: words are for frames with a delimiter")),
    }
}

fn kinds(d: &Definition) -> Result<(), Problem> {
    if let Some(k) = &d.kind {
        if k.request.is_empty() && k.one_way.is_empty() {
            return no("kind: name the values of requests (request = [\"1\"])");
        }
        let all: Vec<&String> = k.request.iter().chain(&k.response).chain(&k.one_way).collect();
        if let Some(twice) = all.iter().enumerate().find(|(i, v)| all.iter().take(*i).any(|o| o == *v)) {
            return no(format!("kind: the value `{}` stands in two lists", twice.1));
        }
    }
    match &d.status {
        Some(s) if s.ok.is_empty() => no("status: name the values that mean success (ok = [\"0\"])"),
        _ => Ok(()),
    }
}
