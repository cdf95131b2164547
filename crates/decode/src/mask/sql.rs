//! SQL and its dialects → text without values.

use super::dialect::{Backslash, Dialect, Rules};
use super::lex::{bare_len, byte, byte_at, comment, is_name_end, line, uuid, while_in};
use super::summary::Summary;
use super::words::{is, one_of};

/// Longest literal that is shown, bytes.
const MAX_LITERAL: usize = 256;
/// Longest masked text that is written, bytes.
pub const MAX_TEXT: usize = 2048;

/// Masks statements, one after the other, into memory of its own.
#[derive(Debug, Default)]
pub struct Masker {
    text: String,
    summary: Summary,
    rules: Rules,
    /// A space is due before the next word.
    space: bool,
    /// The user wants to see literals.
    keep: bool,
    /// The statement is about credentials, so its literals stay hidden all the same.
    hush: bool,
    /// The token that was read is a value, whose mark ends the text.
    marked: bool,
}

/// Whether a name says that its statement is about credentials: its literals are not shown, whatever the user wants.
fn about_credentials(name: &str) -> bool {
    const PARTS: [&str; 6] = ["passw", "identified", "secret", "credential", "token", "apikey"];
    let name = name.to_ascii_lowercase();
    matches!(name.as_str(), "user" | "login" | "role" | "pin" | "api_key") || PARTS.iter().any(|p| name.contains(p))
}

impl Masker {
    /// Keeps literals, if that is wanted; see [`Keep`](super::Keep).
    pub(crate) fn keeping(literals: bool) -> Self {
        Masker { keep: literals, ..Masker::default() }
    }

    /// Masked text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Verb of the (first) statement, upper case; empty if it has none that is known.
    pub fn operation(&self) -> &'static str {
        self.summary.operation
    }

    /// First table, without quotes; empty if there is none.
    pub fn collection(&self) -> &str {
        &self.summary.collection
    }

    /// Stored procedure that is called; empty if there is none.
    pub fn procedure(&self) -> &str {
        &self.summary.procedure
    }

    /// Verbs and tables, as `db.query.summary` has them.
    pub fn summary(&self) -> &str {
        &self.summary.text
    }

    /// Forgets the last statement.
    pub fn clear(&mut self) {
        self.text.clear();
        self.summary.clear();
        (self.space, self.hush, self.marked) = (false, false, false);
    }

    /// Bytes of memory held.
    pub fn held(&self) -> usize {
        self.text.capacity()
    }

    /// Reads a statement; it may be cut off anywhere.
    pub fn read(&mut self, sql: &[u8], rules: Rules) {
        self.clear();
        self.rules = rules;
        let mut rest = sql;
        while !rest.is_empty() && self.text.len() < MAX_TEXT {
            let taken = self.token(rest).max(1);
            if std::mem::take(&mut self.marked) {
                self.show(rest.get(..taken).unwrap_or(rest));
            }
            rest = rest.get(taken..).unwrap_or_default();
        }
    }

    /// Writes a value that was masked, if it may be shown.
    fn show(&mut self, raw: &[u8]) {
        let quotes = |b: &u8| matches!(b, b'\'' | b'"' | b'$');
        let bare = raw.split(quotes).any(crate::url::looks_secret);
        // The end of the literal depends on the meaning of a backslash: it may hold more than one value.
        let unsure = self.rules.backslash == Backslash::Unknown && raw.contains(&b'\\');
        if self.hush || bare || unsure || raw.len() > MAX_LITERAL || !self.text.ends_with('?') {
            return;
        }
        self.text.pop();
        self.text.extend(String::from_utf8_lossy(raw).chars().map(|c| if c.is_control() { ' ' } else { c }));
    }

    /// Reads one token; returns its length.
    fn token(&mut self, rest: &[u8]) -> usize {
        let dialect = self.rules.dialect;
        let first = byte(rest, 0);
        let second = byte(rest, 1);
        match (first, second) {
            (b'-', b'-') if dialect != Dialect::MySql || byte(rest, 2).is_ascii_whitespace() || rest.len() < 4 => {
                self.space = true;
                line(rest)
            }
            (b'#', _) if dialect == Dialect::MySql => {
                self.space = true;
                line(rest)
            }
            (b'/', b'/') if dialect == Dialect::Cql => {
                self.space = true;
                line(rest)
            }
            (b'/', b'*') => {
                self.space = true;
                if dialect == Dialect::MySql && byte(rest, 2) == b'!' {
                    // MySQL runs what stands in this comment, if its version is at least the number.
                    return 3usize.saturating_add(while_in(rest, 3, |b| b.is_ascii_digit() || b == b'M'));
                }
                comment(rest, !matches!(dialect, Dialect::MySql | Dialect::Cql))
            }
            (b'*', b'/') if dialect == Dialect::MySql => {
                self.space = true;
                2
            }
            (b'\'', _) => self.string(rest, 0, b'\'', self.rules.backslash),
            (b'"', _) => match dialect {
                Dialect::MySql | Dialect::MsSql => self.string(rest, 0, b'"', self.rules.backslash),
                _ => self.name(rest, b'"', b'"'),
            },
            (b'`', _) if matches!(dialect, Dialect::MySql | Dialect::ClickHouse) => self.name(rest, b'`', b'`'),
            (b'[', _) if dialect == Dialect::MsSql => self.name(rest, b'[', b']'),
            (b'$', _) if matches!(dialect, Dialect::Postgres | Dialect::Cql) => self.dollar(rest),
            (b, _) if b.is_ascii_hexdigit() && uuid(rest).is_some() => {
                self.value();
                uuid(rest).unwrap_or(1)
            }
            (b'.', b'0'..=b'9') if !self.text.ends_with(is_name_end) || self.space => self.number(rest),
            (b'0'..=b'9', _) => self.number(rest),
            (b'@', _) => self.word(rest, while_in(rest, 0, |b| b == b'@')),
            (b'#', _) if dialect == Dialect::MsSql => self.word(rest, while_in(rest, 0, |b| b == b'#')),
            (b'_' | b'a'..=b'z' | b'A'..=b'Z' | 0x80.., _) => self.word(rest, 0),
            (b'?', _) => {
                self.value();
                1
            }
            (b, _) if b.is_ascii_whitespace() || b.is_ascii_control() => {
                self.space = true;
                1
            }
            (b, _) => {
                self.symbol(b);
                1
            }
        }
    }

    /// A word that is no name in quotes; `prefix` bytes in front belong to it.
    fn word(&mut self, rest: &[u8], prefix: usize) -> usize {
        let len = prefix.saturating_add(while_in(rest, prefix, |b| {
            b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$') || b >= 0x80
        }));
        let word = rest.get(..len).unwrap_or(rest);
        // A word that touches a string belongs to it: E'…', N'…', X'…', _utf8'…', U&'…'.
        let (touching, skip) = match (byte(rest, len), byte(rest, len.saturating_add(1))) {
            (b'&', b'\'' | b'"') if is(word, "U") => (byte(rest, len.saturating_add(1)), 1),
            (quote, _) => (quote, 0usize),
        };
        let string = touching == b'\'' || (touching == b'"' && self.rules.dialect == Dialect::MySql);
        let introduced = one_of(word, &["E", "N", "B", "X", "U", "R"]) || word.first() == Some(&b'_');
        if string && introduced {
            let escapes = match self.rules.dialect {
                Dialect::Postgres if is(word, "E") => Backslash::Escapes,
                _ => self.rules.backslash,
            };
            return self.string(rest, len.saturating_add(skip), touching, escapes);
        }
        let text = String::from_utf8_lossy(word);
        self.gap(text.as_bytes().first().copied().unwrap_or_default());
        self.text.push_str(&text);
        self.summary.word(&text);
        self.hush |= self.keep && about_credentials(&text);
        if self.rules.dialect == Dialect::ClickHouse && is(word, "FORMAT") && self.operation() == "INSERT" {
            return len.saturating_add(self.inline_data(rest.get(len..).unwrap_or_default()));
        }
        len
    }

    /// Behind `INSERT … FORMAT name` ClickHouse takes data as they are.
    fn inline_data(&mut self, rest: &[u8]) -> usize {
        let gap = while_in(rest, 0, |b| b.is_ascii_whitespace());
        let len = while_in(rest, gap, |b| b.is_ascii_alphanumeric());
        let name = rest.get(gap..gap.saturating_add(len)).unwrap_or_default();
        self.space = true;
        self.gap(b'x');
        self.text.push_str(std::str::from_utf8(name).unwrap_or_default());
        let behind = rest.get(gap.saturating_add(len)..).unwrap_or_default();
        if behind.iter().any(|b| !b.is_ascii_whitespace() && *b != b';') {
            self.space = true;
            self.value();
            // These are data, not a literal.
            self.marked = false;
        }
        rest.len()
    }

    /// A name in quotes; one without an end is masked.
    fn name(&mut self, rest: &[u8], open: u8, close: u8) -> usize {
        let mut at = 1usize;
        loop {
            let Some(found) = rest.get(at..).and_then(|r| memchr::memchr(close, r)) else {
                self.value();
                return rest.len();
            };
            at = at.saturating_add(found).saturating_add(1);
            if byte(rest, at) != close {
                break;
            }
            at = at.saturating_add(1);
        }
        let inside = rest.get(1..at.saturating_sub(1)).unwrap_or_default();
        let text = String::from_utf8_lossy(inside);
        self.gap(open);
        self.text.push(char::from(open));
        self.text.extend(text.chars().map(|c| if c.is_control() { ' ' } else { c }));
        self.text.push(char::from(close));
        self.summary.quoted(&text);
        self.hush |= self.keep && about_credentials(&text);
        at
    }

    /// A string whose quote stands at `at`.
    fn string(&mut self, rest: &[u8], at: usize, quote: u8, backslash: Backslash) -> usize {
        self.value();
        let mut i = at.saturating_add(1);
        loop {
            match byte_at(rest, i) {
                None => return rest.len(),
                Some(b'\\') => match backslash {
                    Backslash::Escapes => i = i.saturating_add(1),
                    // The string may end here or not: everything behind could be a value.
                    Backslash::Unknown if byte(rest, i.saturating_add(1)) == quote => return rest.len(),
                    _ => {}
                },
                Some(b) if b == quote => {
                    if byte(rest, i.saturating_add(1)) != quote {
                        return i.saturating_add(1);
                    }
                    i = i.saturating_add(1);
                }
                Some(0x81..) if self.rules.double_byte => i = i.saturating_add(1),
                Some(_) => {}
            }
            i = i.saturating_add(1);
        }
    }

    /// `$1`, `$$text$$` or `$tag$text$tag$`.
    fn dollar(&mut self, rest: &[u8]) -> usize {
        let digits = while_in(rest, 1, |b| b.is_ascii_digit());
        if digits > 0 {
            let len = digits.saturating_add(1);
            self.gap(b'$');
            self.text.push_str(std::str::from_utf8(rest.get(..len).unwrap_or_default()).unwrap_or_default());
            self.summary.literal();
            return len;
        }
        let tag = while_in(rest, 1, |b| b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80);
        let len = tag.saturating_add(2);
        self.value();
        if byte(rest, tag.saturating_add(1)) != b'$' {
            // No dialect has a lone dollar: whatever it is, it is not shown.
            return rest.len();
        }
        let mark = rest.get(..len).unwrap_or_default();
        let body = rest.get(len..).unwrap_or_default();
        let end = memchr::memmem::find(body, mark).map(|i| len.saturating_add(i).saturating_add(mark.len()));
        end.unwrap_or(rest.len())
    }

    /// A number, and whatever letters touch it.
    fn number(&mut self, rest: &[u8]) -> usize {
        let mut len = 0usize;
        loop {
            match byte(rest, len) {
                b'e' | b'E' if matches!(byte(rest, len.saturating_add(1)), b'+' | b'-') && byte(rest, 1) != b'x' => {
                    len = len.saturating_add(2);
                }
                b if b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | 0x80..) => len = len.saturating_add(1),
                _ => break,
            }
        }
        // A sign that can only be the number's.
        let sign = self.text.trim_end_matches(['-', '+']);
        let bare = sign.trim_end_matches(' ');
        if sign.len() < self.text.len() && !self.space && !self.keep && bare.ends_with(['(', ',', '=', '<', '>']) {
            let keep = sign.len();
            self.text.truncate(keep);
            self.space = self.text.ends_with(' ');
            self.text.truncate(bare_len(&self.text));
        }
        self.value();
        len
    }

    fn symbol(&mut self, b: u8) {
        let closes = matches!(b, b')' | b',' | b';' | b'.' | b']');
        if closes {
            self.space = false;
        }
        if b == b')' && self.text.ends_with("(?), (?") {
            // Rows of values are written once.
            let keep = self.text.len().saturating_sub(", (?".len());
            self.text.truncate(keep);
            self.summary.symbol(b);
            return;
        }
        self.gap(b);
        self.text.push(char::from(b));
        self.summary.symbol(b);
        if b == b',' {
            self.space = true;
        }
    }

    /// A value. Lists of them are written once.
    fn value(&mut self) {
        self.summary.literal();
        if self.keep {
            self.gap(b'?');
            self.text.push('?');
            self.marked = true;
        } else if self.text.ends_with("?,") {
            let keep = self.text.len().saturating_sub(1);
            self.text.truncate(keep);
        } else if !(self.text.ends_with('?') && self.space) {
            self.gap(b'?');
            self.text.push('?');
        }
        self.space = false;
    }

    /// Writes the space that is due.
    fn gap(&mut self, next: u8) {
        let due = std::mem::take(&mut self.space);
        // Words that a comment or a value separated stay apart.
        let stuck = self.text.ends_with('?') && (next.is_ascii_alphanumeric() || next == b'_');
        if (due || stuck) && !self.text.is_empty() && !self.text.ends_with('(') {
            self.text.push(' ');
        }
    }
}
