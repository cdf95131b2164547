//! Values never pass, names do.
#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

mod keep;

use super::{text, Backslash, Dialect, Masker, Rules};
use proptest::prelude::*;

fn masked(dialect: Dialect, sql: &str) -> String {
    let mut masker = Masker::default();
    let rules = match dialect {
        Dialect::Postgres => Rules { backslash: Backslash::Plain, ..Rules::of(dialect) },
        Dialect::MySql => Rules { backslash: Backslash::Escapes, ..Rules::of(dialect) },
        _ => Rules::of(dialect),
    };
    masker.read(sql.as_bytes(), rules);
    masker.text().to_owned()
}

fn pg(sql: &str) -> String {
    masked(Dialect::Postgres, sql)
}

fn my(sql: &str) -> String {
    masked(Dialect::MySql, sql)
}

fn outline(sql: &str) -> (String, String, String) {
    let mut masker = Masker::default();
    masker.read(sql.as_bytes(), Rules { dialect: Dialect::MySql, ..Rules::default() });
    (masker.operation().into(), masker.collection().into(), masker.summary().into())
}

#[test]
fn values_of_postgres_are_masked() {
    assert_eq!(pg("SELECT * FROM t WHERE a = 'x' AND b=12"), "SELECT * FROM t WHERE a = ? AND b=?");
    assert_eq!(pg("select 'it''s', E'a\\'b', N'x', B'01', X'ff', U&'d!'"), "select ?");
    assert_eq!(pg("SELECT $$secret$$, $a$ $$ b $a$ || x"), "SELECT ? || x");
    assert_eq!(pg("SELECT \"Col\" FROM \"S\".\"T\" WHERE id = $1"), "SELECT \"Col\" FROM \"S\".\"T\" WHERE id = $1");
    assert_eq!(pg("SELECT 'a\\' , secret"), "SELECT ?, secret", "a backslash is plain");
    assert_eq!(pg("SELECT a::int, b[1], 1.5e-3, .5, 0xFF, 1_000 FROM t1"), "SELECT a::int, b[?], ? FROM t1");
    assert_eq!(pg("SELECT 1 /* 'a /* b */ c' */ -- 'd\n + x"), "SELECT ? + x");
    assert_eq!(pg("x IN (1, 2,3 , 'a')"), "x IN (?)");
    assert_eq!(pg("x IN (-1, -2.5)"), "x IN (?)");
    assert_eq!(pg("SELECT a - 1, b -1"), "SELECT a - ?, b -?");
    assert_eq!(pg("INSERT INTO t (a,b) VALUES (1,'x'),(2,'y'), (3, 'z')"), "INSERT INTO t (a, b) VALUES (?)");
    assert_eq!(pg("  SELECT\n\t 1  "), "SELECT ?");
    assert_eq!(pg("SELECT 'a' 'b'"), "SELECT ?");
    assert_eq!(pg("SELECT 'a'from t"), "SELECT ? from t");
}

#[test]
fn values_of_mysql_are_masked() {
    assert_eq!(
        my("SELECT `a` FROM `d`.`t` WHERE x = \"v\" AND y='it\\'s'"),
        "SELECT `a` FROM `d`.`t` WHERE x = ? AND y=?"
    );
    assert_eq!(my("SELECT _utf8'x', n'y', 0x1f, b'1', @v, @@g # 'c"), "SELECT ?, @v, @@g");
    assert_eq!(my("SELECT 5--3, 4 -- 'c\n, 2"), "SELECT ?--?");
    assert_eq!(my("/*!40101 SET NAMES 'utf8' */"), "SET NAMES ?");
    assert_eq!(my("/* 'x' */ SELECT 1"), "SELECT ?");
    assert_eq!(my("SELECT \"a\"\"b\", 'c' FROM t"), "SELECT ? FROM t");
}

#[test]
fn values_of_other_dialects_are_masked() {
    assert_eq!(
        masked(Dialect::MsSql, "SELECT [a b] FROM #t WHERE x = N'y' AND z=\"w\" AND @p=1"),
        "SELECT [a b] FROM #t WHERE x = ? AND z=? AND @p=?"
    );
    assert_eq!(masked(Dialect::ClickHouse, "INSERT INTO t FORMAT CSV\n1,secret\n"), "INSERT INTO t FORMAT CSV ?");
    assert_eq!(masked(Dialect::ClickHouse, "SELECT 'a\\'b', `c` FROM \"t\""), "SELECT ?, `c` FROM \"t\"");
    assert_eq!(masked(Dialect::ClickHouse, "SELECT a FROM t FORMAT JSON"), "SELECT a FROM t FORMAT JSON");
    assert_eq!(
        masked(Dialect::Cql, "SELECT * FROM ks.\"T\" WHERE id = 5f2a // x"),
        "SELECT * FROM ks.\"T\" WHERE id = ?"
    );
}

#[test]
fn uuids_of_cql_are_values() {
    let uuid = "SELECT a FROM t WHERE id = 5132b130-ae79-11e4-ab27-0800200c9a66";
    let said = masked(Dialect::Cql, uuid);
    assert!(!said.contains("ae79") && !said.contains("0800200c9a66"), "{said}");
    let said = masked(Dialect::Cql, "SELECT a FROM t WHERE id = abcdef12-ae79-b1e4-ab27-c800200c9a66");
    assert!(!said.contains("abcdef12") && !said.contains("c800200c9a66") && !said.contains("ae79"), "{said}");
}

#[test]
fn a_value_without_end_is_masked_to_the_end() {
    for sql in ["SELECT 'secr", "SELECT $$secr", "SELECT $t$secr", "SELECT $secr", "SELECT \"secr", "SELECT E'secr\\"] {
        assert_eq!(pg(sql), "SELECT ?", "{sql}");
    }
    assert_eq!(pg("SELECT 1 /* secr"), "SELECT ?");
    let mut masker = Masker::default();
    masker.read(b"SELECT 'a\\', secret, 'b'", Rules::of(Dialect::MySql));
    assert_eq!(masker.text(), "SELECT ?", "an unknown session");
    let gbk = Rules { dialect: Dialect::MySql, backslash: Backslash::Escapes, double_byte: true };
    masker.read(b"SELECT '\x81\\', a", gbk);
    assert_eq!(masker.text(), "SELECT ?, a");
}

#[test]
fn operations_and_tables_are_found() {
    let is = |sql: &str, op: &str, table: &str, summary: &str| {
        assert_eq!(outline(sql), (op.into(), table.into(), summary.into()), "{sql}");
    };
    is("select a from t where b", "SELECT", "t", "SELECT t");
    is("SELECT extract(year FROM x) FROM d.t, u JOIN v", "SELECT", "d.t", "SELECT d.t u v");
    is("SELECT * FROM (SELECT * FROM orders) x", "SELECT", "orders", "SELECT SELECT orders");
    is("INSERT INTO `a`.`b` (c) SELECT d FROM e", "INSERT", "a.b", "INSERT a.b SELECT e");
    is("insert ignore t values (1)", "INSERT", "t", "INSERT t");
    is("UPDATE t SET a = 1 WHERE b IN (SELECT c FROM u)", "UPDATE", "t", "UPDATE t SELECT u");
    is("DELETE FROM t WHERE a", "DELETE", "t", "DELETE t");
    is("CREATE TABLE IF NOT EXISTS t (id int)", "CREATE", "t", "CREATE t");
    is("CREATE UNIQUE INDEX i ON t (a)", "CREATE", "", "CREATE");
    is("DROP TEMPORARY TABLE t", "DROP", "t", "DROP t");
    is("WITH x AS (SELECT 1 FROM y) SELECT * FROM x", "SELECT", "x", "SELECT SELECT x");
    is("BEGIN", "BEGIN", "", "BEGIN");
    is("SHOW TABLES", "SHOW", "", "SHOW");
    is("SET a = 1; SELECT b FROM t", "SET", "t", "SET SELECT t");
    is("(SELECT a FROM t) UNION (SELECT b FROM u)", "SELECT", "t", "SELECT t SELECT u");
    is("gibberish here", "", "", "");
    is("SELECT a FROM t FOR UPDATE", "SELECT", "t", "SELECT t");
    is("INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 1", "INSERT", "t", "INSERT t");
    is("EXPLAIN SELECT a FROM t", "EXPLAIN", "t", "EXPLAIN SELECT t");
    is("TRUNCATE TABLE t", "TRUNCATE", "t", "TRUNCATE t");
    is("REPLACE INTO t VALUES (1)", "REPLACE", "t", "REPLACE t");
    let mut masker = Masker::default();
    masker.read(b"CALL db.proc('x')", Rules::default());
    assert_eq!((masker.procedure(), masker.collection(), masker.summary()), ("db.proc", "", "CALL db.proc"));
}

#[test]
fn long_statements_are_bounded() {
    let mut masker = Masker::default();
    let sql = format!("SELECT {}", "a+".repeat(50_000));
    masker.read(sql.as_bytes(), Rules::default());
    assert!(masker.text().len() <= super::sql::MAX_TEXT + 16);
    let sql = format!("SELECT {} FROM {}", "(".repeat(500), "t, ".repeat(500));
    masker.read(sql.as_bytes(), Rules::default());
    assert!(masker.summary().len() <= 256);
}

#[test]
fn error_texts_keep_words_and_no_values() {
    let is = |raw: &str, expected: &str| assert_eq!(text(raw.as_bytes(), true), expected);
    is("syntax error", "syntax error");
    is("relation \"users\" does not exist", "relation \"?\" does not exist");
    is("Duplicate entry 'O'Brien' for key 'k'", "Duplicate entry '?'");
    is("near 'WHERE a='secret'' at line 12", "near '?' at line ?");
    is("The duplicate key value is (bob@x.y).", "The duplicate key value is (?).");
    is("Key (a)=(b) exists", "Key (?)=(?) exists");
    is("utf8 is not int4, 10.0.0.1:77x is", "utf8 is not int4, ? is");
    assert_eq!(text(b"near 'secret", false), "near '?");
    assert_eq!(text(b"unterminated 'x' and sec", false), "unterminated '?");
    let long = format!("{}'{}'", "a".repeat(150), "s".repeat(500));
    assert!(text(long.as_bytes(), true).ends_with("a'?'"));
}

proptest! {
    /// Whatever stands around it: a value in quotes is never shown, cut anywhere.
    #[test]
    fn canaries_never_pass(
        before in r"[a-z ,()=*]{0,20}", inner in r"[a-z' $\-/*]{0,12}",
        behind in r"[a-z ,()=*;]{0,20}", cut in 0usize..80,
    ) {
        let quoted = format!("'{}'", format!("CANARY{inner}").replace('\'', "''"));
        let sql = format!("SELECT {before} {quoted} {behind}");
        let cut = &sql[..cut.min(sql.len())];
        for dialect in [Dialect::Postgres, Dialect::MySql, Dialect::MsSql, Dialect::ClickHouse, Dialect::Cql] {
            for text in [masked(dialect, &sql), masked(dialect, cut)] {
                prop_assert!(!text.contains("CAN"), "{:?} {} {}", dialect, sql, text);
            }
        }
    }

    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut masker = Masker::default();
        for dialect in [Dialect::Postgres, Dialect::MySql, Dialect::MsSql, Dialect::ClickHouse, Dialect::Cql] {
            masker.read(&bytes, Rules::of(dialect));
            masker.read(&bytes, Rules { dialect, backslash: Backslash::Escapes, double_byte: true });
        }
        text(&bytes, true);
        text(&bytes, false);
    }

    #[test]
    fn any_words_are_read(sql in r"((SELECT|FROM|INTO|INSERT|WITH|[(]|[)]|,|[.]|a|'|;|/[*]|[$]) ?){0,30}") {
        for dialect in [Dialect::Postgres, Dialect::MySql] {
            masked(dialect, &sql);
        }
    }
}
