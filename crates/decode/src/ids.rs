//! Ids in any text: what programs name a job by, wherever they write it. Only hashes are kept.

use wirespan_model::broker::ElementHash;

/// Longest id: a UUID with its hyphens.
const MAX_LEN: usize = 36;
/// Digits of a time in milliseconds, from 2001 to 2286.
const TIME_DIGITS: usize = 13;
/// Most ids that are kept of one text.
const MAX_IDS: usize = 16;

/// Finds ids in bytes that come piece by piece: UUIDs, 24 or 32 hexadecimal digits, and ids of entries in streams of
/// Redis (a time in milliseconds, a hyphen, a number).
#[derive(Clone, Debug, Default)]
pub struct Ids {
    /// The word that has begun.
    word: Vec<u8>,
    /// The word is too long for an id.
    long: bool,
    /// An id was found since this was cleared.
    pub(crate) any: bool,
    found: Vec<u64>,
}

impl Ids {
    /// Takes the next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if !(byte.is_ascii_alphanumeric() || *byte == b'-') {
                self.end_word();
            } else if self.word.len() < MAX_LEN {
                self.word.push(*byte);
            } else {
                self.long = true;
            }
        }
    }

    /// The bytes that follow do not belong to the last word.
    pub fn end_word(&mut self) {
        let is_id = !self.long && is_id(&self.word);
        self.any |= is_id;
        if is_id && self.found.len() < MAX_IDS {
            let mut hash = ElementHash::default();
            hash.add(&self.word);
            let hash = hash.of_length(crate::text::len64(self.word.len()));
            if !self.found.contains(&hash) {
                self.found.push(hash);
            }
        }
        self.word.clear();
        self.long = false;
    }

    /// Hashes of the ids so far, as of whole elements.
    pub fn found(&self) -> &[u64] {
        &self.found
    }
}

/// Hashes of the ids in a text.
pub fn ids(text: &[u8]) -> Vec<u64> {
    let mut ids = Ids::default();
    ids.add(text);
    ids.end_word();
    ids.found
}

fn is_id(word: &[u8]) -> bool {
    if let Some((time, [b'-', number @ ..])) = word.split_at_checked(TIME_DIGITS) {
        if !number.is_empty() && time.iter().chain(number).all(u8::is_ascii_digit) {
            return true;
        }
    }
    let hyphens = word.iter().enumerate().filter(|(_, b)| **b == b'-').map(|(i, _)| i);
    let shaped = match word.len() {
        24 | 32 => hyphens.count() == 0,
        36 => hyphens.eq([8, 13, 18, 23]),
        _ => false,
    };
    shaped && word.iter().all(|b| b.is_ascii_hexdigit() || *b == b'-') && word.iter().any(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::{ids, Ids};

    const UUID: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";

    #[test]
    fn an_id_has_one_hash_wherever_it_stands() {
        let alone = ids(UUID.as_bytes());
        assert_eq!(alone.len(), 1);
        assert_eq!(ids(format!("{{\"id\": \"{UUID}\", \"retries\": 0}}").as_bytes()), alone);
        assert_eq!(ids(format!("rq:job:{UUID}").as_bytes()), alone);
        let mut pieces = Ids::default();
        format!("({UUID},{UUID})").as_bytes().chunks(5).for_each(|piece| pieces.add(piece));
        pieces.end_word();
        assert_eq!(pieces.found(), alone);
    }

    #[test]
    fn other_words_are_no_ids() {
        let number = "12345678901234567890123456";
        for text in ["", "celery", number, "0f1e2d3c-4b5a-6978-8796", &format!("{UUID}0"), "deadbeefdeadbeefdeadbeef"] {
            assert!(ids(text.as_bytes()).is_empty(), "{text}");
        }
        assert_eq!(ids(b"1732527382123-0 1732527382123 1732527382123- 173252738212-30").len(), 1);
        assert_eq!(ids(b"65f0c1a2b3d4e5f60718293a 0123456789abcdef0123456789ABCDEF").len(), 2);
    }
}
