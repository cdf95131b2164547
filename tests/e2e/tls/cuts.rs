//! Libraries that use memory buffers: receives end anywhere, also within a header, and other sockets are read in
//! between.

use super::{certified, is_joined, run, script};
use crate::harness::{can_trace, has};

/// OpenSSL over memory buffers at both ends of one connection. Each round sends eight requests in one call. They are
/// received in pieces: the first pieces end after 1 to 4 bytes of a header, one more ends within the header. The
/// answers are sent and received likewise. The client makes its handshake by reading, as Node does; before its first
/// write it reads from a socket without TLS.
const PAIR: &str = r"
import socket, ssl, threading

class End:
    def __init__(self, sock, context, server, step):
        self.sock, self.inside, self.outside = sock, ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.inside, self.outside, server_side=server)
        while True:
            try:
                step(self.tls)
                break
            except ssl.SSLWantReadError:
                self.flush()
                if self.tls.cipher():
                    break
                self.inside.write(sock.recv(65536))
        self.flush()

    def flush(self):
        if self.outside.pending:
            self.sock.sendall(self.outside.read())

    def send(self, messages):
        for message in messages:
            self.tls.write(message)
        self.flush()

    # So many messages, a record each, received by calls of these sizes, and what is left by a last one.
    def receive(self, count, sizes):
        got, sizes = [], list(sizes)
        while len(got) < count:
            self.inside.write(self.sock.recv(sizes.pop(0) if sizes else 65536))
            try:
                while True:
                    got.append(self.tls.read(16384))
            except ssl.SSLWantReadError:
                pass
        return got

ASK = lambda name: b'GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n' % name.encode()
ANSWER = b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
MORE = 5 + 1 + 16
ROUNDS = [['cut/%d/%d' % (cut, i) for i in range(8)] for cut in (1, 2, 3, 4)]
PLAN = [(names, lambda one, cut=cut: [3 * one + cut, 5 - cut, 2 * one - 3, 1, 1, 1]) for cut,
    names in enumerate(ROUNDS, 1)]

listener = socket.create_server(('127.0.0.1', 0))
def serve():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain('cert.pem', 'key.pem')
    end = End(listener.accept()[0], context, True, lambda tls: tls.do_handshake())
    for names, sizes in PLAN:
        end.send([ANSWER for _ in end.receive(len(names), sizes(len(ASK(names[0])) + MORE))])

thread = threading.Thread(target=serve)
thread.start()
context = ssl.create_default_context(cafile='cert.pem')
context.check_hostname = False
end = End(socket.create_connection(listener.getsockname()), context, False, lambda tls: tls.read(1))
other = socket.create_server(('127.0.0.1', 0))
mine, theirs = socket.create_connection(other.getsockname()), other.accept()[0]
theirs.sendall(b'220 ready')
assert mine.recv(100)
for names, sizes in PLAN:
    end.send([ASK(name) for name in names])
    assert end.receive(len(names), sizes(len(ANSWER) + MORE)) == [ANSWER] * len(names)
thread.join()
";

#[test]
fn what_is_received_in_pieces_and_between_keeps_its_place() {
    let test = "tls_cuts";
    if !can_trace(test) || !has(test, &["python3", "openssl"]) {
        return;
    }
    let dir = certified();
    let program = script(dir.path(), "cuts.py", PAIR);
    let spans = run(dir.path(), &["python3", &program]);
    for cut in 1..5 {
        for i in 0..8 {
            is_joined(&spans, &format!("GET /cut/{cut}/{i}"), "200");
        }
    }
}
