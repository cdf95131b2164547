//! The text query: conditions separated by blanks. All conditions must hold.
//!
//! A condition is `field=value`, `duration>10ms` or `attribute.key=value`. A value with blanks stands in double quotes.
//! A word that starts with `/` is part of an endpoint.

use super::{nearest, set};
use crate::error::ApiError;
use crate::when::parse_duration;
use wirespan_store::Query;

/// Field names and their other spellings.
const FIELDS: [(&str, &str); 15] = [
    ("service", "service"),
    ("service.name", "service"),
    ("operation", "operation"),
    ("op", "operation"),
    ("name", "operation"),
    ("endpoint", "endpoint"),
    ("target", "endpoint"),
    ("path", "endpoint"),
    ("protocol", "protocol"),
    ("proto", "protocol"),
    ("status", "status"),
    ("tap", "tap"),
    ("duration", "duration"),
    ("min_duration", "min_duration"),
    ("max_duration", "max_duration"),
];

/// One condition as written. Offsets in characters.
struct Condition {
    key: String,
    key_at: usize,
    op: String,
    op_at: usize,
    value: String,
    value_at: usize,
}

fn wrong(at: usize, part: &str, message: impl Into<String>) -> ApiError {
    ApiError::bad_query("q", message).at(at, part)
}

/// Adds the conditions of `text` to the query.
pub(super) fn apply(text: &str, query: &mut Query) -> Result<(), ApiError> {
    let chars: Vec<char> = text.chars().collect();
    let mut at = 0;
    while let Some(condition) = next(&chars, &mut at)? {
        add(&condition, query)?;
    }
    Ok(())
}

fn is_op(c: char) -> bool {
    matches!(c, '=' | '<' | '>' | '!' | '~')
}

fn blanks(chars: &[char], at: &mut usize) {
    while chars.get(*at).is_some_and(|c| c.is_whitespace()) {
        *at += 1;
    }
}

fn next(chars: &[char], at: &mut usize) -> Result<Option<Condition>, ApiError> {
    blanks(chars, at);
    if *at >= chars.len() {
        return Ok(None);
    }
    let key_at = *at;
    while chars.get(*at).is_some_and(|c| !c.is_whitespace() && !is_op(*c)) {
        *at += 1;
    }
    let key: String = chars[key_at..*at].iter().collect();
    let key_end = *at;
    blanks(chars, at);
    let op_at = *at;
    // A path may contain an operator sign (`/x?a=b`), so it is taken as a whole word.
    if key.starts_with('/') || !chars.get(*at).is_some_and(|c| is_op(*c)) {
        *at = key_end;
        while chars.get(*at).is_some_and(|c| !c.is_whitespace()) {
            *at += 1;
        }
        let value = chars[key_at..*at].iter().collect();
        return Ok(Some(Condition { key: String::new(), key_at, op: String::new(), op_at, value, value_at: key_at }));
    }
    while chars.get(*at).is_some_and(|c| is_op(*c)) {
        *at += 1;
    }
    let op: String = chars[op_at..*at].iter().collect();
    if key.is_empty() {
        return Err(wrong(op_at, &op, format!("`{op}` has no field before it")).hint("write service=cart"));
    }
    blanks(chars, at);
    let value_at = *at;
    let value = value(chars, at)?;
    Ok(Some(Condition { key, key_at, op, op_at, value, value_at }))
}

fn value(chars: &[char], at: &mut usize) -> Result<String, ApiError> {
    let start = *at;
    let mut value = String::new();
    if chars.get(*at) != Some(&'"') {
        while let Some(c) = chars.get(*at).filter(|c| !c.is_whitespace()) {
            value.push(*c);
            *at += 1;
        }
        return Ok(value);
    }
    *at += 1;
    loop {
        match (chars.get(*at), chars.get(*at + 1)) {
            (Some('"'), _) => break,
            (Some('\\'), Some(escaped)) => {
                value.push(*escaped);
                *at += 2;
            }
            (Some(c), _) => {
                value.push(*c);
                *at += 1;
            }
            (None, _) => {
                let part: String = chars[start..].iter().collect();
                return Err(wrong(start, &part, "the quoted value has no end").hint("close it with \""));
            }
        }
    }
    *at += 1;
    Ok(value)
}

fn add(c: &Condition, query: &mut Query) -> Result<(), ApiError> {
    if c.key.is_empty() {
        if c.value.starts_with('/') {
            return set(query, "endpoint", &c.value).map_err(|w| wrong(c.value_at, &c.value, w.message));
        }
        return Err(wrong(c.value_at, &c.value, format!("`{}` is not a condition", c.value)).hint(format!(
            "write service={0} or endpoint={0}; values with blanks need quotes: name=\"GET /cart\"",
            c.value
        )));
    }
    if c.value.is_empty() {
        let part = format!("{}{}", c.key, c.op);
        return Err(wrong(c.key_at, &part, format!("`{part}` has no value")).hint(format!("write {part}VALUE")));
    }
    let known = FIELDS.iter().find(|(name, _)| c.key.eq_ignore_ascii_case(name)).map(|(_, field)| *field);
    let Some(field) = known else {
        return attribute(c, query);
    };
    if field == "duration" {
        return duration(c, query);
    }
    only_equals(c)?;
    if let "min_duration" | "max_duration" = field {
        let ns = parse_duration(&c.value).map_err(|e| wrong(c.value_at, &c.value, e))?;
        let slot = if field == "min_duration" { &mut query.min_duration_ns } else { &mut query.max_duration_ns };
        *slot = Some(ns);
        return Ok(());
    }
    set(query, field, &c.value).map_err(|w| {
        let e = wrong(c.value_at, &c.value, w.message);
        match w.hint {
            Some(hint) => e.hint(hint),
            None => e,
        }
    })
}

fn only_equals(c: &Condition) -> Result<(), ApiError> {
    match c.op.as_str() {
        "=" | "==" => Ok(()),
        _ => Err(wrong(c.op_at, &c.op, format!("`{}` cannot be compared with `{}`", c.key, c.op))
            .hint(format!("write {}={}; only duration knows < and >", c.key, c.value))),
    }
}

fn attribute(c: &Condition, query: &mut Query) -> Result<(), ApiError> {
    let key = c.key.strip_prefix("attr.").unwrap_or(&c.key);
    if !key.contains('.') {
        let names: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
        let hint = match nearest(&c.key.to_lowercase(), &names) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!(
                "fields: service, operation, endpoint, protocol, status, tap, duration; an attribute's key has a dot \
                 (http.route), or write attr.{}={}",
                c.key, c.value
            ),
        };
        if key.len() == c.key.len() {
            return Err(wrong(c.key_at, &c.key, format!("`{}` is not a field", c.key)).hint(hint));
        }
    }
    only_equals(c)?;
    query.attributes.push((key.to_owned(), c.value.clone()));
    Ok(())
}

fn duration(c: &Condition, query: &mut Query) -> Result<(), ApiError> {
    let ns = parse_duration(&c.value).map_err(|e| wrong(c.value_at, &c.value, e))?;
    match c.op.as_str() {
        ">" => query.min_duration_ns = Some(ns.saturating_add(1)),
        ">=" => query.min_duration_ns = Some(ns),
        "<" => query.max_duration_ns = Some(ns.saturating_sub(1)),
        "<=" => query.max_duration_ns = Some(ns),
        _ => {
            return Err(wrong(c.op_at, &c.op, format!("a duration cannot be compared with `{}`", c.op))
                .hint(format!("write duration>{0} or duration<{0}", c.value)))
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(text: &str) -> Result<Query, ApiError> {
        let mut query = Query::default();
        apply(text, &mut query).map(|()| query)
    }

    #[test]
    fn a_full_query() {
        let q =
            read(r#"service=cart status=error duration > 10ms duration<=2s http.route=/x?a=b name="GET /cart \"7\"""#)
                .unwrap();
        assert_eq!(q.service.as_deref(), Some("cart"));
        assert_eq!(q.status.as_deref(), Some("error"));
        assert_eq!((q.min_duration_ns, q.max_duration_ns), (Some(10_000_001), Some(2_000_000_000)));
        assert_eq!(q.attributes, [("http.route".to_owned(), "/x?a=b".to_owned())]);
        assert_eq!(q.operation.as_deref(), Some(r#"GET /cart "7""#));
    }

    #[test]
    fn a_path_is_an_endpoint_even_with_signs_in_it() {
        assert_eq!(read(" /cart?id=7 ").unwrap().endpoint.as_deref(), Some("/cart?id=7"));
    }

    #[test]
    fn the_part_that_is_wrong_is_named() {
        for (text, offset, part, hint) in [
            ("service=cart servce=x", 13, "servce", "did you mean `service`?"),
            ("status=errr", 7, "errr", "did you mean `error`?"),
            ("é duration>fast", 0, "é", "write service=é"),
            ("duration>fast", 9, "fast", ""),
            ("duration=10ms", 8, "=", "write duration>10ms"),
            ("service>cart", 7, ">", "write service=cart"),
            ("service!=cart", 7, "!=", "write service=cart"),
            ("service=", 0, "service=", "write service=VALUE"),
            ("=cart", 0, "=", "write service=cart"),
            ("service=a name=\"GET /c", 15, "\"GET /c", "close it with"),
            ("service=a service=b", 18, "b", ""),
            ("foo=bar", 0, "foo", "fields:"),
        ] {
            let problem = read(text).unwrap_err().problem;
            assert_eq!(problem.param.as_deref(), Some("q"), "{text}");
            assert_eq!((problem.offset, problem.part.as_deref()), (Some(offset), Some(part)), "{text}");
            assert!(problem.hint.unwrap_or_default().starts_with(hint), "{text}");
        }
    }

    #[test]
    fn attribute_keys_without_a_dot_can_be_forced() {
        assert_eq!(read("attr.tenant=x").unwrap().attributes, [("tenant".to_owned(), "x".to_owned())]);
    }

    #[test]
    fn no_text_panics() {
        for text in ["\"", "\\", "a=\"\\", "=<>!~", "🦀=🦀", "a=\"\"", " ", "/\"", "duration>=", "a.b=\u{0}"] {
            let _ = read(text);
        }
    }
}
