//! What drivers do for their connections and not for a request: they set a connection up, prepare and close statements,
//! ask whether the connection still works, put it back into its first state.
//!
//! The meaning of the message decides, by the rules of its protocol, whichever driver sent it. A statement that an
//! application may send for its own sake (`SELECT 1`) cannot be told from a driver's by its text: see
//! [`Housekeeping::Ping`].

use crate::attr::Value;
use crate::span::{Span, Status};

/// Kind of a call that does no work of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Housekeeping {
    /// Comes before the call that needs it: the connection is set up, a statement is prepared, a setting made or read.
    Before,
    /// Comes after the call that needed it: a statement is closed, the connection put back into its first state or
    /// closed.
    After,
    /// Asks whether the connection works. An application may ask the same.
    Ping,
}

impl Housekeeping {
    /// What this call is, if it is housekeeping.
    pub fn of(span: &Span) -> Option<Self> {
        match &*span.protocol {
            "postgresql" | "mysql" | "microsoft.sql_server" | "cassandra" => sql(span),
            "redis" => redis(&span.operation),
            "mongodb" => mongodb(&span.operation),
            _ => None,
        }
    }
}

fn sql(span: &Span) -> Option<Housekeeping> {
    use Housekeeping::{After, Before, Ping};
    let text = || span.text("db.query.text").unwrap_or_default();
    match &*span.operation {
        "SSL REQUEST" | "GSS REQUEST" | "STARTUP" | "LOGIN" | "PRELOGIN" | "OPTIONS" | "AUTH RESPONSE" | "INIT DB"
        | "USE" | "PREPARE" | "DESCRIBE" | "SET OPTION" => Some(Before),
        "SET" => (!does_more_than_set(text())).then_some(Before),
        "SHOW" => is_of_the_session(text()).then_some(Before),
        "CLOSE" | "DEALLOCATE" | "STMT CLOSE" | "STMT RESET" | "DISCARD" | "RESET" | "RESET CONNECTION"
        | "UNLISTEN" | "SYNC" | "TERMINATE" | "QUIT" => Some(After),
        "PING" => Some(Ping),
        // An empty statement: the cheapest question that PostgreSQL answers.
        "QUERY" => text().trim_matches([';', ' ']).is_empty().then_some(Ping),
        "SELECT" if span.target.is_empty() => selects_nothing(text()),
        _ => match &*span.target {
            "sp_prepare" => Some(Before),
            "sp_unprepare" | "sp_reset_connection" => Some(After),
            _ => None,
        },
    }
}

/// `SET GLOBAL` and its kin outlive the session; `SET autocommit` begins or ends a transaction.
fn does_more_than_set(text: &str) -> bool {
    let second = text.split_whitespace().nth(1).unwrap_or_default();
    ["GLOBAL", "PERSIST", "PERSIST_ONLY", "PASSWORD"].iter().any(|word| second.eq_ignore_ascii_case(word))
        || ["@@global", "autocommit"].iter().any(|start| second.to_ascii_lowercase().starts_with(start))
}

/// `SHOW` of a setting or of the last statement's warnings. `SHOW TABLES` and the like read data.
fn is_of_the_session(text: &str) -> bool {
    let second = text.split_whitespace().nth(1).unwrap_or_default();
    ["TRANSACTION", "VARIABLES", "SESSION", "WARNINGS", "COLLATION", "STANDARD_CONFORMING_STRINGS", "SERVER_VERSION"]
        .iter()
        .any(|word| second.eq_ignore_ascii_case(word))
}

/// A `SELECT` without a table: of constants, of the session's variables, or the statements by which a pool resets.
fn selects_nothing(text: &str) -> Option<Housekeeping> {
    let lower = text.to_ascii_lowercase();
    let bare = lower.trim_start_matches(|c| c != 's').trim_end_matches([';', ' ']);
    let what = bare.strip_prefix("select ")?.trim_start();
    if what.starts_with("pg_advisory_unlock_all()") {
        return Some(Housekeeping::After);
    }
    if what.starts_with("@@") {
        return Some(Housekeeping::Before);
    }
    let what = what.strip_suffix(" from dual").unwrap_or(what);
    matches!(what, "1" | "?" | "'x'" | "$1").then_some(Housekeeping::Ping)
}

fn redis(operation: &str) -> Option<Housekeeping> {
    match operation {
        "HELLO" | "AUTH" | "SELECT" | "READONLY" | "READWRITE" | "ASKING" | "COMMAND" | "COMMAND DOCS" => {
            Some(Housekeeping::Before)
        }
        "CLIENT KILL" | "CLIENT LIST" | "CLIENT PAUSE" | "CLIENT UNPAUSE" | "CLIENT UNBLOCK" => None,
        "QUIT" | "RESET" => Some(Housekeeping::After),
        "PING" => Some(Housekeeping::Ping),
        other => other.starts_with("CLIENT ").then_some(Housekeeping::Before),
    }
}

fn mongodb(operation: &str) -> Option<Housekeeping> {
    match operation {
        "hello" | "isMaster" | "ismaster" | "saslStart" | "saslContinue" | "buildInfo" => Some(Housekeeping::Before),
        "endSessions" | "killCursors" => Some(Housekeeping::After),
        "ping" => Some(Housekeeping::Ping),
        _ => None,
    }
}

/// Whether a server said that it does not know an option that the driver offered while it set the connection up. The
/// driver goes on without the option.
pub fn is_unknown_option(span: &Span) -> bool {
    let offered = span.protocol == "redis" && (span.operation == "HELLO" || span.operation.starts_with("CLIENT "));
    offered && matches!(span.text("error.type"), Some("ERR" | "NOPROTO"))
}

/// Whether the span is a message that nobody asked for and that says nothing of itself: a line that Redis sends to a
/// client that monitors it.
pub fn is_nameless_push(span: &Span) -> bool {
    span.protocol == "redis" && span.status == Status::OneWay && span.operation.is_empty()
}

/// Whether the span is a connection over which nothing was sent, or that was refused, and that no request asked for:
/// a health check, a port scan, a loop that waits for a server.
pub fn is_probe(span: &Span) -> bool {
    let opaque = matches!(&*span.protocol, "tcp" | "udp" | "unix");
    let refused = span.operation == "connect";
    let silent = span.request_bytes == 0
        && span.response_bytes == 0
        && span.attrs.iter().any(|(key, value)| key == "wirespan.calls" && *value == Value::Int(0));
    opaque && (refused || silent)
}

#[cfg(test)]
mod tests {
    use super::{is_probe, is_unknown_option, Housekeeping};
    use crate::attr::Value;
    use crate::span::Span;
    use Housekeeping::{After, Before, Ping};

    fn of(protocol: &'static str, operation: &str, target: &str, text: &str) -> Option<Housekeeping> {
        let attrs = if text.is_empty() { vec![] } else { vec![("db.query.text".into(), Value::from(text))] };
        let (operation, target) = (operation.into(), target.into());
        Housekeeping::of(&Span { protocol: protocol.into(), operation, target, attrs, ..Span::default() })
    }

    #[test]
    fn messages_are_told_by_what_they_mean() {
        for (protocol, operation, target, text, expected) in [
            ("postgresql", "PREPARE", "items", "SELECT name FROM items WHERE id = $1", Some(Before)),
            ("postgresql", "SELECT", "items", "SELECT name FROM items WHERE id = $1", None),
            ("postgresql", "SET", "", "SET application_name = 'x'", Some(Before)),
            ("postgresql", "SHOW", "", "SHOW TRANSACTION ISOLATION LEVEL", Some(Before)),
            ("postgresql", "SELECT", "", "SELECT ?", Some(Ping)),
            ("postgresql", "SELECT", "", "select 1;", Some(Ping)),
            ("postgresql", "SELECT", "", "SELECT now()", None),
            ("postgresql", "SELECT", "", "SELECT nextval('orders')", None),
            (
                "postgresql",
                "SELECT",
                "",
                "SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL;",
                Some(After),
            ),
            ("postgresql", "QUERY", "", "", Some(Ping)),
            ("postgresql", "DISCARD", "", "DISCARD ALL", Some(After)),
            ("postgresql", "COMMIT", "", "COMMIT", None),
            ("mysql", "SET", "", "SET NAMES utf8mb4", Some(Before)),
            ("mysql", "SET", "", "SET GLOBAL general_log = ?", None),
            ("mysql", "SET", "", "SET @@GLOBAL.read_only = ?", None),
            ("mysql", "SET", "", "SET autocommit=?", None),
            ("mysql", "SHOW", "", "SHOW TABLES", None),
            ("mysql", "SHOW", "", "SHOW VARIABLES LIKE ?", Some(Before)),
            ("mysql", "SELECT", "", "SELECT @@session.tx_isolation", Some(Before)),
            ("mysql", "SELECT", "", "/* ping */ SELECT ?", Some(Ping)),
            ("mysql", "STMT CLOSE", "", "SELECT ?", Some(After)),
            ("mysql", "PING", "", "", Some(Ping)),
            ("redis", "CLIENT SETINFO", "", "", Some(Before)),
            ("redis", "CLIENT LIST", "", "", None),
            ("redis", "SELECT", "", "", Some(Before)),
            ("redis", "GET", "", "", None),
            ("mongodb", "hello", "admin", "", Some(Before)),
            ("mongodb", "endSessions", "admin", "", Some(After)),
            ("mongodb", "find", "items", "", None),
            ("http", "PING", "", "", None),
        ] {
            assert_eq!(of(protocol, operation, target, text), expected, "{protocol} {operation} {text}");
        }
    }

    #[test]
    fn an_option_that_an_old_server_does_not_know_is_no_failure() {
        let failed = |operation: &str, code: &str| {
            let attrs = vec![("error.type".into(), Value::from(code))];
            is_unknown_option(&Span { protocol: "redis".into(), operation: operation.into(), attrs, ..Span::default() })
        };
        assert!(failed("CLIENT SETINFO", "ERR") && failed("HELLO", "NOPROTO"));
        assert!(!failed("HELLO", "WRONGPASS") && !failed("AUTH", "ERR") && !failed("GET", "ERR"));
    }

    #[test]
    fn a_connection_without_a_byte_is_a_probe() {
        let calls = |n| vec![("wirespan.calls".into(), Value::Int(n))];
        let silent = Span { protocol: "tcp".into(), attrs: calls(0), ..Span::default() };
        assert!(is_probe(&silent));
        assert!(!is_probe(&Span { request_bytes: 3, attrs: calls(1), ..silent.clone() }));
        assert!(!is_probe(&Span { protocol: "http".into(), ..silent.clone() }));
        assert!(is_probe(&Span { operation: "connect".into(), attrs: vec![], ..silent }));
    }
}
