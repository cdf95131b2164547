//! Errors of a program, with their line and the nearest right name.

use anyhow::anyhow;

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
    match known.iter().map(|name| (strsim::damerau_levenshtein(wrong, name), name)).min() {
        Some((distance, name)) if distance <= wrong.len().max(4) / 2 => {
            anyhow!("{line}unknown {what} `{wrong}`; did you mean `{name}`?")
        }
        _ => anyhow!("{line}unknown {what} `{wrong}`; there are: {}", known.join(", ")),
    }
}

/// The error with the line of the key that it names first, if the text has one.
pub(super) fn with_line(text: &str, error: &anyhow::Error) -> anyhow::Error {
    let said = format!("{error:#}");
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    let path = said.trim_start_matches('`').split(|c| !is_name(c)).next().unwrap_or_default();
    let key = path.rsplit('.').next();
    let is_there = |line: &str| line.split(['{', ',', ' ']).any(|word| word.strip_suffix(':') == key);
    match text.lines().position(is_there) {
        Some(at) => anyhow!("line {}: {said}", at + 1),
        None => anyhow!("{said}"),
    }
}
