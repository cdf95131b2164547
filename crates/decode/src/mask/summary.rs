//! The operation and the tables of a statement, read from its words as they pass by.

use super::words::{is, one_of, verb};

/// Longest summary, bytes (OpenTelemetry asks for at most 255).
const MAX_SUMMARY: usize = 255;
/// Longest name of a table that is kept, bytes.
const MAX_NAME: usize = 128;

/// The role of the next name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expect {
    /// A verb: the beginning of a statement.
    #[default]
    Verb,
    /// Names of common tables, until a verb outside of parentheses.
    With,
    /// A table.
    Table,
    /// A procedure.
    Procedure,
    /// The kind of thing that is created or dropped.
    Object,
    /// Nothing.
    Nothing,
}

/// The outline of one statement (of several: the first one's operation, everybody's summary).
#[derive(Debug, Default)]
pub(super) struct Summary {
    /// Operation, or nothing.
    pub(super) operation: &'static str,
    /// First table.
    pub(super) collection: String,
    /// Stored procedure that is called.
    pub(super) procedure: String,
    /// Verbs and tables.
    pub(super) text: String,
    expect: Expect,
    /// Verb of the current statement.
    verb: &'static str,
    /// A name may go on behind a dot.
    dotted: bool,
    /// The name being read is a table that is written down.
    name: Name,
    depth: u32,
    /// A `SELECT` was seen at this depth (the first 64).
    selects: u64,
    /// The depth whose commas separate tables.
    list: Option<u32>,
}

/// The use of the name that is being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Name {
    #[default]
    None,
    /// A table: the first one, which is kept on its own.
    First,
    /// Another table.
    More,
    Procedure,
}

impl Summary {
    pub(super) fn clear(&mut self) {
        self.collection.clear();
        self.procedure.clear();
        self.text.clear();
        let (collection, procedure, text) =
            (std::mem::take(&mut self.collection), std::mem::take(&mut self.procedure), std::mem::take(&mut self.text));
        *self = Summary { collection, procedure, text, ..Summary::default() };
    }

    fn bit(&self) -> u64 {
        1u64.checked_shl(self.depth).unwrap_or(0)
    }

    /// An operator or separator.
    pub(super) fn symbol(&mut self, symbol: u8) {
        let dotted = symbol == b'.' && self.name != Name::None;
        match symbol {
            b'(' => {
                self.depth = self.depth.saturating_add(1);
                self.selects &= !self.bit();
                if self.expect == Expect::Table {
                    self.expect = Expect::Nothing;
                }
            }
            b')' => {
                if self.list == Some(self.depth) {
                    self.list = None;
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b',' if self.list == Some(self.depth) => self.expect = Expect::Table,
            b';' => {
                self.expect = Expect::Verb;
                self.verb = "";
                (self.depth, self.selects, self.list) = (0, 0, None);
            }
            _ => {}
        }
        if dotted {
            self.dotted = true;
            self.push_name(".");
        } else {
            self.name = Name::None;
        }
    }

    /// A literal: it cannot be a name.
    pub(super) fn literal(&mut self) {
        self.name = Name::None;
        if matches!(self.expect, Expect::Table | Expect::Procedure | Expect::Object) {
            self.expect = Expect::Nothing;
        }
    }

    /// A quoted name, without its quotes.
    pub(super) fn quoted(&mut self, name: &str) {
        self.named(name);
    }

    /// A word.
    pub(super) fn word(&mut self, word: &str) {
        let bytes = word.as_bytes();
        if std::mem::take(&mut self.dotted) {
            self.push_name(word);
            return;
        }
        self.name = Name::None;
        match self.expect {
            Expect::Verb => return self.begin(bytes),
            Expect::With => {
                if self.depth == 0 && one_of(bytes, &["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE"]) {
                    return self.begin(bytes);
                }
            }
            Expect::Table if skipped(bytes) => return,
            Expect::Table | Expect::Procedure if is(bytes, "SELECT") => {}
            Expect::Table | Expect::Procedure => return self.named(word),
            Expect::Object => {
                if one_of(bytes, &["TABLE", "VIEW", "DATABASE", "KEYSPACE", "SCHEMA"]) {
                    self.expect = if one_of(bytes, &["TABLE", "VIEW"]) { Expect::Table } else { Expect::Nothing };
                } else if !skipped(bytes)
                    && !one_of(
                        bytes,
                        &[
                            "TEMPORARY",
                            "TEMP",
                            "UNLOGGED",
                            "GLOBAL",
                            "LOCAL",
                            "MATERIALIZED",
                            "OR",
                            "REPLACE",
                            "EXTERNAL",
                            "FOREIGN",
                        ],
                    )
                {
                    self.expect = Expect::Nothing;
                }
                return;
            }
            Expect::Nothing => {}
        }
        self.inside(bytes);
    }

    /// A keyword in the middle of a statement.
    fn inside(&mut self, word: &[u8]) {
        if is(word, "SELECT") {
            self.selects |= self.bit();
            self.push_word("SELECT");
            self.list = None;
            if self.expect != Expect::With {
                self.expect = Expect::Nothing;
            }
        } else if is(word, "FROM") {
            let deletes = self.depth == 0 && self.verb == "DELETE";
            if self.selects & self.bit() != 0 || deletes {
                self.table_list();
            }
        } else if is(word, "JOIN") || (is(word, "USING") && matches!(self.verb, "DELETE" | "MERGE")) {
            if self.expect != Expect::With {
                self.expect = Expect::Table;
            }
        } else if is(word, "INTO") && self.collection.is_empty() && matches!(self.verb, "INSERT" | "REPLACE" | "MERGE")
        {
            self.expect = Expect::Table;
        } else if one_of(
            word,
            &["WHERE", "SET", "GROUP", "ORDER", "HAVING", "LIMIT", "VALUES", "UNION", "ON", "RETURNING"],
        ) {
            self.list = None;
        }
    }

    fn table_list(&mut self) {
        if self.expect == Expect::With && self.depth == 0 {
            return;
        }
        self.expect = if self.expect == Expect::With { Expect::With } else { Expect::Table };
        self.list = Some(self.depth);
    }

    /// The first word of a statement.
    fn begin(&mut self, word: &[u8]) {
        let Some(verb) = verb(word) else {
            self.expect = Expect::Nothing;
            return;
        };
        if verb == "WITH" {
            self.expect = Expect::With;
            return;
        }
        self.verb = verb;
        if self.operation.is_empty() {
            self.operation = verb;
        }
        self.push_word(verb);
        self.expect = match verb {
            "SELECT" => {
                self.selects |= self.bit();
                Expect::Nothing
            }
            "INSERT" | "REPLACE" | "UPDATE" | "MERGE" | "TRUNCATE" | "COPY" | "DESC" | "DESCRIBE" | "OPTIMIZE"
            | "TABLE" => Expect::Table,
            "CREATE" | "DROP" | "ALTER" | "RENAME" | "LOCK" => Expect::Object,
            "CALL" | "EXEC" | "EXECUTE" => Expect::Procedure,
            "EXPLAIN" => Expect::Verb,
            _ => Expect::Nothing,
        };
    }

    fn named(&mut self, name: &str) {
        if std::mem::take(&mut self.dotted) {
            self.push_name(name);
            return;
        }
        self.name = match self.expect {
            Expect::Table if self.collection.is_empty() => Name::First,
            Expect::Table => Name::More,
            Expect::Procedure if self.procedure.is_empty() => Name::Procedure,
            _ => Name::None,
        };
        if self.name != Name::None {
            self.expect = Expect::Nothing;
            if self.text.len() < MAX_SUMMARY {
                self.text.push(' ');
            }
            self.push_name(name);
        }
    }

    fn push_name(&mut self, part: &str) {
        let own = match self.name {
            Name::None => return,
            Name::First => Some(&mut self.collection),
            Name::Procedure => Some(&mut self.procedure),
            Name::More => None,
        };
        if let Some(own) = own {
            if own.len().saturating_add(part.len()) <= MAX_NAME {
                own.push_str(part);
            }
        }
        if self.text.len().saturating_add(part.len()) <= MAX_SUMMARY {
            self.text.push_str(part);
        }
    }

    fn push_word(&mut self, word: &str) {
        if self.text.len().saturating_add(word.len()) < MAX_SUMMARY {
            if !self.text.is_empty() {
                self.text.push(' ');
            }
            self.text.push_str(word);
        }
    }
}

/// Words between a verb and the table.
fn skipped(word: &[u8]) -> bool {
    one_of(
        word,
        &[
            "INTO",
            "TABLE",
            "ONLY",
            "IF",
            "NOT",
            "EXISTS",
            "IGNORE",
            "LOW_PRIORITY",
            "HIGH_PRIORITY",
            "DELAYED",
            "QUICK",
            "LATERAL",
            "OVERWRITE",
            "FINAL",
        ],
    )
}
