#!/usr/bin/env python3
"""Clients and servers for context injection. What a server received is written to a file: the truth.

propagate.py calls TRUTH          a chain, an own context, many writes, keep-alive, pipelining
propagate.py soak N               random requests in random writes; fails if one byte is wrong. 0: until stdin ends
                                  (WIRESPAN_SOAK_BYTES=1e10: at least so many bytes)
"""

import hashlib
import http.client
import http.server
import json
import os
import random
import select
import signal
import socket
import sys
import time

# WIRESPAN_SOAK_BYTES: so many at least are sent, and some requests are large.
LEAST = int(float(os.environ.get("WIRESPAN_SOAK_BYTES", 0)))
LARGE = (4_000_000, 16_000_000) if LEAST else ()
OWN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        received = {
            "server": self.server.label,
            "target": self.path,
            "traceparent": self.headers.get_all("traceparent") or [],
            "tracestate": self.headers.get_all("tracestate") or [],
            "host": self.headers.get_all("host") or [],
            "body": hashlib.sha256(body).hexdigest(),
            "length": len(body),
        }
        os.write(self.server.truth, (json.dumps(received) + "\n").encode())
        if self.server.behind:
            for n in range(2):
                call(self.server.behind, f"{self.path}/{n}")
        answer = b"ok " + self.path.encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET


def serve(label, truth, behind=None):
    """Starts a service in a process of its own; returns its port and its pid."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.label, server.behind, server.truth = label, behind, truth
    pid = os.fork()
    if not pid:
        server.serve_forever()
    server.socket.close()
    return server.server_address[1], pid


def call(port, path, body=None, headers=()):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("POST" if body else "GET", path, body, dict(headers))
    answer = connection.getresponse().read()
    assert answer == b"ok " + path.encode(), answer
    connection.close()


def answers(s, n):
    got = b""
    while got.count(b"ok /") < n:
        piece = s.recv(65536)
        assert piece, got
        got += piece
    return got


def calls(truth):
    truth = os.open(truth, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    back, back_pid = serve("back", truth)
    front, front_pid = serve("front", truth, back)
    call(front, "/chain")
    call(back, "/own", headers={"X-A": "1", "tracestate": "a=b", "TraceParent": OWN}.items())
    call(front, "/unsampled", headers={"traceparent": OWN}.items())
    call(back, "/body", body=bytes(range(256)) * 8)
    connection = http.client.HTTPConnection("127.0.0.1", back, timeout=20)
    for n in range(4):
        connection.request("GET", f"/alive/{n}")
        connection.getresponse().read()
    connection.close()
    with socket.create_connection(("127.0.0.1", back)) as s:
        for piece in (b"GET /wri", b"tes HTTP/1.1\r\nHo", b"st: x\r\n", b"traceparent: " + OWN.encode(), b"\r\n\r\n"):
            s.sendall(piece)
            time.sleep(0.01)
        answers(s, 1)
    with socket.create_connection(("127.0.0.1", back)) as s:
        s.sendall(b"".join(b"GET /piped/%d HTTP/1.1\r\nHost: x\r\n\r\n" % n for n in range(3)))
        answers(s, 3)
    os.kill(front_pid, signal.SIGKILL)
    os.kill(back_pid, signal.SIGKILL)


def request(r):
    """A request, or something that only looks like one."""
    kind = r.random()
    body = r.randbytes(r.choice((0, 0, 10, 1000, 5000, 70000, 300000, *LARGE)))
    lines = [b"POST /soak HTTP/1.1", b"Host: x", b"Content-Length: %d" % len(body)]
    lines += [b"X-%d: %s" % (n, b"v" * r.randrange(200)) for n in range(r.choice((0, 1, 5, 40)))]
    if kind < 0.1:
        lines.insert(r.randrange(1, len(lines)), b"traceparent: " + OWN.encode())
    head = b"\r\n".join(lines) + b"\r\n\r\n"
    return r.randbytes(len(head)) + body if kind > 0.9 else head + body


def send(s, data, r):
    """Sends in writes of random length. Bytes that the socket does not take are sent again, as a program would do."""
    at = 0
    whole = r.random() < 0.5
    while at < len(data):
        size = len(data) if whole else r.choice((1, 7, 100, 1500, 4096, 20000, *(LARGE and (1 << 20,))))
        select.select([], [s], [])
        try:
            at += s.send(data[at : at + size])
        except BlockingIOError:
            pass


def echo(listener, r):
    """Sends each connection's bytes back when they have ended. A separate process, so that it wakes no thread of this
    one.
    """
    while True:
        server, _ = listener.accept()
        got = bytearray()
        sizes = (65536, 1 << 20) if LARGE and r.random() < 0.7 else (100, 5000, 65536, 1 << 20)
        while piece := server.recv(r.choice(sizes)):
            got += piece
        server.sendall(got)
        server.close()


def one(listener, r):
    data = request(r)
    client = socket.socket()
    if r.random() < 0.3 and len(data) < 1_000_000:  # a large one would wait for hours on such a buffer
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    client.connect(listener.getsockname())
    client.setblocking(False)
    send(client, data, r)
    client.shutdown(socket.SHUT_WR)
    client.setblocking(True)
    got = bytearray()
    while piece := client.recv(1 << 20):
        got.extend(piece)
    client.close()
    line = data.find(b"\n") + 1
    injected = len(got) == len(data) + 70 and got[line : line + 16] == b"traceparent: 00-"
    if injected:
        del got[line : line + 70]
    assert bytes(got) == data, f"{len(got)} bytes arrived of {len(data)}, and not the same"
    return injected, len(data)


def soak(limit):
    seed = int(os.environ.get("SEED", time.time_ns() % 1000000))
    r = random.Random(seed)
    limit = int(limit)
    listener = socket.create_server(("127.0.0.1", 0))
    if LARGE:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
    server = os.fork()
    if not server:
        echo(listener, r)
    injected = bytes_sent = n = 0
    while (n < limit or bytes_sent < LEAST) if limit else not select.select([sys.stdin], [], [], 0)[0]:
        yes, length = one(listener, r)
        injected, bytes_sent, n = injected + yes, bytes_sent + length, n + 1
        if yes and injected % 5 == 0:
            print("injected", bytes_sent, flush=True)
    os.kill(server, signal.SIGKILL)
    print(json.dumps({"seed": seed, "connections": n, "injected": injected, "bytes": bytes_sent}), flush=True)


if __name__ == "__main__":
    {"calls": calls, "soak": soak}[sys.argv[1]](sys.argv[2])
