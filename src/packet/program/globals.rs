//! `globals`: values that a program names once and uses as `$name`.
//!
//! They are put into the text before it is read, each within its line. So an error in a value has the line at which the
//! value is used, and all keys may have them.

use anyhow::{anyhow, bail, Result};
use serde::Deserialize;
use serde_norway::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use wirespan_model::near::nearest;

/// All keys but one are left to the reader of the program.
#[derive(Default, Deserialize)]
#[serde(default)]
struct OnlyGlobals {
    globals: BTreeMap<String, Value>,
}

/// A value as it is put into the text.
fn written(name: &str, value: &Value) -> Result<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(is) => is.to_string(),
        Value::Sequence(all) => {
            let all = all.iter().map(|one| written(name, one)).collect::<Result<Vec<_>>>()?;
            return Ok(format!("[{}]", all.join(", ")));
        }
        _ => bail!("globals.{name}: a global is a text, a number, or a list of these"),
    };
    // Others would mean something in the place where the value is used.
    let is_plain = |c: char| c.is_alphanumeric() || "._/:+@%=- ".contains(c);
    match text.chars().all(is_plain) && !text.is_empty() && text.trim() == text && !text.contains(": ") {
        true => Ok(text),
        false => bail!("globals.{name}: `{text}` has a character that a global cannot have; write it where it is used"),
    }
}

/// The number of the line on which a global is named.
fn line_of(text: &str, name: &str) -> usize {
    super::explain::line_of(text, name).unwrap_or(1)
}

/// The text with the values of its globals. `$$` is a dollar sign; nothing is put into comments.
pub(super) fn substituted(text: &str) -> Result<String> {
    // A text that is no YAML is told by its reader.
    let OnlyGlobals { globals } =
        serde_norway::from_str::<Option<OnlyGlobals>>(text).ok().flatten().unwrap_or_default();
    let mut values = BTreeMap::new();
    for (name, value) in &globals {
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !is_name {
            bail!("line {}: globals.{name}: a name has letters, digits and `_`", line_of(text, name));
        }
        let value = written(name, value).map_err(|why| anyhow!("line {}: {why:#}", line_of(text, name)))?;
        values.insert(name.as_str(), value);
    }
    let mut out = String::with_capacity(text.len());
    for (n, line) in text.split('\n').enumerate() {
        if n > 0 {
            out.push('\n');
        }
        put_into(line, n + 1, &values, &mut out)?;
    }
    Ok(out)
}

fn put_into(line: &str, number: usize, values: &BTreeMap<&str, String>, out: &mut String) -> Result<()> {
    let is_comment = |at: usize| at == 0 || line.as_bytes().get(at - 1).is_some_and(u8::is_ascii_whitespace);
    let code = line.match_indices('#').map(|(at, _)| at).find(|at| is_comment(*at)).unwrap_or(line.len());
    let (mut rest, comment) = line.split_at(code);
    while let Some((before, behind)) = rest.split_once('$') {
        out.push_str(before);
        let len = behind.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(behind.len());
        let (name, after) = behind.split_at(len);
        if let Some(after) = behind.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        match values.get(name) {
            Some(value) => out.push_str(value),
            None => bail!("{}", unknown(name, number, values)),
        }
        rest = after;
    }
    write!(out, "{rest}{comment}")?;
    Ok(())
}

fn unknown(name: &str, line: usize, values: &BTreeMap<&str, String>) -> String {
    match nearest(name, values.keys()) {
        Some(known) => format!("line {line}: unknown global `${name}`; did you mean `${known}`?"),
        None => {
            format!("line {line}: unknown global `${name}`; name it under `globals`, or write `$$` for a dollar sign")
        }
    }
}
