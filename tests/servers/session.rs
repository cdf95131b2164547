//! One run: the script, the tracer that joins late, the comparison.

use crate::harness::{can_trace, root, skip, within, WIRESPAN};
use crate::{leak, truth};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::time::Duration;

/// Longest time for a server to start, or for a client to complete its list.
const PATIENCE: Duration = Duration::from_secs(150);
/// Time for the last events to arrive, and for sessions to notice that no more come.
const SETTLE: Duration = Duration::from_millis(700);

/// A process, ended by its pid when this is dropped.
struct Ended(Child);

impl Ended {
    fn term(&mut self) {
        let pid = rustix::process::Pid::from_raw(self.0.id() as i32).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.term();
        for _ in 0..150 {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `serve.py NAME`, and its output.
struct Script {
    process: Ended,
    lines: Receiver<String>,
    log: PathBuf,
}

impl Script {
    fn start(name: &str, dir: &Path) -> Self {
        let venv = root().join("target/servers/venv/bin/python3");
        let python = if venv.exists() { venv } else { "python3".into() };
        let log = dir.join("script.log");
        let mut child = Command::new(python)
            .arg(root().join("tests/apps/serving/serve.py"))
            .arg(name)
            .arg(dir.join("truth.jsonl"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let (says, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| says.send(line)));
        Script { process: Ended(child), lines, log }
    }

    /// The next line of its output.
    fn says(&self, waiting_for: &str) -> String {
        self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            panic!("the script does not say {waiting_for}:\n{}", std::fs::read_to_string(&self.log).unwrap_or_default())
        })
    }

    fn go(&mut self) {
        self.process.0.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }
}

/// Nothing of SDKs is received, and log-ins are shown: they are housekeeping, and may tell secrets, too.
pub(crate) const CONFIG: &str = "[serve]\notlp_grpc = \"\"\notlp_http = \"\"\n[traces]\nhousekeeping = true\n";

/// `wirespan up` on the script and its descendants.
struct Tracer {
    process: Ended,
    log: PathBuf,
    ui: String,
}

impl Tracer {
    fn start(pid: u32, dir: &Path) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (log, config, ui) = (dir.join("wirespan.log"), dir.join("w.toml"), format!("127.0.0.1:{port}"));
        std::fs::write(&config, CONFIG).unwrap();
        let file = std::fs::File::create(&log).unwrap();
        let child = Command::new(WIRESPAN)
            .env("WIRESPAN_LOG", "trace")
            .args(["up", "--pid", &pid.to_string(), "--ui", &ui, "--config"])
            .arg(&config)
            .arg("--otlp-file")
            .arg(dir.join("spans.jsonl"))
            .arg("--store")
            .arg(dir.join("store"))
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        let tracer = Tracer { process: Ended(child), log, ui };
        within(PATIENCE, "wirespan traces", || tracer.said().contains("Ctrl-C ends").then_some(()));
        tracer
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap()).into_owned()
    }

    fn end(mut self) -> String {
        self.process.term();
        let status = self.process.0.wait().unwrap();
        let said = self.said();
        assert!(status.success(), "wirespan: {status}\n{said}");
        said
    }
}

/// Runs a server, its client and the tracer; fails with every difference, if there are some the second time, too: a
/// message of a connection that is older than the tracing may be lost on a busy machine (seen with NATS, 47,616 bytes;
/// not understood).
pub(crate) fn compare(name: &str) {
    let test = format!("servers::{name}");
    if !can_trace(&test) {
        return;
    }
    let wrong = differences(name, &test);
    if wrong.is_empty() {
        return;
    }
    println!("{name}: fell short, once more: {} differences\n{}", wrong.len(), wrong.join("\n"));
    let wrong = differences(name, &test);
    assert!(wrong.is_empty(), "{name}: {} differences\n{}", wrong.len(), wrong.join("\n"));
}

/// The differences from the operations of server and client. A leaked secret fails at once.
fn differences(name: &str, test: &str) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut script = Script::start(name, dir);
    let said = script.says("ready");
    if let Some(reason) = said.strip_prefix("skip ") {
        skip(test, reason);
        return Vec::new();
    }
    assert_eq!(said, "ready");
    let tracer = Tracer::start(script.process.0.id(), dir);
    script.go();
    assert_eq!(script.says("done"), "done");
    std::thread::sleep(SETTLE);
    let answers = leak::answers(&tracer.ui);
    let said = tracer.end();
    let truth = truth::read(&dir.join("truth.jsonl"));
    let spans = truth::spans(&dir.join("spans.jsonl"), &truth);
    if let Ok(keep) = std::env::var("WIRESPAN_KEEP") {
        let keep = Path::new(&keep).join(name);
        std::fs::create_dir_all(&keep).unwrap();
        for file in ["truth.jsonl", "spans.jsonl", "wirespan.log"] {
            std::fs::copy(dir.join(file), keep.join(file)).unwrap();
        }
    }
    let report = truth.compare(&spans);
    println!("{name}: {}", report.summary);
    let searched = leak::search(&truth.secrets, dir, &answers);
    println!("{name}: {}", searched.summary);
    assert!(searched.found.is_empty(), "{name}: {}", searched.found.join("\n"));
    let mut wrong = report.differences;
    // Calls that were not copied because nothing of them was needed show as missing spans if something was.
    let lost = said.lines().filter(|l| l.starts_with("wirespan: lost") && !l.contains("unseen_calls"));
    wrong.extend(lost.map(str::to_string));
    wrong
}
