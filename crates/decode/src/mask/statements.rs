//! Prepared statements of a connection, found by their name or number.

use super::Masker;
use std::hash::{Hash, Hasher};

/// Most statements that are remembered per connection; the least recently used goes first.
pub const MAX_STATEMENTS: usize = 256;
/// Most bytes of masked text that are remembered per connection.
pub const MAX_BYTES: usize = 64 * 1024;

/// One statement, masked.
#[derive(Debug, Default)]
pub struct Statement {
    key: u64,
    used: u64,
    /// Masked text.
    pub text: String,
    /// Verb.
    pub operation: &'static str,
    /// First table.
    pub collection: String,
    /// Stored procedure.
    pub procedure: String,
    /// Verbs and tables.
    pub summary: String,
}

impl Statement {
    fn bytes(&self) -> usize {
        [&self.text, &self.collection, &self.procedure, &self.summary].iter().fold(0, |n, s| n.saturating_add(s.len()))
    }

    fn set(&mut self, from: &Masker) {
        for (own, new) in [
            (&mut self.text, from.text()),
            (&mut self.collection, from.collection()),
            (&mut self.procedure, from.procedure()),
            (&mut self.summary, from.summary()),
        ] {
            own.clear();
            own.push_str(new);
        }
        self.operation = from.operation();
    }
}

/// The statements of a connection. Overwriting one reuses its memory.
#[derive(Debug, Default)]
pub struct Statements {
    entries: Vec<Statement>,
    /// Memory of those that were forgotten.
    spare: Vec<Statement>,
    clock: u64,
    bytes: usize,
}

/// Most forgotten statements whose memory is kept.
const MAX_SPARE: usize = 2;

/// Key of a statement that has a name and no number.
pub fn key(name: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

impl Statements {
    /// The statement of this key.
    pub fn get(&mut self, key: u64) -> Option<&Statement> {
        self.clock = self.clock.saturating_add(1);
        let entry = self.entries.iter_mut().find(|e| e.key == key)?;
        entry.used = self.clock;
        Some(entry)
    }

    /// Remembers the statement that the masker read last.
    pub fn put(&mut self, key: u64, from: &Masker) {
        self.clock = self.clock.saturating_add(1);
        let used = self.clock;
        match self.entries.iter_mut().find(|e| e.key == key) {
            Some(entry) => {
                self.bytes = self.bytes.saturating_sub(entry.bytes());
                entry.set(from);
                entry.used = used;
                self.bytes = self.bytes.saturating_add(entry.bytes());
            }
            None => {
                if self.entries.len() >= MAX_STATEMENTS {
                    self.evict();
                }
                let mut entry = self.spare.pop().unwrap_or_default();
                (entry.key, entry.used) = (key, used);
                entry.set(from);
                self.bytes = self.bytes.saturating_add(entry.bytes());
                self.entries.push(entry);
            }
        }
        while self.bytes > MAX_BYTES && self.entries.len() > 1 {
            self.evict();
        }
    }

    /// Gives a statement another key. A statement that had this key before is forgotten.
    pub fn rename(&mut self, from: u64, to: u64) {
        self.remove(to);
        if let Some(entry) = self.entries.iter_mut().find(|e| e.key == from) {
            entry.key = to;
        }
    }

    /// Forgets a statement.
    pub fn remove(&mut self, key: u64) {
        if let Some(at) = self.entries.iter().position(|e| e.key == key) {
            self.forget(at);
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }

    fn evict(&mut self) {
        if let Some((at, _)) = self.entries.iter().enumerate().min_by_key(|(_, e)| e.used) {
            self.forget(at);
        }
    }

    fn forget(&mut self, at: usize) {
        let entry = self.entries.swap_remove(at);
        self.bytes = self.bytes.saturating_sub(entry.bytes());
        if self.spare.len() < MAX_SPARE {
            self.spare.push(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{key, Statements, MAX_BYTES, MAX_STATEMENTS};
    use crate::mask::{Masker, Rules};

    #[test]
    fn statements_are_bounded_and_the_oldest_goes_first() {
        let mut masker = Masker::default();
        let mut statements = Statements::default();
        masker.read(b"SELECT a FROM kept", Rules::default());
        statements.put(key(b"kept"), &masker);
        for n in 0..2 * MAX_STATEMENTS {
            masker.read(format!("SELECT {} FROM t", "a, ".repeat(200)).as_bytes(), Rules::default());
            statements.put(n as u64, &masker);
            assert!(statements.get(key(b"kept")).is_some());
            assert!(statements.entries.len() <= MAX_STATEMENTS && statements.bytes <= MAX_BYTES);
        }
        assert!(statements.get(0).is_none());
        assert_eq!(statements.get(key(b"kept")).map(|s| s.collection.as_str()), Some("kept"));
        statements.remove(key(b"kept"));
        assert!(statements.get(key(b"kept")).is_none());
        statements.clear();
        assert_eq!(statements.bytes, 0);
    }
}
