//! The dependency map: NAT between the test's own namespaces, and the command `map`.

use crate::harness::{can_trace, compile, eventually, has, skip, wirespan, Running, WIRESPAN};
use crate::spaces::Spaces;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

const SERVER: &str = "import http.server, signal\n\
    class H(http.server.BaseHTTPRequestHandler):\n\
    \x20   def do_GET(self):\n\
    \x20       self.send_response(200); self.send_header('content-length', '2'); self.end_headers(); \
    self.wfile.write(b'ok')\n\
    \x20   def log_message(self, *a): pass\n\
    http.server.HTTPServer(('10.213.2.2', 80), H).serve_forever()\n";

const CLIENT: &str = "import http.client, time\n\
    while True:\n\
    \x20   c = http.client.HTTPConnection('10.213.1.1', 8080); c.request('GET', '/through/nat'); \
    c.getresponse().read(); c.close()\n\
    \x20   time.sleep(0.1)\n";

#[test]
fn nat_unbundles_into_the_true_peer() {
    let test = "map_nat";
    if !can_trace(test) || !has(test, &["ip", "nft", "sysctl", "python3"]) {
        return;
    }
    let spaces = match Spaces::behind_nat("map") {
        Ok(spaces) => spaces,
        Err(reason) => return skip(test, &reason),
    };
    let start = |space, name: &str, script| {
        let env = format!("OTEL_SERVICE_NAME={name}");
        Running(spaces.command(space, &["env", &env, "python3", "-c", script]).spawn().unwrap())
    };
    let server = start(2, "shelf", SERVER);
    eventually("the server listens", || {
        spaces.inside(2, &["python3", "-c", "import socket; socket.create_connection(('10.213.2.2', 80), 2)"]).ok()
    });
    let client = start(0, "reader", CLIENT);
    // In the router's namespace, like an agent on a host with containers.
    let (c, s) = (client.pid().to_string(), server.pid().to_string());
    let traced = |pids: [&str; 2], args: &[&str]| {
        let mut all = vec![WIRESPAN, "up", "--ui", "127.0.0.1:9473"];
        pids.iter().filter(|p| !p.is_empty()).for_each(|p| all.extend(["--pid", p]));
        all.extend(args);
        let mut up = Running(spaces.command(1, &all).spawn().unwrap());
        up.wait_for("tracing");
        up
    };
    let edge = || {
        let done = spaces.command(1, &[WIRESPAN, "map", "--format", "json"]).output().unwrap();
        let map: Value = serde_json::from_slice(&done.stdout).ok()?;
        let edges = map["edges"].as_array()?.clone();
        (edges.iter().map(|e| e["calls"]["count"].as_u64().unwrap()).sum::<u64>() >= 5).then_some((edges, map))
    };
    // One end at a time: only connection tracking knows the other end behind the NAT.
    for (pids, want) in [
        ([c.as_str(), ""], ("service:reader", "address:10.213.2.2:80")),
        (["", s.as_str()], ("caller:10.213.1.2", "service:shelf")),
    ] {
        let up = traced(pids, &[]);
        let (edges, map) = eventually("five calls are on the map", edge);
        assert_eq!(edges.len(), 1, "{map:#}");
        let ends = (edges[0]["from"].as_str().unwrap(), edges[0]["to"].as_str().unwrap());
        assert_eq!((ends, edges[0]["port"].as_u64()), (want, Some(80)), "{map:#}");
        let found =
            spaces.command(1, &[WIRESPAN, "traces", "endpoint=/through/nat", "--format", "json"]).output().unwrap();
        assert!(!found.stdout.is_empty());
        up.end();
    }
    let up = traced([&c, &s], &[]);
    let (edges, map) =
        eventually("both ends are on the map", || edge().filter(|(e, _)| e.iter().all(|e| !e["server"].is_null())));
    assert_eq!(edges.len(), 1, "{map:#}");
    assert_eq!((&edges[0]["from"], &edges[0]["to"]), (&"service:reader".into(), &"service:shelf".into()), "{map:#}");
    assert!(!edges[0]["client"].is_null(), "{map:#}");
    up.end();
}

/// The same path by flow records alone, without messages.
#[test]
fn nat_unbundles_flows_without_spans() {
    let test = "map_nat_flows";
    if !can_trace(test) || !has(test, &["ip", "nft", "sysctl"]) {
        return;
    }
    let spaces = match Spaces::behind_nat("natflow") {
        Ok(spaces) => spaces,
        Err(reason) => return skip(test, &reason),
    };
    let dir = tempfile::tempdir().unwrap();
    let program = compile("flows/flows.c", dir.path()).display().to_string();
    let config = dir.path().join("config.toml");
    std::fs::write(&config, "[capture]\nmessages = false\n[flows]\nwindow_s = 1\ndrain_ms = 200\n").unwrap();
    let start = |space, name: &str, args: &[&str]| {
        let name = format!("OTEL_SERVICE_NAME={name}");
        let command = [&["env", &name, &program][..], args].concat();
        let mut running = Running(spaces.command(space, &command).stdin(Stdio::piped()).spawn().unwrap());
        running.wait_for("ready");
        running
    };
    let mut server = start(2, "shelf", &["serve", "tcp", "10.213.2.2", "80"]);
    let mut clients: Vec<Running> =
        (0..3).map(|_| start(0, "reader", &["call", "tcp", "10.213.1.1", "8080", "-n", "40", "-1", "-h"])).collect();
    let (c, s) = (clients.iter().map(|c| c.pid().to_string()).collect::<Vec<_>>(), server.pid().to_string());
    // One end at a time, then both.
    for (n, (sees_client, sees_server, want)) in [
        (true, false, ("service:reader", "address:10.213.2.2:80")),
        (false, true, ("caller:10.213.1.2", "service:shelf")),
        (true, true, ("service:reader", "service:shelf")),
    ]
    .into_iter()
    .enumerate()
    {
        let file = dir.path().join(format!("{n}.json"));
        let (config, file) = (config.display().to_string(), file.display().to_string());
        let mut args = vec![WIRESPAN, "--config", &config, "up", "--no-ui", "--map-file", &file];
        if sees_client {
            args.extend(["--pid", &c[n]]);
        }
        if sees_server {
            args.extend(["--pid", &s]);
        }
        let mut up = Running(spaces.command(1, &args).spawn().unwrap());
        up.wait_for("tracing");
        let mut client = clients.remove(0);
        // The client lives until this line: the agent asks who it is when it drains the flows.
        client.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let mut said = String::new();
        BufReader::new(client.0.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert!(said.contains("\"opened\":40"), "{said}");
        up.end();
        let map: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let edges = map["edges"].as_array().unwrap();
        assert_eq!(edges.len(), 1, "{map:#}");
        let edge = &edges[0];
        assert_eq!((edge["from"].as_str().unwrap(), edge["to"].as_str().unwrap()), want, "{map:#}");
        assert_eq!((edge["port"].as_u64(), edge["tcp"]["opened"].as_u64()), (Some(80), Some(40)), "{map:#}");
        assert_eq!((!edge["client"].is_null(), !edge["server"].is_null()), (sees_client, sees_server), "{map:#}");
        assert_eq!(edge["calls"]["count"], 0, "no span says this: {map:#}");
    }
    assert!(server.0.try_wait().unwrap().is_none());
}

#[test]
fn maps_are_drawn_and_compared_from_files() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, edges: &[(&str, u64, u64)]| {
        let node = |id: &str| {
            let (kind, name) = id.split_once(':').unwrap();
            serde_json::json!({"id": id, "name": name, "kind": kind, "calls": calls(0, 0)})
        };
        let ends = edges.iter().map(|e| node(e.0)).chain([node("service:web")]).collect::<Vec<_>>();
        let edge = |(to, count, p95): &(&str, u64, u64)| {
            serde_json::json!({"from": "service:web", "to": to, "transport": "tcp", "port": 80, "protocol": "http",
                "protocols": ["http"], "calls": calls(*count, *p95), "tcp": tcp(), "client": null, "server": null})
        };
        let map = serde_json::json!({"from_ns": "0", "to_ns": "60000000000", "first_ns": "0", "last_ns": "60000000000",
            "nodes": ends, "edges": edges.iter().map(edge).collect::<Vec<_>>()});
        let path = dir.path().join(name);
        std::fs::write(&path, map.to_string()).unwrap();
        path.to_str().unwrap().to_string()
    };
    let a = write("a.json", &[("service:cart", 100, 2_000_000), ("name:old.example", 5, 1)]);
    let b = write("b.json", &[("service:cart", 100, 9_000_000), ("internet:internet", 5, 1)]);
    let text = |args: &[&str]| {
        let done = wirespan(args);
        (done.status.code(), String::from_utf8_lossy(&done.stdout).to_string() + &String::from_utf8_lossy(&done.stderr))
    };
    let (code, said) = text(&["map", "--diff", &a, &b]);
    assert_eq!(code, Some(0), "{said}");
    for words in ["appeared  web → internet:80", "vanished  web → old.example:80", "slowed    web → cart:80", "×4.5"]
    {
        assert!(said.contains(words), "{words}\n{said}");
    }
    let (_, json) = text(&["map", "--diff", &a, &b, "--format", "json"]);
    let diff: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(diff["slowed"][0]["after"]["calls"]["p95_ns"], 9_000_000);
    let (_, svg) = text(&["map", "--file", &a, "--format", "svg"]);
    assert!(svg.starts_with("<svg") && svg.contains("old.example") && svg.ends_with("</svg>\n"), "{svg}");
    let (_, dot) = text(&["map", "--file", &a, "--format", "dot"]);
    assert!(dot.contains("\"service:web\" -> \"service:cart\""), "{dot}");
    let junk = dir.path().join("junk.json");
    std::fs::write(&junk, "{\"nodes\": 7}").unwrap();
    let junk = junk.to_str().unwrap();
    for (args, words) in [
        (vec!["map", "--file", junk], "is no map"),
        (vec!["map", "--file", "/no/such/file"], "/no/such/file"),
        (vec!["map", "--diff", &a, "yesterday"], "neither a file nor a time range"),
        (vec!["map", "--diff", &a, &b, "--format", "svg"], "text or json"),
        (vec!["map", "--diff", &a, &b, "--slower", "0.5"], "1 or more"),
    ] {
        let (code, said) = text(&args);
        assert_eq!(code, Some(1), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
    assert_eq!(text(&["map", "--diff", &a]).0, Some(2));
    assert_eq!(text(&["map", "--file", &a, "--from", "-1h"]).0, Some(2));
}

fn calls(count: u64, p95: u64) -> Value {
    serde_json::json!({"count": count, "errors": 0, "request_bytes": 0, "response_bytes": 0, "p50_ns": p95,
        "p95_ns": p95, "p99_ns": p95})
}

fn tcp() -> Value {
    let names = [
        "opened",
        "failed",
        "closed",
        "active",
        "request_bytes",
        "response_bytes",
        "request_messages",
        "response_messages",
        "retransmits",
        "resets",
        "zero_windows",
        "out_of_order",
        "rtt_p50_ns",
        "rtt_p95_ns",
        "connect_p50_ns",
        "connect_p95_ns",
    ];
    let mut all: serde_json::Map<String, Value> = names.iter().map(|n| ((*n).to_string(), 0.into())).collect();
    all.insert("from_flows".into(), false.into());
    Value::Object(all)
}
