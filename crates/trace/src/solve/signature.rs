//! What all requests, or all calls, of a class have in common.

use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::{Hash, Hasher};
use wirespan_model::Span;

/// Parts of a path that count.
const MAX_PARTS: usize = 8;
/// Longest part with a digit that may be a name, or the same with at most so many digits after letters; and the number
/// of values from which on a part holds values.
const MAX_VALUE: usize = 4;
const MAX_NUMBERED: usize = 24;
const MAX_DIGITS: usize = 2;
const FEW_VALUES: usize = 12;
/// Most parts of paths whose values are counted.
const MAX_COUNTED: usize = 127;

#[derive(Debug, Default)]
pub(super) struct Signatures {
    /// Values with digits that a part of a path had, by what surrounds it.
    values: FxHashMap<u64, FxHashSet<u64>>,
}

impl Signatures {
    /// A hash of protocol, operation, and the fixed parts of the path.
    pub(super) fn of_request(&mut self, span: &Span) -> u64 {
        let mut h = FxHasher::default();
        (0, &*span.protocol, &*span.operation).hash(&mut h);
        self.of_path(span, h)
    }

    /// The same for a call, with the server's address.
    pub(super) fn of_call(&mut self, span: &Span) -> u64 {
        let mut h = FxHasher::default();
        (1, &*span.protocol, &*span.operation).hash(&mut h);
        span.tuple.server.hash(&mut h);
        self.of_path(span, h)
    }

    fn of_path(&mut self, span: &Span, mut h: FxHasher) -> u64 {
        let path = span.target.split(['?', '#']).next().unwrap_or_default();
        for part in path.split('/').take(MAX_PARTS) {
            self.is_name(h.finish(), part).then_some(part).hash(&mut h);
        }
        h.finish()
    }

    /// Whether a part of a path is a name. A part with a digit is a value, unless it is short or a word with a number,
    /// and one of a few (`v1`, `oauth2`).
    fn is_name(&mut self, before: u64, part: &str) -> bool {
        if !part.bytes().any(|b| b.is_ascii_digit()) {
            return true;
        }
        let room = self.values.len() < MAX_COUNTED;
        if !(part.len() <= MAX_VALUE || is_numbered(part)) || !(room || self.values.contains_key(&before)) {
            return false;
        }
        let mut h = FxHasher::default();
        part.hash(&mut h);
        let seen = self.values.entry(before).or_default();
        if seen.len() < FEW_VALUES {
            seen.insert(h.finish());
        }
        seen.len() < FEW_VALUES
    }
}

/// Whether a part is a word with a number at its end.
fn is_numbered(part: &str) -> bool {
    let word = part.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = part.len() - word.len();
    (1..=MAX_DIGITS).contains(&digits)
        && part.len() <= MAX_NUMBERED
        && word.chars().all(|c| c.is_alphabetic() || matches!(c, '-' | '_' | '.'))
        && word.chars().next().is_some_and(char::is_alphabetic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_a_number_are_names_while_they_are_few() {
        let mut signatures = Signatures::default();
        for name in ["v1", "part0", "oauth2", "try-1"] {
            assert!(signatures.is_name(1, name), "{name}");
        }
        for value in ["9f0e2b7c41aa", "2026-11-29", "part007", "12345"] {
            assert!(!signatures.is_name(1, value), "{value}");
        }
        let users: Vec<bool> = (0..20).map(|n| signatures.is_name(2, &format!("user{n}"))).collect();
        assert!(users[..FEW_VALUES - 1].iter().all(|name| *name) && !users[FEW_VALUES..].contains(&true));
    }
}
