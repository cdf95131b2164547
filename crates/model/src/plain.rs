//! Text of strangers, made fit for a terminal, a log, a label or a drawing.
//!
//! Names and targets come from the network. Control characters in them would move a terminal's cursor, change its title
//! or forge lines of a log; characters that turn the direction of text would show one name as another.

use std::borrow::Cow;

/// Whether a character may change more than the place where it stands.
fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// The text on one line, with control characters written as escapes (`\n`, `\u{1b}`).
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// The same for text of several lines: line feeds stay.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c == '\n')
}

/// JSON with control characters inside its texts written as JSON's escapes: the same document.
pub fn json(document: &str) -> Cow<'_, str> {
    if !document.chars().any(|c| is_control(c) && c != '\n') {
        return Cow::Borrowed(document);
    }
    let mut out = String::with_capacity(document.len() + 16);
    for c in document.chars() {
        match c {
            c if !is_control(c) || c == '\n' => out.push(c),
            // All of them are in the first plane.
            c => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
    }
    Cow::Owned(out)
}

fn escaped(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(|c| is_control(c) && !stays(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !is_control(c) || stays(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_are_written_out_and_everything_else_stays() {
        assert_eq!(line("GET /café/日本 👍🏽"), "GET /café/日本 👍🏽");
        assert_eq!(
            line("a\x1b]0;title\x07b\r\nc\u{9b}2J\u{202e}d"),
            "a\\u{1b}]0;title\\u{7}b\\r\\nc\\u{9b}2J\\u{202e}d"
        );
        assert_eq!(lines("a\nb\tc"), "a\nb\\tc");
        assert_eq!(json("{\"a\":\"\u{9b}2J\u{202e}\"}\n"), "{\"a\":\"\\u009b2J\\u202e\"}\n");
        assert!(matches!(lines("plain\ntext"), Cow::Borrowed(_)));
    }
}
