//! Keywords that name the operation of a statement.

/// Verbs that a statement begins with, upper case, sorted.
const VERBS: &[&str] = &[
    "ABORT",
    "ALTER",
    "ANALYZE",
    "APPLY",
    "ATTACH",
    "BACKUP",
    "BEGIN",
    "BULK",
    "CALL",
    "CHANGE",
    "CHECK",
    "CHECKPOINT",
    "CLOSE",
    "CLUSTER",
    "COMMENT",
    "COMMIT",
    "COPY",
    "CREATE",
    "DEALLOCATE",
    "DECLARE",
    "DELETE",
    "DENY",
    "DESC",
    "DESCRIBE",
    "DETACH",
    "DISCARD",
    "DO",
    "DROP",
    "END",
    "EXCHANGE",
    "EXEC",
    "EXECUTE",
    "EXISTS",
    "EXPLAIN",
    "FETCH",
    "FLUSH",
    "GRANT",
    "HANDLER",
    "HELP",
    "IF",
    "IMPORT",
    "INSERT",
    "INSTALL",
    "KILL",
    "LIST",
    "LISTEN",
    "LOAD",
    "LOCK",
    "MERGE",
    "MOVE",
    "NOTIFY",
    "OPEN",
    "OPTIMIZE",
    "PREPARE",
    "PRINT",
    "PURGE",
    "REASSIGN",
    "REFRESH",
    "REINDEX",
    "RELEASE",
    "RENAME",
    "REPAIR",
    "REPLACE",
    "RESET",
    "RESTORE",
    "REVOKE",
    "ROLLBACK",
    "SAVE",
    "SAVEPOINT",
    "SELECT",
    "SET",
    "SHOW",
    "SHUTDOWN",
    "SIGNAL",
    "START",
    "STOP",
    "SYSTEM",
    "TABLE",
    "TRUNCATE",
    "UNINSTALL",
    "UNLISTEN",
    "UNLOCK",
    "UPDATE",
    "USE",
    "VACUUM",
    "VALUES",
    "WAITFOR",
    "WATCH",
    "WITH",
    "XA",
];

/// Longest verb, bytes.
const LONGEST: usize = 10;

/// The verb that a word is.
pub(super) fn verb(word: &[u8]) -> Option<&'static str> {
    if word.len() > LONGEST {
        return None;
    }
    let at = VERBS.binary_search_by(|verb| {
        let lower = word.iter().map(u8::to_ascii_uppercase);
        verb.bytes().cmp(lower)
    });
    at.ok().and_then(|i| VERBS.get(i)).copied()
}

/// Whether a word is this keyword, given in upper case.
pub(super) fn is(word: &[u8], keyword: &str) -> bool {
    word.eq_ignore_ascii_case(keyword.as_bytes())
}

/// Whether a word is one of these keywords.
pub(super) fn one_of(word: &[u8], keywords: &[&str]) -> bool {
    keywords.iter().any(|k| is(word, k))
}

#[cfg(test)]
mod tests {
    #[test]
    fn verbs_are_found() {
        let mut sorted = super::VERBS.to_vec();
        sorted.sort_unstable();
        for verb in super::VERBS {
            assert!(verb.len() <= super::LONGEST);
        }
        assert_eq!(super::verb(b"select"), Some("SELECT"));
        assert_eq!(super::verb(b"Listen"), Some("LISTEN"));
        assert_eq!(super::verb(b"selected"), None);
        assert_eq!(super::verb(b""), None);
        assert_eq!(sorted, super::VERBS);
    }
}
