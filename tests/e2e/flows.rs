//! Flows against the truth: the programs report their own calls and bytes, and flows must report the same numbers.

use crate::harness::{can_trace, compile, eventually, Running, WIRESPAN};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::io::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use wirespan_model::{Flow, FlowKey, Role, Transport};
use wirespan_store::{Embedded, Options, Store as _, TimeRange};

struct Bench {
    dir: tempfile::TempDir,
    program: String,
}

/// The report of one process about itself.
#[derive(Clone, Debug, PartialEq)]
struct Truth {
    server: bool,
    pid: u32,
    opened: u64,
    failed: u64,
    sent: u64,
    sent_bytes: u64,
    received: u64,
    received_bytes: u64,
}

fn truths(stdout: &str) -> Vec<Truth> {
    let read = |line: &str| {
        let v: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let n = |key: &str| v[key].as_u64().unwrap();
        Truth {
            server: v["role"] == "server",
            pid: n("pid") as u32,
            opened: n("opened"),
            failed: n("failed"),
            sent: n("sent"),
            sent_bytes: n("sent_bytes"),
            received: n("received"),
            received_bytes: n("received_bytes"),
        }
    };
    stdout.lines().filter(|l| l.starts_with('{')).map(read).collect()
}

/// Flows of a store, one per key.
pub(crate) fn flows(store: &Path) -> Vec<Flow> {
    let store = Embedded::open(store, Options::default()).unwrap();
    let mut all: HashMap<FlowKey, Flow> = HashMap::new();
    store
        .flows(TimeRange::ALL, &mut |f| {
            all.entry(f.key).and_modify(|known| known.merge(f)).or_insert_with(|| f.clone());
        })
        .unwrap();
    all.into_values().collect()
}

/// Sum of a count over the flows of a process, without its listening socket's flow.
fn sum(flows: &[Flow], pid: u32, count: impl Fn(&Flow) -> u64) -> u64 {
    flows.iter().filter(|f| f.key.pid == pid).map(count).sum()
}

/// Every byte, call, connection and failure is reported, for the process that it belongs to.
fn assert_exact(flows: &[Flow], truth: &Truth, transport: Transport) {
    let mine: Vec<&Flow> = flows.iter().filter(|f| f.key.pid == truth.pid && f.key.transport == transport).collect();
    let total = |count: &dyn Fn(&Flow) -> u64| mine.iter().map(|f| count(f)).sum::<u64>();
    let seen = Truth {
        opened: if transport == Transport::Tcp { total(&|f| f.counts.opened) } else { truth.opened },
        failed: total(&|f| f.counts.failed),
        sent: total(&|f| f.counts.messages_sent),
        sent_bytes: total(&|f| f.counts.bytes_sent),
        received: total(&|f| f.counts.messages_received),
        received_bytes: total(&|f| f.counts.bytes_received),
        ..truth.clone()
    };
    assert_eq!(&seen, truth, "flows: {mine:#?}");
    let role = if truth.server { Role::Server } else { Role::Client };
    assert!(mine.iter().all(|f| f.key.role == role), "{mine:#?}");
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = compile("flows/flows.c", dir.path()).display().to_string();
        Bench { dir, program }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs calls against one server, with all processes traced. Returns their reports and the flows.
    fn run(&self, name: &str, config: &str, serve: &str, calls: &[&str]) -> (Vec<Truth>, Vec<Flow>, String) {
        let (store, script, toml) = (self.path(name), self.path("script.sh"), self.path("config.toml"));
        let p = &self.program;
        let mut text = format!("{p} serve {serve} 2>ready & s=$!\nuntil grep -q ready ready; do sleep 0.05; done\n");
        calls.iter().for_each(|c| text.push_str(&format!("{p} call {c}\n")));
        text.push_str("kill $s; wait $s; rm ready\n");
        std::fs::write(&script, text).unwrap();
        std::fs::write(&toml, config).unwrap();
        let out = Command::new(WIRESPAN)
            .current_dir(self.dir.path())
            .args(["--config".as_ref(), toml.as_os_str(), "run".as_ref(), "--no-ui".as_ref(), "--print=0".as_ref()])
            .args(["--store".as_ref(), store.as_os_str(), "--map-file".as_ref(), self.path("map.json").as_os_str()])
            .args(["--".as_ref(), "sh".as_ref(), script.as_os_str()])
            .output()
            .unwrap();
        let err = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{err}");
        assert!(!err.contains("lost_flows"), "{err}");
        (truths(&String::from_utf8_lossy(&out.stdout)), flows(&store), err)
    }
}

const FLOWS_ONLY: &str = "[capture]\nmessages = false\n";
/// As a kernel before Linux 6.3 does it, which has no socket tracepoints for messages.
const BY_SYSTEM_CALLS: &str =
    "[capture]\nrung = \"syscall-tracepoints\"\nwithout = [\"flow_send\", \"flow_receive\"]\n";

#[test]
fn tcp_is_counted_to_the_byte() {
    if !can_trace("tcp_is_counted_to_the_byte") {
        return;
    }
    let bench = Bench::new();
    for (name, config) in [("with", ""), ("without", FLOWS_ONLY)] {
        let calls = [
            "tcp 127.0.0.1 7731 -n 3000 -c 5 -s 300",
            "tcp 127.0.0.1 7731 -n 300 -1 -s 100000",
            "tcp 127.0.0.1 7730 -n 7 -1",
        ];
        let (truth, flows, _) = bench.run(name, config, "tcp 0.0.0.0 7731 -s 100000", &calls);
        assert_eq!(truth.len(), 4);
        truth.iter().for_each(|t| assert_exact(&flows, t, Transport::Tcp));
        assert_eq!(truth.iter().map(|t| t.failed).sum::<u64>(), 7);
        let connected = |f: &&Flow| f.key.port == 7731 && f.key.role == Role::Client;
        for flow in flows.iter().filter(connected) {
            let c = &flow.counts;
            assert_eq!((c.closed, c.active, c.handshake.count()), (c.opened, 0, c.opened), "{flow:#?}");
            assert!(c.srtt.count() > 0 && &*flow.resource.service == "flows" && &*flow.comm == "flows", "{flow:#?}");
        }
        let map: Value = serde_json::from_str(&std::fs::read_to_string(bench.path("map.json")).unwrap()).unwrap();
        let edges = map["edges"].as_array().unwrap();
        assert!(edges.iter().any(|e| e["port"] == 7731), "{map:#}");
        assert!(edges.iter().any(|e| e["port"] == 7730), "a dependency that fails is one, too: {map:#}");
        // The records themselves, from the command line.
        let store = bench.path(name);
        let mut list = Command::new(WIRESPAN);
        list.args(["flows", "--format", "json", "--port", "7731", "--store"]).arg(&store);
        let list = list.output().unwrap();
        let lines: Vec<Value> =
            String::from_utf8_lossy(&list.stdout).lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let told = |pid: u32, key: &str| {
            lines.iter().filter(|l| l["pid"] == pid).map(|l| l[key].as_u64().unwrap()).sum::<u64>()
        };
        for t in truth.iter().filter(|t| t.failed == 0) {
            assert_eq!((told(t.pid, "bytes_sent"), told(t.pid, "opened")), (t.sent_bytes, t.opened), "{list:?}");
        }
        let draw = Command::new(WIRESPAN).arg("map").arg("--file").arg(bench.path("map.json")).output().unwrap();
        assert!(draw.status.success() && String::from_utf8_lossy(&draw.stdout).contains("flows"), "{draw:?}");
    }
}

#[test]
fn tcp_is_counted_to_the_byte_by_system_calls() {
    if !can_trace("tcp_is_counted_to_the_byte_by_system_calls") {
        return;
    }
    let bench = Bench::new();
    let calls = ["tcp 127.0.0.1 7736 -n 3000 -c 5 -s 300", "tcp 127.0.0.1 7736 -n 300 -1 -s 4000"];
    let (truth, flows, _) = bench.run("old", BY_SYSTEM_CALLS, "tcp 0.0.0.0 7736 -w 2 -s 100000", &calls);
    assert_eq!(truth.len(), 4);
    truth.iter().for_each(|t| assert_exact(&flows, t, Transport::Tcp));
}

#[test]
fn ipv6_and_datagrams_are_counted_to_the_byte() {
    if !can_trace("ipv6_and_datagrams_are_counted_to_the_byte") {
        return;
    }
    let bench = Bench::new();
    // One socket serves many clients; none of the sockets is connected.
    for (name, ip) in [("udp4", "127.0.0.1"), ("udp6", "::1")] {
        let (many, one) = (format!("udp {ip} 7732 -n 400 -1"), format!("udp {ip} 7732 -n 400 -s 900"));
        let connected = format!("udp {ip} 7732 -n 60 -c 4 -s 700 -C");
        let (truth, flows, _) = bench.run(name, FLOWS_ONLY, &format!("udp {ip} 7732"), &[&many, &one, &connected]);
        assert_eq!(truth.len(), 4);
        truth.iter().for_each(|t| assert_exact(&flows, t, Transport::Udp));
        let ip: IpAddr = ip.parse().unwrap();
        assert!(flows.iter().all(|f| f.key.remote == ip && f.key.port == 7732), "{flows:#?}");
        // A connected socket knows its own address; an unconnected one does not.
        let clients: Vec<_> = flows.iter().filter(|f| f.key.role == Role::Client).collect();
        assert_eq!((flows.len(), clients.len()), (4, 3), "400 sockets are one bundle: {flows:#?}");
        assert_eq!(clients.iter().map(|f| f.counts.opened).sum::<u64>(), 405);
        let known: Vec<_> = clients.iter().filter(|f| f.key.local == ip).map(|f| f.counts.opened).collect();
        assert_eq!(known, [4], "{clients:#?}");
    }
    let (truth, flows, _) =
        bench.run("tcp6", "", "tcp :: 7732", &["tcp ::1 7732 -n 50 -1", "tcp 127.0.0.1 7732 -n 20"]);
    truth.iter().for_each(|t| assert_exact(&flows, t, Transport::Tcp));
    let remotes: HashSet<IpAddr> = flows.iter().map(|f| f.key.remote).filter(|ip| !ip.is_unspecified()).collect();
    assert_eq!(remotes, ["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()].into(), "v4-mapped addresses are IPv4");
}

#[test]
fn workers_that_share_a_port_have_separate_flows() {
    if !can_trace("workers_that_share_a_port_have_separate_flows") {
        return;
    }
    let bench = Bench::new();
    let (truth, flows, _) =
        bench.run("reuse", FLOWS_ONLY, "tcp 127.0.0.1 7733 -w 3", &["tcp 127.0.0.1 7733 -n 600 -1"]);
    assert_eq!(truth.len(), 4);
    truth.iter().for_each(|t| assert_exact(&flows, t, Transport::Tcp));
    let busy = truth.iter().filter(|t| t.server && t.opened > 0).count();
    assert!(busy >= 2, "the kernel spreads connections: {truth:?}");
}

#[test]
fn full_tables_lose_no_dependency() {
    if !can_trace("full_tables_lose_no_dependency") {
        return;
    }
    full_tables(FLOWS_ONLY);
}

#[test]
fn full_tables_lose_no_dependency_by_system_calls() {
    if !can_trace("full_tables_lose_no_dependency_by_system_calls") {
        return;
    }
    full_tables(BY_SYSTEM_CALLS);
}

fn full_tables(capture: &str) {
    let bench = Bench::new();
    let tiny = format!("{capture}[flows]\nbundles = 16\nsockets = 4\ndrain_ms = 2000\n");
    let calls = ["tcp 127.0.1.1 7734 -n 900 -c 300 -p 300", "tcp 127.0.3.1 7734 -n 500 -1 -p 500"];
    let (truth, flows, _) = bench.run("tiny", &tiny, "tcp 0.0.0.0 7734", &calls);
    truth.iter().for_each(|t| assert_exact(&flows, t, Transport::Tcp));
    let clients = |pid: u32| flows.iter().filter(|f| f.key.pid == pid && f.key.role == Role::Client).count();
    let peers: Vec<usize> = truth.iter().filter(|t| !t.server).map(|t| clients(t.pid)).collect();
    assert_eq!(peers, [300, 500]);
    for t in &truth {
        let (opened, closed) = (sum(&flows, t.pid, |f| f.counts.opened), sum(&flows, t.pid, |f| f.counts.closed));
        assert_eq!((opened, closed), (t.opened, t.opened), "{t:?}");
    }
}

#[test]
fn older_connections_are_reported_with_their_direction() {
    if !can_trace("older_connections_are_reported_with_their_direction") {
        return;
    }
    let bench = Bench::new();
    let mut server = Running::start(&bench.program, &["serve", "tcp", "127.0.0.1", "7735"]);
    server.wait_for("ready");
    let mut client = Command::new(&bench.program)
        .args(["call", "tcp", "127.0.0.1", "7735", "-n", "90", "-c", "3", "-h"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map(Running)
        .unwrap();
    client.wait_for("ready");
    let (store, toml) = (bench.path("existing"), bench.path("config.toml"));
    std::fs::write(&toml, "[capture]\nmessages = false\n[flows]\nwindow_s = 1\ndrain_ms = 200\n").unwrap();
    let pids = [server.pid().to_string(), client.pid().to_string()];
    let store_arg = store.display().to_string();
    let mut args = vec!["--config", toml.to_str().unwrap(), "up", "--no-ui", "--store", &store_arg];
    pids.iter().for_each(|pid| args.extend(["--pid", pid]));
    let mut up = Running::start(WIRESPAN, &args);
    up.wait_for("tracing");
    // The client sends, prints its report, and keeps its connections until the next input line.
    client.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(client.0.stdout.take().unwrap()), &mut line).unwrap();
    up.end();
    let of_client = truths(&line).remove(0);
    let all = flows(&store);
    let find = |pid: u32, role: Role| {
        let mine = all.iter().filter(|f| f.key.pid == pid && f.key.role == role && !f.key.remote.is_unspecified());
        let mine: Vec<&Flow> = mine.collect();
        assert_eq!(mine.len(), 1, "{all:#?}");
        mine[0].clone()
    };
    let (near, far) = (find(client.pid(), Role::Client), find(server.pid(), Role::Server));
    for (flow, sent, received) in [
        (&near, of_client.sent_bytes, of_client.received_bytes),
        (&far, of_client.received_bytes, of_client.sent_bytes),
    ] {
        let c = &flow.counts;
        assert_eq!((flow.key.port, c.opened, c.closed, c.active), (7735, 0, 0, 3), "{flow:#?}");
        assert_eq!((c.bytes_sent, c.bytes_received), (sent, received), "{flow:#?}");
    }
    client.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    eventually("the client ends", || client.0.try_wait().unwrap());
    server.end();
}
