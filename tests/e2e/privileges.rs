//! Tracing as a user who is not root, with exactly the capabilities that `docs/security.md` names.

use crate::harness::{can_trace, eventually, has, otlp, skip, Running, Span, WIRESPAN};
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Output};
use wirespan_capture::privilege::PRIVILEGES;

/// No user's number on any distribution.
const NOBODY: &str = "65534";

/// A server in clear text and one with TLS, each asked three times. Prints what the command may do and has open.
const APP: &str = r"
import http.server, os, ssl, sys, threading, time, urllib.request
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', '2')
        self.end_headers()
        self.wfile.write(b'ok')
    def log_message(self, *_): pass
def serve(context):
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), H)
    if context: server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]
print(*[l.strip() for l in open('/proc/self/status') if l.startswith(('CapEff', 'CapAmb', 'NoNewPrivs', 'Seccomp:'))])
links = ['/proc/self/fd/' + f for f in os.listdir('/proc/self/fd') if int(f) > 2]
print('open', sorted(os.readlink(f) for f in links if os.path.lexists(f)))
if len(sys.argv) > 1: sys.exit()
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain('both.pem')
plain, secret = serve(None), serve(context)
time.sleep(2)
for n in range(3):
    urllib.request.urlopen('http://127.0.0.1:%d/plain' % plain).read()
    trust = ssl._create_unverified_context()
    urllib.request.urlopen('https://127.0.0.1:%d/secret' % secret, context=trust).read()
";

/// A directory that everyone may use, with the program, its certificate and a copy of wirespan.
fn stage() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    std::fs::write(dir.path().join("app.py"), APP).unwrap();
    std::fs::copy(WIRESPAN, dir.path().join("wirespan")).unwrap();
    let pair = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out cert -days 9 -subj /CN=x 2>/dev/null && \
                cat key cert > both.pem && chmod 644 both.pem";
    assert!(Command::new("sh").args(["-c", pair]).current_dir(dir.path()).status().unwrap().success());
    dir
}

/// Runs `wirespan ARGS` as nobody with these capabilities.
fn as_nobody(dir: &Path, capabilities: &[&str], args: &[&str]) -> Output {
    let short = |name: &&str| format!(",+{}", name.strip_prefix("CAP_").unwrap().to_lowercase());
    let set = format!("-all{}", capabilities.iter().map(short).collect::<String>());
    let mut command = Command::new("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--inh-caps", &set, "--bounding-set", &set]);
    if !capabilities.is_empty() {
        command.args(["--ambient-caps", &set]);
    }
    command.arg(dir.join("wirespan")).args(args).current_dir(dir).output().unwrap()
}

/// Traces the program with these capabilities: what it printed, its spans, and what wirespan said.
fn traced(dir: &Path, capabilities: &[&str]) -> (String, Vec<Span>, String) {
    let file = dir.join(format!("spans{}.jsonl", capabilities.len()));
    let out = file.to_str().unwrap();
    let args = ["run", "--no-ui", "--print", "0", "--otlp-file", out, "--", "python3", "app.py"];
    let done = as_nobody(dir, capabilities, &args);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{capabilities:?}: {said}");
    (String::from_utf8_lossy(&done.stdout).into_owned(), otlp(&file), said)
}

fn count(spans: &[Span], name: &str) -> usize {
    spans.iter().filter(|s| s.name == name).count()
}

fn ready(test: &str) -> bool {
    can_trace(test) && has(test, &["setpriv", "python3", "openssl"])
}

#[test]
fn a_user_with_the_named_capabilities_traces_and_passes_none_on() {
    if !ready("privileges_all") {
        return;
    }
    let dir = stage();
    let all: Vec<_> = PRIVILEGES.iter().map(|p| p.name).collect();
    let (printed, spans, said) = traced(dir.path(), &all);
    assert_eq!(count(&spans, "GET /plain"), 6, "both ends: {said}");
    assert_eq!(count(&spans, "GET /secret"), 6, "both ends, in clear text: {said}");
    assert!(!said.contains("CAP_"), "nothing is missing: {said}");
    assert!(printed.contains("CapEff:\t0000000000000000 CapAmb:\t0000000000000000"), "the command has none: {printed}");
    assert!(printed.contains("NoNewPrivs:\t0 Seccomp:\t0"), "the command is not locked in: {printed}");
    // What this test was started with, every program has.
    let alone = Command::new("python3").args(["app.py", "only look"]).current_dir(dir.path()).output().unwrap();
    let alone = String::from_utf8_lossy(&alone.stdout).lines().find(|l| l.starts_with("open")).unwrap().to_string();
    assert!(printed.contains(&alone), "the command has no file of wirespan's: {printed}, {alone}");
}

#[test]
fn two_capabilities_show_what_is_in_clear_text_and_the_rest_is_named() {
    if !ready("privileges_least") {
        return;
    }
    let dir = stage();
    let least: Vec<_> = PRIVILEGES.iter().filter(|p| p.required).map(|p| p.name).collect();
    let (_, spans, said) = traced(dir.path(), &least);
    assert_eq!(count(&spans, "GET /plain"), 6, "{said}");
    for p in PRIVILEGES.iter().filter(|p| !p.required) {
        assert!(said.contains(&format!("{}: {}", p.name, p.lost)), "{} is not named: {said}", p.name);
    }
}

/// A process that sends itself datagrams, in a network namespace of its own.
const SENDER: &str = r#"ip link set lo up && exec python3 -c "
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(600):
    s.sendto(b'x', ('127.0.0.1', 7099))
    time.sleep(0.05)
""#;

#[test]
fn two_capabilities_show_packets() {
    let test = "privileges_packets";
    if !ready(test) || !has(test, &["unshare", "ip"]) {
        return;
    }
    let dir = stage();
    let sender = Running::start("unshare", &["--net", "sh", "-c", SENDER]);
    let own = std::fs::metadata("/proc/self/ns/net").unwrap().ino();
    let space = eventually("the namespace", || {
        let inode = std::fs::metadata(format!("/proc/{}/ns/net", sender.pid())).ok()?.ino();
        (inode != own).then(|| inode.to_string())
    });
    let program = "filter: {port: 7099}\nwhere: [xmit]\naction: [count]\nfor: 2s\n";
    std::fs::write(dir.path().join("sent.yaml"), program).unwrap();
    let args = ["packet", "sent.yaml", "--netns", &space];
    let least: Vec<_> = PRIVILEGES.iter().filter(|p| p.required).map(|p| p.name).collect();
    let done = as_nobody(dir.path(), &least, &args);
    let (out, said) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && out.contains("xmit lo"), "{out} {said}");
    let done = as_nobody(dir.path(), &["CAP_BPF"], &args);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && said.contains("missing here: CAP_PERFMON"), "{said}");
}

#[test]
fn without_capabilities_nothing_runs_and_check_says_what_each_is_for() {
    if !ready("privileges_none") {
        return;
    }
    let dir = stage();
    let done = as_nobody(dir.path(), &[], &["run", "--no-ui", "--", "touch", "ran"]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && said.contains("CAP_BPF") && said.contains("CAP_PERFMON"), "{said}");
    assert!(!dir.path().join("ran").exists(), "not traced, so not started");
    let done = as_nobody(dir.path(), &[], &["check"]);
    let said = String::from_utf8_lossy(&done.stdout);
    assert_eq!(done.status.code(), Some(1), "{said}");
    for p in PRIVILEGES {
        assert!(said.contains(p.name) && said.contains(p.lost), "{}: {said}", p.name);
    }
}

/// Effective capabilities and the mode of seccomp, thread by thread.
fn threads(pid: u32) -> Vec<(String, u64, bool)> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let read = |entry: std::fs::DirEntry| {
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let field = |name: &str| Some(status.lines().find_map(|l| l.strip_prefix(name))?.trim().to_string());
        let capabilities = u64::from_str_radix(&field("CapEff:")?, 16).ok()?;
        Some((field("Name:")?, capabilities, field("Seccomp:")? == "2" && field("NoNewPrivs:")? == "1"))
    };
    entries.filter_map(read).collect()
}

#[test]
fn after_the_start_every_thread_has_only_what_it_uses() {
    use crate::harness::{eventually, Running};
    if !can_trace("privileges_after") {
        return;
    }
    let own = std::process::id().to_string();
    if threads(std::process::id()).iter().any(|t| t.1 & 1 << 21 == 0) {
        return skip("privileges_after", "this root lacks CAP_SYS_ADMIN");
    }
    let mut agent = Running::start(WIRESPAN, &["up", "--ui", "127.0.0.1:0", "--pid", &own]);
    agent.wait_for("Ctrl-C ends");
    // CAP_SETPCAP, CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_SYS_BOOT, CAP_SYS_TIME, CAP_MKNOD.
    let never = [8, 16, 17, 22, 25, 27].iter().fold(0u64, |all, bit| all | 1 << bit);
    // CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_NET_BIND_SERVICE.
    let serving = [1, 2, 10].iter().fold(0u64, |all, bit| all | 1 << bit);
    // The kernel gives no filter to a thread that is ending.
    let threads = eventually("a filter for all threads", || {
        Some(threads(agent.pid())).filter(|threads| threads.iter().all(|t| t.2))
    });
    assert!(threads.len() > 4, "{threads:?}");
    assert!(threads.iter().all(|t| t.1 & never == 0), "{threads:?}");
    let served = threads.iter().filter(|t| t.1 & !serving == 0).count();
    assert!(served >= 2, "the threads of the UI and of OTLP: {threads:?}");
    assert!(threads.iter().any(|t| t.0 == "capture" && t.1 & 1 << 39 != 0), "CAP_BPF stays: {threads:?}");
}
