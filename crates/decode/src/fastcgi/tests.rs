#![allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::cast_possible_truncation
)]

use super::FastCgi;
use crate::testing::{c, cut, probe, s, tcp, Turn};
use crate::{Detect, Protocol};
use proptest::prelude::*;

fn record(kind: u8, id: u16, content: &[u8], padding: u8) -> Vec<u8> {
    let len = content.len() as u16;
    let mut bytes = vec![1, kind, (id >> 8) as u8, id as u8, (len >> 8) as u8, len as u8, padding, 0];
    bytes.extend(content);
    bytes.extend(std::iter::repeat_n(0, usize::from(padding)));
    bytes
}

fn params(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in pairs {
        for len in [name.len(), value.len()] {
            match len {
                0..=127 => bytes.push(len as u8),
                _ => bytes.extend((len as u32 | 0x8000_0000).to_be_bytes()),
            }
        }
        bytes.extend(name.bytes().chain(value.bytes()));
    }
    bytes
}

fn ask(id: u16, method: &str, uri: &str) -> Vec<u8> {
    let pairs = [
        ("SCRIPT_FILENAME", "/srv/www/index.php"),
        ("QUERY_STRING", "token=canary"),
        ("REQUEST_METHOD", method),
        ("REQUEST_URI", uri),
        ("HTTP_COOKIE", "sid=canary"),
        ("HTTP_AUTHORIZATION", "Bearer canary"),
        ("HTTP_X_REQUEST_ID", "r-1"),
        ("SERVER_NAME", "shop.example"),
        ("SERVER_PORT", "8080"),
    ];
    [
        record(1, id, &[0, 1, 1, 0, 0, 0, 0, 0], 0),
        record(4, id, &params(&pairs), 3),
        record(4, id, b"", 0),
        record(5, id, b"a=canary", 0),
        record(5, id, b"", 0),
    ]
    .concat()
}

fn answer(id: u16, header: &str) -> Vec<u8> {
    let output = format!("{header}Content-type: text/html\r\n\r\ncanary");
    [record(6, id, output.as_bytes(), 5), record(6, id, b"", 0), record(3, id, &[0; 8], 0)].concat()
}

#[test]
fn a_request_and_its_response_share_an_id() {
    let said = tcp(&FastCgi, &[c(ask(1, "POST", "/cart?token=canary")), s(answer(1, "Status: 404 Not Found\r\n"))]);
    assert!(said[0].starts_with("C req @0+"), "{said:?}");
    assert!(
        said[0].contains(
            " body=open id=1 POST /cart http.request.method=POST url.path=/cart \
             wirespan.fastcgi.script=/srv/www/index.php server.address=shop.example server.port=8080"
        ),
        "{}",
        said[0]
    );
    assert!(said[0].contains("request_id: Some(\"r-1\")"));
    assert!(said[1].starts_with("End Client @"));
    assert!(said[2].contains("body=open id=1 status=404 ClientError http.response.status_code=404"), "{}", said[2]);
    assert!(said[3].starts_with("End Server @") && said[3].ends_with("Some(1)"), "{}", said[3]);
    assert_eq!(said.len(), 4);
    assert!(!said.join(" ").contains("canary"));
}

#[test]
fn requests_may_interleave_and_follow_one_another() {
    let (a, b) = (ask(1, "GET", "/a"), ask(2, "GET", "/b"));
    let mixed = [&a[..16], &b[..16], &a[16..], &b[16..]].concat();
    let said = tcp(
        &FastCgi,
        &[
            c(mixed),
            s([answer(2, ""), answer(1, "Location: /x\r\n")].concat()),
            c(ask(1, "GET", "/c")),
            s(answer(1, "Status: 500 Oh\r\n")),
        ],
    );
    let short: Vec<_> =
        said.iter().filter(|l| !l.starts_with("End")).map(|l| l.split(" http.").next().unwrap()).collect();
    let ends = |n: usize, tail: &str| assert!(short[n].ends_with(tail), "{short:?}");
    ends(0, "id=1 GET /a");
    ends(1, "id=2 GET /b");
    ends(2, "id=2 status=200 Ok");
    ends(3, "id=1 status=302 Ok");
    ends(4, "id=1 GET /c");
    ends(5, "id=1 status=500 ServerError");
}

#[test]
fn refused_and_failed_requests_are_errors() {
    let end = |app: u8, protocol: u8| record(3, 1, &[0, 0, 0, app, protocol, 0, 0, 0], 0);
    let said = tcp(&FastCgi, &[c(ask(1, "GET", "/a")), s(end(0, 2))]);
    assert!(said[2].contains("S resp @0+16 id=1 ServerError error=\"OVERLOADED\" error.type=OVERLOADED"), "{said:?}");
    let said =
        tcp(&FastCgi, &[c(ask(1, "GET", "/a")), s([record(7, 1, b"PHP Fatal canary", 0), answer(1, "")].concat())]);
    assert!(said[3].contains("wirespan.fastcgi.stderr=true") && !said.join("").contains("canary"), "{said:?}");
}

#[test]
fn gaps_and_joins_find_the_next_record() {
    let request = ask(1, "GET", "/a");
    // The rest of the parameters was not captured: what came before the cut is known.
    let said = tcp(
        &FastCgi,
        &[(request_turn(&request[..120], request.len() - 120)), s(answer(1, "")), c(ask(1, "GET", "/b"))],
    );
    assert!(said[0].contains("wirespan.truncated=true") && said[0].contains("id=1 GET"), "{said:?}");
    assert!(said.iter().any(|l| l.contains("GET /b")), "{said:?}");
    // Joined inside a request: the next one is found.
    for from in [3, 17, 60] {
        let said = tcp(&FastCgi, &[c(&request[from..]), s(answer(1, "")), c(ask(1, "GET", "/b")), s(answer(1, ""))]);
        let requests: Vec<_> = said.iter().filter(|l| l.starts_with("C req")).collect();
        assert!(requests.len() == 1 && requests[0].contains("GET /b"), "{from}: {said:?}");
        assert!(said.iter().any(|l| l.contains("id=1 status=200 Ok")), "{said:?}");
    }
}

#[test]
fn an_id_used_again_ends_its_last_request() {
    // END_REQUEST lies behind the copied part of the first answer, and the whole second answer was lost.
    let long = answer(1, "Status: 404 Not Found\r\n");
    let said = tcp(
        &FastCgi,
        &[
            c(ask(1, "GET", "/a")),
            (s("").0, long[..60].to_vec(), long.len() as u64 - 60 + 70_000),
            c(ask(1, "GET", "/b")),
            (s("").0, vec![], 500),
            c(ask(1, "GET", "/c")),
            s(answer(1, "Status: 500 Oh\r\n")),
        ],
    );
    let of = |from: &str, to: &str| {
        let at = |what: &str| said.iter().position(|l| l.contains(what)).unwrap();
        said[at(from)..at(to)].iter().filter(|l| l.contains("S resp") || l.starts_with("End Server")).count()
    };
    assert_eq!((of("GET /a", "GET /b"), of("GET /b", "GET /c")), (2, 1), "{said:#?}");
    assert!(said.iter().any(|l| l.contains("id=1 status=404")), "{said:#?}");
    let last = said.iter().rposition(|l| l.contains("S resp")).unwrap();
    assert!(said[last].contains("status=500") && said[last - 2].contains("GET /c"), "{said:#?}");
}

fn request_turn(bytes: &[u8], missing: usize) -> Turn {
    let (side, bytes, _) = c(bytes);
    (side, bytes, missing as u64)
}

#[test]
fn connections_are_recognised_and_others_are_not() {
    let request = ask(7, "GET", "/");
    assert_eq!(FastCgi.detect(&probe(&request, b"")), Detect::Yes { first_is_client: true });
    assert_eq!(FastCgi.detect(&probe(&answer(7, ""), &request)), Detect::Yes { first_is_client: false });
    assert_eq!(FastCgi.detect(&probe(&request[..8], b"")), Detect::Maybe);
    assert_eq!(FastCgi.detect(&probe(&request[16..], b"")), Detect::No);
    for at in 0..16 {
        let mut other = request.clone();
        other[at] = 0x55;
        // The id is free, and so is the padding of the record.
        let same = matches!(at, 2 | 3 | 6);
        assert_eq!(FastCgi.detect(&probe(&other, b"")) == Detect::No, !same, "{at}");
    }
}

proptest! {
    #[test]
    fn chunking_does_not_matter(cuts in prop::collection::vec(1usize..80, 1..20)) {
        let whole = vec![
            c(ask(1, "GET", "/a")), s(answer(1, "Status: 404 No\r\n")),
            c([ask(2, "GET", "/b"), ask(3, "GET", "/c")].concat()), s([answer(3, ""), answer(2, "")].concat()),
        ];
        prop_assert_eq!(tcp(&FastCgi, &whole), tcp(&FastCgi, &cut(&whole, &cuts)));
    }
}
