//! Agent and server as two processes, and the command line against the server.

use crate::harness::{can_trace, eventually, has, otlp, root, skip, wirespan, within, Running, WIRESPAN};
use crate::shapes::compare;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wirespan_model::Trace;
use wirespan_ship::otlp::{encode_traces, json::write_request};

const TOKEN: &str = "s3cret";
/// Of the query API, where a test asks for one.
pub(crate) const UI_TOKEN: &str = "0penSesame";

pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn piped(command: &mut Command) -> Running {
    Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// Where a server listens, and its files.
pub(crate) struct Place {
    ui: String,
    link: String,
    config: PathBuf,
    store: PathBuf,
}

impl Place {
    pub(crate) fn new(dir: &Path) -> Self {
        let config = dir.join("wirespan.toml");
        std::fs::write(&config, "[serve]\notlp_grpc = \"\"\notlp_http = \"\"\n").unwrap();
        let port = || format!("127.0.0.1:{}", free_port());
        Place { ui: port(), link: port(), config, store: dir.join("store") }
    }

    /// Starts a server in this folder; it listens when this returns.
    pub(crate) fn serve(&self, more: &[&Path]) -> Running {
        let mut command = Command::new(WIRESPAN);
        command.args(["server", "--token", TOKEN, "--listen", &self.link, "--ui", &self.ui, "--config"]);
        let mut server = piped(command.arg(&self.config).arg("--store").arg(&self.store).args(more));
        server.wait_for("agents on");
        server
    }

    /// Starts an agent of this server; it traces the process when this returns.
    pub(crate) fn trace(&self, pid: u32, more: &[&Path]) -> Running {
        self.trace_by(Command::new(WIRESPAN), pid, more)
    }

    /// As [`Place::trace`]; `command` is wirespan, in some folder and with some environment.
    pub(crate) fn trace_by(&self, mut command: Command, pid: u32, more: &[&Path]) -> Running {
        command.args(["agent", "--token", TOKEN, "--server", &self.link, "--pid", &pid.to_string()]);
        let mut agent = piped(command.args(more));
        agent.wait_for("tracing");
        agent
    }

    /// Address of the query API.
    pub(crate) fn ui(&self) -> &str {
        &self.ui
    }

    /// Output of a command of the command line about this server.
    fn ask(&self, command: &str, args: &[&str]) -> String {
        let done = wirespan(&[&[command, "--server", &self.ui], args].concat());
        String::from_utf8_lossy(&done.stdout).to_string()
    }
}

#[test]
fn an_agent_sends_to_a_server_that_answers() {
    let test = "split";
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let place = Place::new(dir.path());
    let exported = dir.path().join("spans.jsonl");
    let server = place.serve(&[Path::new("--otlp-file"), &exported]);
    let script = "import http.server, threading, http.client, time\n\
        input()\n\
        s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n\
        threading.Thread(target=s.serve_forever, daemon=True).start()\n\
        for i in range(3):\n    c = http.client.HTTPConnection(*s.server_address); c.request('GET', '/over/the/link'); \
        c.getresponse().read()\n\
        time.sleep(20)\n";
    let mut target = piped(Command::new("python3").args(["-c", script]).stdin(Stdio::piped()));
    let agent = place.trace(target.pid(), &[]);
    target.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    let found = eventually("the server has the spans", || {
        let text = place.ask("traces", &["endpoint=/over/the/link", "--format", "json"]);
        (text.lines().count() == 3).then_some(text)
    });
    let summary: Value = serde_json::from_str(found.lines().next().unwrap()).unwrap();
    let id = summary["id"].as_str().unwrap();
    let tree = place.ask("trace", &[id]);
    assert!(tree.contains("GET /over/the/link") && tree.contains("wire 1.00"), "{tree}");
    assert!(place.ask("trace", &[id, "--format", "otlp"]).starts_with("{\"resourceSpans\""));
    let map = place.ask("map", &[]);
    assert!(map.contains("3 requests"), "{map}");
    assert!(place.ask("status", &["--details"]).contains("agents_connected"));
    eventually("the server exports while it runs", || {
        let spans = std::fs::read_to_string(&exported).unwrap();
        (spans.matches("\"/over/the/link\"").count() == 6).then_some(())
    });
    let missing = wirespan(&["trace", "--server", &place.ui, "00000000000000ff"]);
    assert_eq!(missing.status.code(), Some(1));
    agent.end();
    server.end();
}

/// The shapes: a saturated thread pool, whose claims by wake-up are on trial; an event loop; and a reactor, most of
/// whose causes are inferred.
const SHAPES: &[&str] = &["c-pool-full", "node", "java-reactor"];
const REQUESTS: u32 = 60;
/// Longest wait for a call's span: at most ten seconds for its cause, then the link and the store.
const SECONDS: Duration = Duration::from_secs(20);

/// The load of the shapes. It waits for a line on its standard input.
fn load(work: &Path) -> Running {
    let run = root().join("tests/apps/shapes/run.py");
    let built = Command::new("python3").arg(&run).arg("--build-only").args(SHAPES).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut command = Command::new("sh");
    command.args(["-c", "read word; exec \"$@\"", "load", "python3"]).arg(&run).args(["--netns", "--dir"]).arg(work);
    command.args(["--users", "10", "--requests", &REQUESTS.to_string()]).args(SHAPES).stdin(Stdio::piped());
    piped(&mut command)
}

/// Starts the load, and waits for its end. Returns the shapes that ran.
fn run(test: &str, load: &mut Running) -> Vec<String> {
    load.0.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    let mut ran = Vec::new();
    for line in BufReader::new(load.0.stdout.take().unwrap()).lines().map(Result::unwrap) {
        let one: Value = serde_json::from_str(&line).unwrap();
        let shape = one["shape"].as_str().unwrap();
        match one["skipped"].as_str() {
            Some(reason) => skip(&format!("{test} {shape}"), reason),
            None => {
                assert_eq!((&one["requests"], &one["broken"]), (&REQUESTS.into(), &0.into()), "{line}");
                ran.push(shape.to_string());
            }
        }
    }
    assert!(load.0.wait().unwrap().success());
    ran
}

/// GET of the query API; `None` while the server does not answer.
fn get(place: &Place, path: &str) -> Option<Value> {
    let mut answer = ureq::get(format!("http://{}{path}", place.ui)).call().ok()?;
    let text = answer.body_mut().with_config().limit(64 << 20).read_to_string().ok()?;
    Some(serde_json::from_str(&text).unwrap())
}

/// Writes every trace of the server to an OTLP file. `None` while there are too many traces for one list, because calls
/// are not linked to their requests yet.
fn fetch(place: &Place, file: &Path) -> Option<()> {
    let list = get(place, "/api/v1/traces?from=-1h&limit=500")?;
    if list["limited"] == true {
        return None;
    }
    let mut lines = Vec::new();
    for summary in list["traces"].as_array().unwrap() {
        let trace = get(place, &format!("/api/v1/trace/{}/model", summary["id"].as_str().unwrap()))?;
        let trace: Trace = serde_json::from_value(trace).unwrap();
        write_request(&encode_traces(std::slice::from_ref(&trace)), &mut lines);
        lines.push(b'\n');
    }
    std::fs::write(file, lines).unwrap();
    Some(())
}

/// Each span of an OTLP file, with its parent and the evidence of that link.
fn links(file: &Path) -> BTreeMap<String, (String, String, String)> {
    let link = |s: &crate::harness::Span| {
        (s.parent.clone(), s.attr("wirespan.evidence").into(), s.attr("wirespan.confidence").into())
    };
    otlp(file).iter().map(|s| (s.id.clone(), link(s))).collect()
}

/// The traces of every shape against the ground truth, without the examples of differences.
fn judged(file: &Path, work: &Path) -> Value {
    let mut reports: Value = serde_json::from_str(&compare(file, work, "json")).unwrap();
    reports.as_object_mut().unwrap().values_mut().for_each(|r| drop(r.as_object_mut().unwrap().remove("differences")));
    reports
}

/// The agent infers the causes, and the server takes them over. The server has the same traces as `wirespan up`, both
/// while agent and server run and after the server was killed.
#[test]
fn a_server_has_the_traces_of_its_agent_while_both_run_and_after_a_kill() {
    let test = "split_inferred";
    if !can_trace(test) || !has(test, &["python3", "cc"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (place, work) = (Place::new(dir.path()), dir.path().join("work"));
    let (agents, servers) = (dir.path().join("agent.jsonl"), dir.path().join("server.jsonl"));
    let mut server = place.serve(&[]);
    let mut load = load(&work);
    // The agent writes the traces that it would show itself.
    let agent = place.trace(load.pid(), &[Path::new("--otlp-file"), &agents]);
    let ran = run(test, &mut load);
    if ran.is_empty() {
        return;
    }
    let ended = Instant::now();
    let whole = |file: &Path| -> Option<Value> {
        let reports = judged(file, &work);
        ran.iter().all(|shape| reports[shape]["spans found"] == reports[shape]["spans expected"]).then_some(reports)
    };
    let reports = within(SECONDS, "the server has every span while both run", || {
        fetch(&place, &servers)?;
        whole(&servers)
    });
    println!("after {:?}: {}", ended.elapsed(), compare(&servers, &work, "text"));
    if let Some(kinds) = reports["java-reactor"]["evidence"].as_array() {
        assert!(kinds.iter().any(|kind| kind["evidence"] == "inferred"), "no cause was inferred: {reports}");
    }
    let own = dir.path().join("own.jsonl");
    let before = within(SECONDS, "the agent's own traces are the server's", || {
        // The last line may still be written.
        let text = std::fs::read_to_string(&agents).unwrap();
        std::fs::write(&own, &text[..text.rfind('\n')? + 1]).unwrap();
        fetch(&place, &servers)?;
        let (links, same) = (links(&servers), links(&own));
        (links == same && whole(&own)? == whole(&servers)?).then_some(links)
    });

    server.0.kill().unwrap();
    server.0.wait().unwrap();
    let server = place.serve(&[]);
    eventually("the server answers again", || fetch(&place, &servers));
    assert!(links(&servers) == before, "the killed server lost spans: {} of {}", links(&servers).len(), before.len());
    agent.end();
    server.end();
}
