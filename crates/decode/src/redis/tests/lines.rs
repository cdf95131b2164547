//! Commands typed as lines, and what RESP3 puts before replies.

use super::super::Redis;
use crate::testing::{c, s, tcp};

#[test]
fn lines_with_quotes_and_attributes_before_replies_are_read() {
    let said = tcp(
        &Redis,
        &[
            c("set greeting \"hello \\\"world\\\" 'x\"\r\nset k 'it is \" here'\r\nincr n\r\n"),
            s("+OK\r\n|1\r\n+popularity\r\n%1\r\n$1\r\na\r\n,0.5\r\n+OK\r\n|1\r\n+ttl\r\n:9\r\n:2\r\n"),
        ],
    );
    let short: Vec<_> = said.iter().map(|l| l.split(" db.").next().unwrap()).collect();
    assert_eq!(short[0], "C req @0+35 SET");
    assert!(said[0].contains("SET ? ?") && !said[0].contains("SET ? ? ?"), "{said:?}");
    assert!(said[1].contains("SET ? ?") && !said[1].contains("SET ? ? ?"), "{said:?}");
    assert_eq!(said.iter().filter(|l| l.starts_with("S resp")).count(), 3, "{said:?}");
    let set = b"set a b\r\nset b c\r\n".as_slice();
    assert_eq!(crate::testing::claimed(set, b"+OK\r\n+OK\r\n"), Some(("redis", true)));
    assert_eq!(crate::testing::claimed(set, b"+OK\r\n+OK maildrop has 2\r\n"), None);
    let get = b"get a\r\n".as_slice();
    assert_eq!(crate::testing::claimed(get, b"|1\r\n+ttl\r\n:9\r\n$1\r\nb\r\n"), Some(("redis", true)));
}
