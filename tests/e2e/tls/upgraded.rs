//! TLS that begins in the middle of a connection: what comes before it, its handshake, and the plaintext behind it.

use super::{certified, run, script};
use crate::harness::{can_trace, has, Span};

/// A mail over SMTP, by Python's own client, to a server that knows STARTTLS.
const MAIL: &str = r"
import smtplib, socket, ssl, threading, time
def serve(s):
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain('cert.pem', 'key.pem')
    while True:
        conn, _ = s.accept()
        say = lambda text: conn.sendall(text.encode() + b'\r\n')
        say('220 mail.test ESMTP')
        data = b''
        while True:
            while b'\n' not in data:
                more = conn.recv(4096)
                if not more: break
                data += more
            if not data: break
            line, _, data = data.partition(b'\n')
            word = line.strip().upper()
            if word.startswith(b'EHLO'): say('250-mail.test\r\n250 STARTTLS')
            elif word == b'STARTTLS':
                say('220 go ahead')
                conn = c.wrap_socket(conn, server_side=True)
            elif word == b'DATA':
                say('354 end with a dot')
                while not data.endswith(b'\r\n.\r\n'): data += conn.recv(4096)
                data = b''
                say('250 2.0.0 taken')
            elif word == b'QUIT': say('221 bye'); conn.close(); break
            else: say('250 2.1.0 ok')
s = socket.create_server(('127.0.0.1', 0)); threading.Thread(target=serve, args=(s,), daemon=True).start()
time.sleep(1)
with smtplib.SMTP('127.0.0.1', s.getsockname()[1], local_hostname='client.test') as m:
    m.starttls(context=ssl._create_unverified_context())
    m.sendmail('a@example.org', ['b@example.org'], 'Subject: x\r\n\r\nsecret\r\n')
time.sleep(1)
";

/// Two requests through a proxy's CONNECT, by Python's own client.
const TUNNEL: &str = r"
import http.client, http.server, socket, ssl, threading, time
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        self.send_response(200); self.send_header('Content-Length', '2'); self.end_headers(); self.wfile.write(b'ok')
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), H)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain('cert.pem', 'key.pem')
server.socket = c.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
def pump(a, b):
    try:
        while data := a.recv(65536): b.sendall(data)
        b.shutdown(socket.SHUT_WR)
    except OSError: pass
class P(http.server.BaseHTTPRequestHandler):
    def do_CONNECT(self):
        host, port = self.path.split(':')
        up = socket.create_connection((host, int(port)))
        self.wfile.write(b'HTTP/1.1 200 Connection established\r\n\r\n')
        t = threading.Thread(target=pump, args=(up, self.connection)); t.start()
        pump(self.connection, up); t.join(); self.close_connection = True
    def log_message(self, *_): pass
proxy = http.server.ThreadingHTTPServer(('127.0.0.1', 0), P)
threading.Thread(target=proxy.serve_forever, daemon=True).start()
time.sleep(1)
k = http.client.HTTPSConnection('127.0.0.1', proxy.server_address[1], context=ssl._create_unverified_context())
k.set_tunnel('127.0.0.1', server.server_address[1])
for path in ['/one', '/two']:
    k.request('GET', path); k.getresponse().read()
k.close()
time.sleep(1)
";

/// The spans of Python with one of these scripts.
fn spans_of(test: &str, text: &str) -> Option<Vec<Span>> {
    if !can_trace(test) || !has(test, &["python3", "openssl"]) {
        return None;
    }
    let dir = certified();
    let script = script(dir.path(), "upgraded.py", text);
    let spans = run(dir.path(), &["python3", &script]);
    assert!(!spans.iter().any(|span| format!("{span:?}").contains("secret")), "nothing of the mail is kept: {spans:?}");
    Some(spans)
}

/// How many spans of this name ended well at both ends.
fn ok(spans: &[Span], name: &str) -> [usize; 2] {
    ["client-process", "server-process"].map(|side| {
        let is = |span: &&Span| span.name == name && span.attr("wirespan.tap_side") == side;
        spans.iter().filter(|span| is(span) && span.attr("wirespan.status") == "ok").count()
    })
}

#[test]
fn a_mail_behind_starttls_is_read() {
    let Some(spans) = spans_of("a_mail_behind_starttls_is_read", MAIL) else { return };
    let all: Vec<_> = spans.iter().map(|span| (&span.name, span.attr("wirespan.tap_side"))).collect();
    assert_eq!(ok(&spans, "EHLO"), [2, 2], "before and behind it: {all:?}");
    for name in ["STARTTLS", "handshake", "MAIL example.org", "RCPT example.org", "DATA", "QUIT"] {
        assert_eq!(ok(&spans, name), [1, 1], "{name}: {all:?}");
    }
}

#[test]
fn requests_in_a_tunnel_are_read_at_both_ends() {
    let Some(spans) = spans_of("requests_in_a_tunnel_are_read_at_both_ends", TUNNEL) else { return };
    let all: Vec<_> = spans.iter().map(|span| (&span.name, span.attr("wirespan.tap_side"))).collect();
    let connects = spans.iter().filter(|span| span.name.starts_with("CONNECT 127.0.0.1:")).count();
    assert_eq!(connects, 2, "both ends: {all:?}");
    // The client's, the server's, and those of the proxy, which moves the same bytes.
    for name in ["handshake", "GET /one", "GET /two"] {
        assert_eq!(ok(&spans, name), [2, 2], "{name}: {all:?}");
    }
}
