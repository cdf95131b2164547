//! RPC protocols: tshark reads Thrift and SOME/IP. It has no dissector for Dubbo, bRPC, SOFARPC, Tars and krpc, whose
//! captures are read against what their bytes show (each line below was read from a hex dump).

use super::compare::check;
use super::tshark::{self, Ask};
use super::{captures, ours, Reading, Said};
use wirespan_model::Kind;

#[test]
fn someip_as_tshark_reads_it() {
    let mut agreed = 0;
    let captures = captures("someip_as_tshark_reads_it", "some_ip");
    let fields = ["someip.serviceid", "someip.methodid", "someip.messagetype", "someip.returncode"];
    for capture in &captures {
        let mut theirs = Reading::new();
        let ask = Ask { filter: "someip", decode_as: &["udp.port==30506,someip"], ..Ask::default() };
        for row in tshark::fields(capture, ask, &fields) {
            let response = matches!(row.one(2), "0x80" | "0x81");
            let code = u32::from_str_radix(row.one(3).trim_start_matches("0x"), 16).unwrap();
            theirs.entry(row.ends()).or_default().push(Said {
                from: row.from,
                kind: if response { Kind::Response } else { Kind::Request },
                operation: row.one(1).to_owned(),
                target: row.one(0).to_owned(),
                status: if response { code.to_string() } else { String::new() },
            });
        }
        let mine = ours::read(capture, "someip", usize::MAX, &ours::plain);
        agreed += check(capture, &mine.said, &theirs, &[]);
    }
    assert!(captures.is_empty() || agreed == 2, "{agreed} messages compared");
}

/// Requests and responses of a folder, one per line; read whole and as live capture would cut them.
fn reads(folder: &str, protocol: &'static str, expected: &[&str]) {
    let captures = captures(&format!("{protocol}_as_its_bytes_say"), folder);
    for copy in [usize::MAX, 512] {
        let mut said = Vec::new();
        for capture in &captures {
            let mine = ours::read(capture, protocol, copy, &|m, from| {
                let mut plain = ours::plain(m, from)?;
                plain.target += m.carried.foreign_trace_id.as_deref().map_or("", |_| " +trace");
                Some(plain)
            });
            assert!(mine.malformed.is_empty(), "{:?}", mine.malformed);
            let messages = mine.said.values().flatten();
            said.extend(messages.map(|s| format!("{:?} {} {} {}", s.kind, s.operation, s.target, s.status)));
        }
        let said: Vec<_> = said.iter().map(|s| s.trim_end()).collect();
        let cut = copy != usize::MAX && folder == "dubbo";
        // The attachments of the longest request lie behind what live capture copies unless it is told.
        let expected: Vec<_> = expected.iter().map(|e| if cut { e.trim_end_matches(" +trace") } else { e }).collect();
        let said: Vec<_> = said.iter().map(|e| if cut { e.trim_end_matches(" +trace") } else { e }).collect();
        assert!(captures.is_empty() || said == expected, "{protocol}, {copy}: {said:#?}");
    }
}

#[test]
fn dubbo_as_its_bytes_say() {
    reads(
        "dubbo",
        "dubbo",
        &[
            "Request getById com.vivo.it.vwork.api.common.export.ExportApi +trace",
            "Request findItem my.demo.service.ItemService +trace",
            "Request login my.demo.service.UserService",
            "Response   20",
        ],
    );
}

#[test]
fn brpc_as_its_bytes_say() {
    reads("brpc", "brpc", &["Request Echo example.EchoService", "Response   0"].repeat(5));
}

#[test]
fn sofarpc_as_its_bytes_say() {
    let service = "Request testSuccess com.mycompany.app.common.ServInterface:1.0 +trace";
    reads("sofarpc", "sofarpc", &[service, "Response   0"]);
}

#[test]
fn tars_as_its_bytes_say() {
    let calls = [
        "Request tars_ping tars.tarslog.TopologyObj",
        "Response   0",
        "Request tars_ping tars.tarslog.LogObj",
        "Response   0",
    ];
    reads("tars", "tars", &calls);
}

#[test]
fn krpc_as_its_bytes_say() {
    reads("krpc", "krpc", &["Request 30 455 +trace", "Response 30 455 0"]);
}
