//! Errors of a program, with their line and the nearest right name.

use anyhow::anyhow;
use wirespan_model::near::nearest;

/// The error in other words, with the nearest name and the line.
pub(super) fn explain(error: &serde_norway::Error) -> anyhow::Error {
    let text = error.to_string();
    let line = error.location().map_or(String::new(), |at| format!("line {}: ", at.line()));
    let words: Vec<&str> = text.split('`').collect();
    let kind = words.first().copied().unwrap_or_default();
    let (Some(wrong), true) = (words.get(1), kind.contains("unknown field") || kind.contains("unknown variant")) else {
        return anyhow!("{text}");
    };
    let what = if kind.contains("field") { "key" } else { "value" };
    let known: Vec<&str> = words.iter().copied().skip(3).step_by(2).collect();
    match nearest(wrong, &known) {
        Some(name) => anyhow!("{line}unknown {what} `{wrong}`; did you mean `{name}`?"),
        None => anyhow!("{line}unknown {what} `{wrong}`; there are: {}", known.join(", ")),
    }
}

/// The error with the line of the key that it names first, if the text has one.
pub(super) fn with_line(text: &str, error: &anyhow::Error) -> anyhow::Error {
    let said = format!("{error:#}");
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    let path = said.trim_start_matches('`').split(|c| !is_name(c)).next().unwrap_or_default();
    match path.rsplit('.').next().and_then(|key| line_of(text, key)) {
        Some(line) => anyhow!("line {line}: {said}"),
        None => anyhow!("{said}"),
    }
}

/// The number of the first line on which this key stands.
pub(super) fn line_of(text: &str, key: &str) -> Option<usize> {
    let is_there = |line: &str| line.split(['{', ',', ' ']).any(|word| word.strip_suffix(':') == Some(key));
    text.lines().position(is_there).map(|at| at + 1)
}
