//! HTTP/1, HTTP/2 with gRPC, FastCGI.

use super::compare::check;
use super::tshark::{self, Ask};
use super::{captures, ours, Reading, Said};
use wirespan_model::{Kind, Message};

fn attr(m: &Message<'_>, key: &str) -> String {
    m.attrs.iter().find(|(k, _)| *k == key).map(|(_, v)| v.to_value().to_string()).unwrap_or_default()
}

/// Method, path and HTTP status, whatever is made of them.
fn http(m: &Message<'_>, from: wirespan_model::Endpoint) -> Option<Said> {
    matches!(m.kind, Kind::Request | Kind::Response).then(|| Said {
        from,
        kind: m.kind,
        operation: attr(m, "http.request.method"),
        target: attr(m, "url.path"),
        status: attr(m, "http.response.status_code"),
    })
}

fn path_of(uri: &str) -> String {
    uri.split('?').next().unwrap_or_default().to_owned()
}

#[test]
fn http1_as_tshark_reads_it() {
    let mut agreed = 0;
    let captures = captures("http1_as_tshark_reads_it", "http");
    for capture in &captures {
        let mut theirs = Reading::new();
        // Of a body that was not captured whole tshark would show no head.
        let options = ["tcp.desegment_tcp_streams:FALSE", "http.desegment_body:FALSE"];
        let ask = Ask { filter: "http && !http2", options: &options, ..Ask::default() };
        for row in tshark::fields(capture, ask, &["http.request.method", "http.request.uri", "http.response.code"]) {
            let request = !row.one(0).is_empty();
            if !request && row.one(2).is_empty() {
                continue;
            }
            theirs.entry(row.ends()).or_default().push(Said {
                from: row.from,
                kind: if request { Kind::Request } else { Kind::Response },
                operation: row.one(0).to_owned(),
                target: path_of(row.one(1)),
                status: row.one(2).to_owned(),
            });
        }
        agreed += check(capture, &ours::read(capture, "http", usize::MAX, &http).said, &theirs, &[]);
    }
    assert!(captures.is_empty() || agreed >= 8, "{agreed} messages compared");
}

/// Captures of HTTP/2, and the port where it is spoken: they begin in the middle, where tshark does not guess.
const HTTP2: [(&str, &str); 5] = [
    ("grpc-service-name.pcap", "tcp.port==38888,http2"),
    ("grpc-server-stream.pcap", "tcp.port==9001,http2"),
    ("grpc-unknown.pcap", "tcp.port==7000,http2"),
    ("h2c_ascii.pcap", "tcp.port==7070,http2"),
    ("httpv2-stream-id.pcap", "tcp.port==11800,http2"),
];

#[test]
fn http2_as_tshark_reads_it() {
    let mut agreed = 0;
    let captures = captures("http2_as_tshark_reads_it", "http");
    for capture in &captures {
        let name = capture.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let Some((_, port)) = HTTP2.iter().find(|(file, _)| *file == name) else { continue };
        let mut theirs = Reading::new();
        let ask = Ask { filter: "http2", decode_as: &[port], ..Ask::default() };
        let fields = ["http2.headers.method", "http2.headers.path", "http2.headers.status"];
        for row in tshark::fields(capture, ask, &fields) {
            let said = theirs.entry(row.ends()).or_default();
            let count = row.fields[0].len().max(row.fields[2].len());
            for n in 0..count {
                let value = |field: usize| row.fields[field].get(n).cloned().unwrap_or_default();
                said.push(Said {
                    from: row.from,
                    kind: if row.fields[0].len() > n { Kind::Request } else { Kind::Response },
                    operation: value(0),
                    // tshark writes the name of a field of which it knows no value.
                    target: path_of(&value(1)),
                    status: value(2),
                });
            }
        }
        theirs.retain(|_, said| !said.is_empty());
        agreed += check(capture, &ours::read(capture, "http2", usize::MAX, &http).said, &theirs, &[]);
    }
    assert!(captures.is_empty() || agreed >= 9, "{agreed} messages compared");
}

#[test]
fn fastcgi_as_tshark_reads_it() {
    let mut agreed = 0;
    let captures = captures("fastcgi_as_tshark_reads_it", "fastcgi");
    for capture in &captures {
        let mut theirs = Reading::new();
        let ask = Ask { filter: "fcgi", decode_as: &["tcp.port==9000,fcgi"], ..Ask::default() };
        for row in tshark::fields(capture, ask, &["fcgi.type"]) {
            // A request begins with BEGIN_REQUEST (1), its response with STDOUT (6), of which the capture has one.
            for kind in row.fields[0].iter().filter(|t| matches!(t.as_str(), "1" | "6")) {
                theirs.entry(row.ends()).or_default().push(Said {
                    from: row.from,
                    kind: if kind == "1" { Kind::Request } else { Kind::Response },
                    operation: String::new(),
                    target: String::new(),
                    status: String::new(),
                });
            }
        }
        let mine = ours::read(capture, "fastcgi", usize::MAX, &|m, from| {
            // tshark shows parameters only as text; read there with -V.
            match m.kind {
                Kind::Request => assert_eq!((m.operation, &*m.target), ("GET", "/aaaaa")),
                _ => assert_eq!(m.status_code, Some(200)),
            }
            Some(Said {
                operation: String::new(),
                target: String::new(),
                status: String::new(),
                ..ours::plain(m, from)?
            })
        });
        agreed += check(capture, &mine.said, &theirs, &[]);
    }
    assert!(captures.is_empty() || agreed >= 2, "{agreed} messages compared");
}
