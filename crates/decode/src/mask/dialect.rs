//! The dialects of SQL: what quotes and backslashes mean.

/// A language, which decides the meaning of quotes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// PostgreSQL: `"name"`, `$$text$$`, nested comments.
    #[default]
    Postgres,
    /// MySQL and MariaDB: `"text"`, `` `name` ``, `# comment`.
    MySql,
    /// SQL Server: `[name]`; `"x"` is text or a name, as the session chose.
    MsSql,
    /// ClickHouse: `"name"`, `` `name` ``, backslash escapes, data behind `FORMAT`.
    ClickHouse,
    /// Cassandra: `"name"`, `$$text$$`.
    Cql,
}

/// Whether a backslash escapes in plain strings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backslash {
    /// It does.
    Escapes,
    /// It is a character like others.
    Plain,
    /// The session decides, and it was not seen: a backslash before a quote masks the rest.
    #[default]
    Unknown,
}

/// How to read a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Language.
    pub dialect: Dialect,
    /// Backslashes in plain strings.
    pub backslash: Backslash,
    /// The text is in an encoding whose second bytes may look like quotes or backslashes (GBK, Big5, Shift-JIS).
    pub double_byte: bool,
}

impl Rules {
    /// The rules of a dialect of which the session cannot change any.
    pub fn of(dialect: Dialect) -> Self {
        let backslash = match dialect {
            Dialect::ClickHouse => Backslash::Escapes,
            Dialect::MsSql | Dialect::Cql => Backslash::Plain,
            Dialect::MySql | Dialect::Postgres => Backslash::Unknown,
        };
        Rules { dialect, backslash, double_byte: false }
    }
}
