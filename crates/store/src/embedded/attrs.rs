//! Attributes as one JSON text per span: one page to read per look-up, readable by every tool.

use serde::de::{Deserializer, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt::Write as _;
use wirespan_model::{Attr, Value};

/// Appends the attributes as a JSON object, or nothing if there are none. Order and duplicates are kept. A float that
/// JSON cannot express (NaN, infinity) becomes text.
pub(crate) fn write(out: &mut String, attrs: &[Attr]) {
    if attrs.is_empty() {
        return;
    }
    let mut separator = '{';
    for (key, value) in attrs {
        out.push(separator);
        separator = ',';
        match key {
            // The keys are wirespan's own, and none needs escaping.
            Cow::Borrowed(key) => {
                out.push('"');
                out.push_str(key);
                out.push('"');
            }
            Cow::Owned(key) => text(out, key),
        }
        out.push(':');
        match value {
            Value::Str(s) => text(out, s),
            Value::Int(n) => out.push_str(itoa::Buffer::new().format(*n)),
            Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
            // `{:?}` keeps the point of 1.0, so that it is read back as a float.
            Value::Float(x) if x.is_finite() => push(out, format_args!("{x:?}")),
            Value::Float(x) => push(out, format_args!("\"{x}\"")),
        }
    }
    out.push('}');
}

/// Appends text pairs as a JSON object; nothing if there are none.
pub(crate) fn write_pairs(out: &mut String, pairs: &[(Box<str>, Box<str>)]) {
    let mut separator = '{';
    for (key, value) in pairs {
        out.push(separator);
        separator = ',';
        text(out, key);
        out.push(':');
        text(out, value);
    }
    if !pairs.is_empty() {
        out.push('}');
    }
}

fn push(out: &mut String, args: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(args);
}

fn text(out: &mut String, s: &str) {
    out.push('"');
    // The usual case, nearly all texts: it is recognised without a branch per byte.
    if !s.bytes().fold(false, |escape, b| escape | (b < 0x20) | (b == b'"') | (b == b'\\')) {
        out.push_str(s);
        out.push('"');
        return;
    }
    let mut from = 0;
    for (i, b) in s.bytes().enumerate() {
        if b >= 0x20 && b != b'"' && b != b'\\' {
            continue;
        }
        out.push_str(&s[from..i]);
        from = i + 1;
        match b {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            _ => push(out, format_args!("\\u{b:04x}")),
        }
    }
    out.push_str(&s[from..]);
    out.push('"');
}

/// Reads the text that [`write`] wrote. Anything other than a JSON object gives no attributes.
pub(crate) fn read(json: &str) -> Vec<Attr> {
    let mut attrs = Vec::new();
    each(json, |key, value| attrs.push((Cow::Owned(key.into_owned()), value)));
    attrs
}

/// Reads the text that [`write_pairs`] wrote.
pub(crate) fn read_pairs(json: &str) -> Vec<(Box<str>, Box<str>)> {
    let mut pairs = Vec::new();
    each(json, |key, value| pairs.push((key.into(), value.to_string().into())));
    pairs
}

/// Calls `visit` for each member of a JSON object.
pub(crate) fn each(json: &str, visit: impl FnMut(Cow<'_, str>, Value)) {
    if json.is_empty() {
        return;
    }
    let mut de = serde_json::Deserializer::from_str(json);
    let _ = de.deserialize_map(Members(visit));
}

struct Members<F>(F);

impl<'de, F: FnMut(Cow<'_, str>, Value)> Visitor<'de> for Members<F> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Text<'de>>()? {
            let value = match map.next_value::<serde_json::Value>()? {
                serde_json::Value::String(s) => Value::from(s),
                serde_json::Value::Bool(b) => Value::Bool(b),
                serde_json::Value::Number(n) => match n.as_i64() {
                    Some(i) => Value::Int(i),
                    None => Value::Float(n.as_f64().unwrap_or(0.0)),
                },
                other => Value::from(other.to_string()),
            };
            (self.0)(key.0, value);
        }
        Ok(())
    }
}

/// A text that is borrowed if it has no escapes.
#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<String>().prop_map(Value::from),
            any::<i64>().prop_map(Value::Int),
            any::<bool>().prop_map(Value::Bool),
            any::<f64>().prop_filter("finite", |x| x.is_finite()).prop_map(Value::Float),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(attrs in prop::collection::vec((any::<String>().prop_map(Cow::Owned), value()),
            0..5)) {
            let mut json = String::new();
            write(&mut json, &attrs);
            prop_assert_eq!(read(&json), attrs);
        }

        #[test]
        fn garbage_is_no_attribute(s in any::<String>()) {
            let _ = read(&s);
        }
    }
}
