//! TLS: the hellos of clients. The captures are samples of many connections, most of them seen from the middle, so that
//! answers pair with nothing; what servers say is left to the unit tests and to real servers.

use super::compare::check;
use super::tshark::{self, Ask};
use super::{captures, ends, ours, Reading, Said};
use std::net::{IpAddr, Ipv4Addr};
use wirespan_model::{Endpoint, Kind};

#[test]
fn tls_hellos_as_tshark_reads_them() {
    let mut agreed = 0;
    let captures = captures("tls_hellos_as_tshark_reads_them", "common");
    for capture in &captures {
        let ask = Ask { filter: "tls.handshake.type == 1", ..Ask::default() };
        let mut theirs = Reading::new();
        for row in tshark::fields(capture, ask, &["tls.handshake.extensions_server_name"]) {
            theirs.entry(row.ends()).or_default().push(Said {
                from: row.from,
                kind: Kind::Request,
                operation: "handshake".into(),
                target: row.one(0).to_owned(),
                status: String::new(),
            });
        }
        let mine = ours::read(capture, "tls", usize::MAX, &|m, from| {
            (m.kind == Kind::Request).then(|| ours::plain(m, from)).flatten()
        });
        agreed += check(capture, &by_port(&mine.said), &by_port(&theirs), &[]);
    }
    assert!(captures.is_empty() || agreed > 1, "{agreed} messages compared");
}

/// With ports only: of a tunnel that carries IPv6 in IPv4, rows of fields do not tell which address is the inner one.
fn by_port(reading: &Reading) -> Reading {
    let blur = |e: Endpoint| Endpoint::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), e.port);
    let mut blurred = Reading::new();
    for ((a, b), said) in reading {
        let said = said.iter().map(|s| Said { from: blur(s.from), ..s.clone() });
        blurred.entry(ends(blur(*a), blur(*b))).or_default().extend(said);
    }
    blurred
}
