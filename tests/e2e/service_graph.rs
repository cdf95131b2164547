//! The metrics of the dependency map, as an OpenTelemetry Collector decodes them.

use crate::harness::{can_trace, eventually, has, root, skip, Running, WIRESPAN};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

/// A quarter of the answers are errors; the client prints the total time of its calls.
const CALLS: &str = r#"
export PYTHONUNBUFFERED=1
OTEL_SERVICE_NAME=shelf python3 -c '
import http.server
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(500 if self.path == "/bad" else 200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *a): pass
s = http.server.HTTPServer(("127.0.0.1", 0), H)
print(s.server_port)
s.serve_forever()' >port & server=$!
until [ -s port ]; do sleep 0.05; done
OTEL_SERVICE_NAME=reader python3 -c '
import http.client, sys, time
took = 0
for path in ["/good", "/good", "/bad", "/good"] * 5:
    c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
    began = time.time()
    c.request("GET", path); c.getresponse().read()
    took += time.time() - began
    c.close()
print(took)' $(cat port)
kill $server
"#;

fn collector(program: &Path, dir: &Path) -> (Running, [u16; 2]) {
    // The test holds both at once, so that they differ.
    let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = free.each_ref().map(|l| l.local_addr().unwrap().port());
    drop(free);
    let (config, out) = (dir.join("otelcol.yaml"), dir.display());
    let text = format!(
        "receivers: {{otlp: {{protocols: {{grpc: {{endpoint: '127.0.0.1:{}'}}, http: {{endpoint: \
         '127.0.0.1:{}'}}}}}}}}\n\
         exporters: {{file: {{path: {out}/metrics, flush_interval: 50ms}}, file/spans: {{path: {out}/spans, \
         flush_interval: 50ms}}}}\n\
         service:\n  telemetry: {{metrics: {{level: none}}}}\n  pipelines:\n    \
         metrics: {{receivers: [otlp], exporters: [file]}}\n    \
         traces: {{receivers: [otlp], exporters: [file/spans]}}\n",
        ports[0], ports[1]
    );
    std::fs::write(&config, text).unwrap();
    let log = std::fs::File::create(dir.join("otelcol.log")).unwrap();
    let child = Command::new(program).arg("--config").arg(&config).stdout(log.try_clone().unwrap()).stderr(log).spawn();
    let running = Running(child.unwrap());
    eventually("the collector listens", || {
        ports.iter().all(|p| TcpStream::connect(("127.0.0.1", *p)).is_ok()).then_some(())
    });
    (running, ports)
}

/// Points by name and attributes.
fn points(request: &Value) -> BTreeMap<String, Value> {
    let list = |v: &Value| v.as_array().cloned().unwrap_or_default();
    let resources = list(&request["resourceMetrics"]);
    assert_eq!(resources.len(), 1, "{request:#}");
    let scopes = list(&resources[0]["scopeMetrics"]);
    let mut all = BTreeMap::new();
    for metric in scopes.iter().flat_map(|s| list(&s["metrics"])) {
        let kind = if metric["sum"].is_object() { "sum" } else { "histogram" };
        assert_eq!(metric[kind]["aggregationTemporality"], 2, "counts since the start: {metric:#}");
        assert_eq!(kind == "sum", metric["sum"]["isMonotonic"] == true, "{metric:#}");
        for mut point in list(&metric[kind]["dataPoints"]) {
            let labels = list(&point["attributes"]);
            let labels = labels
                .iter()
                .map(|a| format!("{}={}", a["key"].as_str().unwrap(), a["value"]["stringValue"].as_str().unwrap()));
            let labels: Vec<_> = labels.filter(|l| !l.starts_with("server_port")).collect();
            point["unit"] = metric["unit"].clone();
            all.insert(format!("{} {}", metric["name"].as_str().unwrap(), labels.join(" ")), point);
        }
    }
    all
}

#[test]
fn a_collector_takes_the_service_graph() {
    let test = "service_graph";
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    let program = root().join("target/servers/otelcol");
    if !program.exists() {
        return skip(test, "needs tests/apps/fetch/fetch.py otelcol");
    }
    let dir = tempfile::tempdir().unwrap();
    let (_collector, [grpc, http]) = collector(&program, dir.path());
    for (n, (protocol, port)) in [("grpc", grpc), ("http/protobuf", http), ("http/json", http)].into_iter().enumerate()
    {
        let toml = dir.path().join("config.toml");
        std::fs::write(&toml, format!("[export]\notlp_protocol = \"{protocol}\"\n")).unwrap();
        let work = dir.path().join(n.to_string());
        std::fs::create_dir(&work).unwrap();
        let endpoint = format!("http://127.0.0.1:{port}");
        let mut run = Command::new(WIRESPAN);
        run.current_dir(&work).arg("--config").arg(&toml).args(["run", "--no-ui", "--print=0", "--otlp-metrics"]);
        let done = run.args(["--otlp-endpoint", &endpoint, "--", "sh", "-c", CALLS]).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success() && !err.contains("not exported"), "{protocol}: {err}");
        let took: f64 = out.trim().parse().unwrap();

        let last = eventually("the collector writes what it got", || {
            let text = std::fs::read_to_string(dir.path().join("metrics")).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            (lines.len() > n && text.ends_with('\n'))
                .then(|| serde_json::from_str::<Value>(lines[lines.len() - 1]).unwrap())
        });
        let resource = &last["resourceMetrics"][0]["resource"]["attributes"];
        assert!(
            resource.to_string().contains(r#"{"key":"service.name","value":{"stringValue":"wirespan"}}"#),
            "{resource}"
        );
        let points = points(&last);
        let of = |name: &str, labels: &str| {
            points
                .get(&format!("{name} {labels}"))
                .unwrap_or_else(|| panic!("{protocol}: no {name} {labels}: {points:#?}"))
        };
        let graph = "client=reader server=shelf connection_type=";
        let counted = |p: &Value| p["asInt"].as_str().map(|n| n.parse::<u64>().unwrap());
        assert_eq!(counted(of("traces_service_graph_request_total", graph)), Some(20), "{protocol}");
        assert_eq!(counted(of("traces_service_graph_request_failed_total", graph)), Some(5), "{protocol}");
        for end in ["client", "server"] {
            let times = of(&format!("traces_service_graph_request_{end}_seconds"), graph);
            assert_eq!((&times["count"], &times["unit"]), (&"20".into(), &"s".into()), "{times:#}");
            let sum = times["sum"].as_f64().unwrap();
            assert!(sum > 0.0 && sum < took, "{end}: {sum} of {took}");
            let buckets = times["bucketCounts"].as_array().unwrap();
            assert_eq!(buckets.len(), times["explicitBounds"].as_array().unwrap().len() + 1);
            assert_eq!(buckets.iter().map(|n| n.as_str().unwrap().parse::<u64>().unwrap()).sum::<u64>(), 20);
            let time = |key: &str| times[key].as_str().unwrap().parse::<u64>().unwrap();
            assert!(time("startTimeUnixNano") < time("timeUnixNano"), "{times:#}");
        }
        let link = "client=reader server=shelf network_transport=tcp";
        assert_eq!(counted(of("wirespan_edge_connections_total", link)), Some(20), "{protocol}");
        let rtt = of("wirespan_edge_rtt_seconds", link);
        let looks = rtt["count"].as_str().unwrap().parse::<u64>().unwrap();
        let mean = rtt["sum"].as_f64().unwrap() / looks as f64;
        assert!(looks >= 20 && mean > 0.0 && mean < 1.0, "at the end of each connection, on loopback: {rtt:#}");
        assert!(!std::fs::read_to_string(dir.path().join("spans")).unwrap_or_default().is_empty());
    }
}
