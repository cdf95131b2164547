#!/usr/bin/env python3
"""Requests on kept connections, by clients of several languages. What the server received is written to a file.

kept.py PORT TRUTH client COMMAND    runs a client with the server's address as its last argument
kept.py PORT TRUTH front COMMAND     starts a service, which calls the server, and calls the service
kept.py client ADDRESS               the client in Python: head and body of a request in a write each
"""

import hashlib
import http.client
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading

ROUNDS = 6
LENGTHS = (0, 100, 3000, 20000)


def head_of(reader):
    lines = []
    while (line := reader.readline()) not in (b"\r\n", b""):
        lines.append(line)
    return lines


def value_of(lines, name):
    return [line.split(b":", 1)[1].strip() for line in lines if line.lower().startswith(name + b":")]


def talk(connection, number, truth):
    """Answers every request of a connection with a body whose length depends on the path."""
    reader = connection.makefile("rb")
    while lines := head_of(reader):
        lengths = value_of(lines, b"content-length")
        body = reader.read(int(lengths[0])) if lengths else b""
        path = lines[0].split()[1]
        received = {
            "connection": number,
            "target": path.decode(),
            "contexts": [value.decode() for value in value_of(lines, b"traceparent")],
            "rest": b"".join(line for line in lines if not line.startswith(b"traceparent:")).decode(),
            "body": hashlib.sha256(body).hexdigest(),
            "length": len(body),
        }
        os.write(truth, (json.dumps(received) + "\n").encode())
        answer = path * (1 + len(body) % 1000)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(answer), answer))


def serve(listener, truth):
    number = 0
    while True:
        connection, _ = listener.accept()
        number += 1
        threading.Thread(target=talk, args=(connection, number, truth), daemon=True).start()


def client(address):
    connection = http.client.HTTPConnection(address, timeout=20)
    for n in range(ROUNDS):
        for length in LENGTHS:
            path = f"/{n}/{length}"
            connection.request("POST" if length else "GET", path, b"b" * length if length else None)
            answer = connection.getresponse().read()
            assert answer.replace(b"/back", b"") == path.encode() * (1 + length % 1000), (path, len(answer))
    connection.close()


def main(port, truth, kind, command):
    listener = socket.create_server(("127.0.0.1", int(port)))
    server = os.fork()
    if not server:
        serve(listener, os.open(truth, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
    listener.close()
    command = [*shlex.split(command), f"127.0.0.1:{port}"]
    try:
        if kind == "client":
            subprocess.run(command, check=True, timeout=60)
            return
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as front:
            try:
                client(f"127.0.0.1:{front.stdout.readline().strip()}")
            finally:
                front.kill()
    finally:
        os.kill(server, signal.SIGKILL)


if __name__ == "__main__":
    client(sys.argv[2]) if sys.argv[1] == "client" else main(*sys.argv[1:])
