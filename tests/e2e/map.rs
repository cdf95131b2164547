//! The dependency map: NAT between namespaces of our own, and the command line's `map`.

use crate::harness::{can_trace, eventually, has, skip, wirespan, Running, WIRESPAN};
use serde_json::Value;
use std::process::{Command, Output, Stdio};

fn ip(args: &str) -> Output {
    Command::new("ip").args(args.split_whitespace()).output().unwrap()
}

/// Network namespaces with names of their own, removed at the end.
struct Spaces {
    names: [String; 3],
}

impl Spaces {
    /// client — router — server; the router forwards 10.213.1.1:8080 to the server's port 80, and hides the client.
    fn new() -> Result<Self, String> {
        let names = ["c", "r", "s"].map(|n| format!("wsmap-{n}-{}", std::process::id()));
        let spaces = Spaces { names };
        let [c, r, s] = &spaces.names;
        let script = [
            format!("netns add {c}"),
            format!("netns add {r}"),
            format!("netns add {s}"),
            format!("-n {r} link add toc type veth peer name eth0 netns {c}"),
            format!("-n {r} link add tos type veth peer name eth0 netns {s}"),
            format!("-n {c} addr add 10.213.1.2/24 dev eth0"),
            format!("-n {r} addr add 10.213.1.1/24 dev toc"),
            format!("-n {r} addr add 10.213.2.1/24 dev tos"),
            format!("-n {s} addr add 10.213.2.2/24 dev eth0"),
            format!("-n {c} link set eth0 up"),
            format!("-n {r} link set toc up"),
            format!("-n {r} link set tos up"),
            format!("-n {r} link set lo up"),
            format!("-n {s} link set eth0 up"),
            format!("-n {s} link set lo up"),
            format!("-n {c} route add default via 10.213.1.1"),
            // The server has no way back but to the router: without masquerade nothing would work.
        ];
        for line in &script {
            let done = ip(line);
            if !done.status.success() {
                return Err(format!("ip {line}: {}", String::from_utf8_lossy(&done.stderr).trim()));
            }
        }
        let rules = "table ip wsmap {\n\
            chain pre { type nat hook prerouting priority dstnat; tcp dport 8080 dnat to 10.213.2.2:80; }\n\
            chain post { type nat hook postrouting priority srcnat; oifname \"tos\" masquerade; }\n}\n";
        spaces.inside(1, &["sysctl", "-qw", "net.ipv4.ip_forward=1"])?;
        spaces.inside(1, &["nft", rules])?;
        Ok(spaces)
    }

    fn command(&self, space: usize, args: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[space]]).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn inside(&self, space: usize, args: &[&str]) -> Result<(), String> {
        let done = self.command(space, args).output().unwrap();
        match done.status.success() {
            true => Ok(()),
            false => Err(format!("{args:?}: {}", String::from_utf8_lossy(&done.stderr).trim())),
        }
    }
}

impl Drop for Spaces {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&format!("netns del {name}"));
        }
    }
}

const SERVER: &str = "import http.server, signal\n\
    class H(http.server.BaseHTTPRequestHandler):\n\
    \x20   def do_GET(self):\n\
    \x20       self.send_response(200); self.send_header('content-length', '2'); self.end_headers(); self.wfile.write(b'ok')\n\
    \x20   def log_message(self, *a): pass\n\
    http.server.HTTPServer(('10.213.2.2', 80), H).serve_forever()\n";

const CLIENT: &str = "import http.client, time\n\
    while True:\n\
    \x20   c = http.client.HTTPConnection('10.213.1.1', 8080); c.request('GET', '/through/nat'); c.getresponse().read(); c.close()\n\
    \x20   time.sleep(0.1)\n";

#[test]
fn nat_unbundles_into_the_true_peer() {
    let test = "map_nat";
    if !can_trace(test) || !has(test, &["ip", "nft", "sysctl", "python3"]) {
        return;
    }
    let spaces = match Spaces::new() {
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
    // In the router's namespace, as an agent on a host with containers is.
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
    // One end at a time: only connection tracking can tell who is behind.
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
    serde_json::json!({"count": count, "errors": 0, "request_bytes": 0, "response_bytes": 0, "p50_ns": p95, "p95_ns": p95, "p99_ns": p95})
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
