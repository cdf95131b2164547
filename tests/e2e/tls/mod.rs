//! TLS without keys: whole spans from real libraries, joined by the ciphertext's sequence numbers, and the cause across
//! a hop.

mod boringssl;
mod cuts;
mod files;
mod go;
mod http2;
mod java;
mod openssl11;
mod rustls;
mod unread;
mod upgraded;

use crate::harness::{can_trace, eventually, has, otlp, tracing, Running, Span, WIRESPAN};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder with a key and a certificate, made by the command line `how`.
fn certified_by(dir: tempfile::TempDir, how: &[&str]) -> tempfile::TempDir {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(how)
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(dir.path())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(made.success());
    dir
}

/// A folder with a certificate for localhost.
fn certified() -> tempfile::TempDir {
    certified_by(tempfile::tempdir().unwrap(), &["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
}

/// Runs a command under `wirespan run` in the folder; its spans.
fn run(dir: &Path, command: &[&str]) -> Vec<Span> {
    told(dir, command).0
}

/// As above; also returns wirespan's output.
fn told(dir: &Path, command: &[&str]) -> (Vec<Span>, String) {
    let spans = dir.join("spans.jsonl");
    let done = Command::new(WIRESPAN)
        .env("WIRESPAN_LOG", "info,libbpf=off")
        .args(["run", "--no-ui", "--print", "0", "--otlp-file"])
        .arg(&spans)
        .arg("--")
        .args(command)
        .current_dir(dir)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{said}");
    (otlp(&spans), said)
}

fn script(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_string()
}

/// Runs a command that must end well.
fn done(command: &mut Command) {
    let done = command.output().unwrap();
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// The spans of one name: the client's, and the server's.
fn both<'a>(spans: &'a [Span], name: &str) -> (&'a Span, &'a Span) {
    let side = |side: &str| {
        let mut of: Vec<_> = spans.iter().filter(|s| s.name == name && s.attr("wirespan.tap_side") == side).collect();
        let all: Vec<_> = spans.iter().map(|s| (&s.name, s.attr("wirespan.tap_side"))).collect();
        assert_eq!(of.len(), 1, "{name} at {side}: {all:?}");
        of.remove(0)
    };
    (side("client-process"), side("server-process"))
}

/// Method and status are known, and both ends name the same bytes of the wire.
fn is_joined(spans: &[Span], name: &str, status: &str) {
    let (client, server) = both(spans, name);
    for key in ["wirespan.tcp.request_seq", "wirespan.tcp.response_seq"] {
        assert!(!client.attr(key).is_empty(), "{name}: no {key}");
        assert_eq!(client.attr(key), server.attr(key), "{name}: {key}");
    }
    for span in [client, server] {
        assert_eq!(span.attr("http.request.method"), "GET", "{name}");
        assert_eq!(span.attr("http.response.status_code"), status, "{name}");
    }
}

/// A Python server, and a client that sends three requests over one connection. One answer has several records.
const PYTHON: &str = r"
import http.client, http.server, ssl, sys, threading
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        body = b'x' * int('0' + ''.join(filter(str.isdigit, self.path.rsplit('/', 1)[1])))
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), H)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain('cert.pem', 'key.pem')
server.socket = context.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
trust = ssl.create_default_context(cafile='cert.pem')
for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
    trust.maximum_version = version
    client = http.client.HTTPSConnection('127.0.0.1', server.server_address[1], context=trust)
    for size in (0, 100, 40000):
        client.request('GET', '/%s/%d' % (version.name, size))
        client.getresponse().read()
    client.close()
";

#[test]
fn openssl_called_by_python_is_read_at_both_ends() {
    let test = "tls_python";
    if !can_trace(test) || !has(test, &["python3", "openssl"]) {
        return;
    }
    let dir = certified();
    let program = script(dir.path(), "pair.py", PYTHON);
    let spans = run(dir.path(), &["python3", &program]);
    for version in ["TLSv1_2", "TLSv1_3"] {
        for size in [0, 100, 40_000] {
            is_joined(&spans, &format!("GET /{version}/{size}"), "200");
        }
    }
    let (client, _) = both(&spans, "GET /TLSv1_3/40000");
    assert!(client.attr("http.response.body.size").parse::<u64>().unwrap_or(40_000) == 40_000);
}

/// Node contains OpenSSL, and gives it memory buffers instead of sockets.
const NODE: &str = r"
const https = require('https'), fs = require('fs');
const cert = fs.readFileSync('cert.pem'), key = fs.readFileSync('key.pem');
const server = https.createServer({ key, cert }, (request, response) => {
  const body = 'y'.repeat(Number(request.url.split('/')[2]));
  response.writeHead(200, { 'Content-Length': body.length });
  response.end(body);
});
setTimeout(() => server.listen(0, '127.0.0.1', async () => {
  const agent = new https.Agent({ keepAlive: true, maxSockets: 1, ca: cert });
  for (const size of [10, 30000]) {
    await new Promise((done) => https.get({ host: '127.0.0.1', port: server.address().port, path: '/node/' + size,
        agent }, (response) => {
      response.resume();
      response.on('end', done);
    }));
  }
  process.exit(0);
}), 2000);
";

#[test]
fn openssl_inside_node_is_read_through_its_memory() {
    let test = "tls_node";
    if !can_trace(test) || !has(test, &["node", "openssl"]) {
        return;
    }
    let dir = certified();
    let program = script(dir.path(), "pair.js", NODE);
    let spans = run(dir.path(), &["node", &program]);
    is_joined(&spans, "GET /node/10", "200");
    is_joined(&spans, "GET /node/30000", "200");
}

/// Debian's git speaks TLS with GnuTLS.
#[test]
fn gnutls_called_by_git_is_read() {
    let test = "tls_gnutls";
    if !can_trace(test) || !has(test, &["git", "python3", "openssl"]) {
        return;
    }
    let git = Command::new("sh").args(["-c", "ldd $(git --exec-path)/git-remote-https"]).output().unwrap();
    if !String::from_utf8_lossy(&git.stdout).contains("libgnutls.so.30") {
        crate::harness::skip(test, "needs a git that uses GnuTLS");
        return;
    }
    let dir = certified();
    let port = free_port();
    let server = script(dir.path(), "back.py", &server_at_port());
    let all = format!(
        "python3 {server} {port} & B=$!\nuntil [ -e ready ]; do sleep 0.1; done\nGIT_SSL_NO_VERIFY=1 git ls-remote \
         https://127.0.0.1:{port}/repo/0 2>/dev/null\n\
         sleep 0.3; kill $B; wait; exit 0\n"
    );
    let all = script(dir.path(), "all.sh", &all);
    let spans = run(dir.path(), &["sh", &all]);
    let name = spans.iter().find(|s| s.name.starts_with("GET /repo/0")).map(|s| s.name.clone());
    is_joined(&spans, &name.unwrap_or_else(|| panic!("{spans:?}")), "200");
}

/// Python's server alone, at the given port.
fn server_at_port() -> String {
    let server = PYTHON.split("threading.Thread(").next().unwrap();
    let server = server.replace("('127.0.0.1', 0)", "('127.0.0.1', int(sys.argv[1]))");
    format!("{server}\nopen('ready', 'w').close()\nserver.serve_forever()\n")
}

/// A configuration of nginx, and its port; `protocol` is an option of `listen`.
fn nginx(dir: &Path, backend: u16, protocol: &str) -> (PathBuf, u16) {
    let port = free_port();
    let conf = dir.join("nginx.conf");
    let text = format!(
        "daemon off; pid {0}/pid; error_log stderr; worker_processes 1; events {{}}\n\
         http {{ access_log off; client_body_temp_path {0}/b; proxy_temp_path {0}/p; fastcgi_temp_path {0}/f;\n\
         uwsgi_temp_path {0}/u; scgi_temp_path {0}/s;\n\
         server {{ listen 127.0.0.1:{port} ssl {protocol}; ssl_certificate {0}/cert.pem; ssl_certificate_key \
         {0}/key.pem;\n\
         location /back {{ proxy_pass https://127.0.0.1:{backend}; }}\n\
         location / {{ return 201 \"hello\\n\"; }} }} }}\n",
        dir.display()
    );
    std::fs::write(&conf, text).unwrap();
    (conf, port)
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// curl → nginx → Python, TLS on both hops: the request that the proxy sends was caused by the one that it serves.
#[test]
fn a_proxy_keeps_the_cause_across_tls() {
    let test = "tls_proxy";
    if !can_trace(test) || !has(test, &["python3", "openssl", "nginx", "curl"]) {
        return;
    }
    let dir = certified();
    let back = free_port();
    let (conf, port) = nginx(dir.path(), back, "");
    let server = script(dir.path(), "back.py", &server_at_port());
    // curl starts last, long after the agent, so that the agent meets the library in a new process.
    let all = script(
        dir.path(),
        "all.sh",
        &format!(
            "python3 {server} {back} & B=$!\nnginx -c {} -p {} & N=$!\nuntil [ -e ready ] && [ -s pid ]; do sleep 0.1; \
             done; sleep 1\n\
             curl -sf --http1.1 --cacert cert.pem https://127.0.0.1:{port}/here https://127.0.0.1:{port}/back/20000 -o \
             /dev/null -o /dev/null\n\
             S=$?; sleep 0.3; kill $N $B; wait; exit $S\n",
            conf.display(),
            dir.path().display()
        ),
    );
    let spans = run(dir.path(), &["sh", &all]);
    is_joined(&spans, "GET /here", "201");
    let of = |port: u16, side: &str| {
        let found = spans.iter().find(|s| {
            s.name == "GET /back/20000"
                && s.attr("server.port") == port.to_string()
                && s.attr("wirespan.tap_side") == side
        });
        found.unwrap_or_else(|| panic!("{side} {port}: {spans:#?}"))
    };
    let (served, sent, answered) = (of(port, "server-process"), of(back, "client-process"), of(back, "server-process"));
    assert_eq!(sent.parent, served.id, "the proxy's request belongs to the request that it serves");
    assert_eq!(answered.parent, sent.id, "both ends of the hop");
    assert_eq!(served.parent, of(port, "client-process").id);
    assert_eq!(answered.trace, served.trace);
}

/// The process loads the library, and first uses it, long after the agent has seen the process.
#[test]
fn a_library_loaded_late_is_found() {
    let test = "tls_late";
    if !can_trace(test) || !has(test, &["python3", "openssl"]) {
        return;
    }
    let dir = certified();
    let program = script(dir.path(), "late.py", &format!("import time\ntime.sleep(2)\n{PYTHON}"));
    let spans = run(dir.path(), &["python3", &program]);
    is_joined(&spans, "GET /TLSv1_3/100", "200");
}

/// Two processes do the same. Only the process that was chosen is probed and read.
#[test]
fn a_process_that_was_not_chosen_is_not_probed() {
    let test = "tls_bystander";
    if !can_trace(test) || !has(test, &["python3", "openssl"]) {
        return;
    }
    let dir = certified();
    let text = format!("import os, ssl, sys\nprint('up', file=sys.stderr, flush=True)\nos.read(0, 1)\n{PYTHON}");
    let program = script(dir.path(), "twin.py", &text);
    let start = || {
        let mut command = Command::new("python3");
        command
            .arg(&program)
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut twin = Running(command.spawn().unwrap());
        twin.wait_for("up");
        twin
    };
    let (mut target, mut other) = (start(), start());
    let spans = dir.path().join("spans.jsonl");
    let agent = tracing(&[target.pid()], &spans);
    assert!(has_breakpoints(target.pid()) && !has_breakpoints(other.pid()));
    for twin in [&mut other, &mut target] {
        use std::io::Write as _;
        twin.0.stdin.take().unwrap().write_all(b"\n").unwrap();
        eventually("it has ended", || twin.0.try_wait().unwrap());
    }
    std::thread::sleep(std::time::Duration::from_millis(500));
    agent.end();
    let seen = otlp(&spans);
    // Each side has one span, not two.
    is_joined(&seen, "GET /TLSv1_3/100", "200");
}

/// Whether the process has a private copy of a page of the library's code. The kernel makes one when it sets a
/// breakpoint.
fn has_breakpoints(pid: u32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let mut code = false;
    for line in text.lines() {
        if line.contains("libssl") {
            code = line.contains(" r-xp ");
        } else if let Some(kib) = line.strip_prefix("Private_Dirty:").or_else(|| line.strip_prefix("Anonymous:")) {
            if code && kib.trim() != "0 kB" {
                return true;
            }
        } else if line.contains('-') && line.contains(" 00:00 ") {
            code = false;
        }
    }
    false
}
