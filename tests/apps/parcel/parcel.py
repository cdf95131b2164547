#!/usr/bin/env python3
"""A server and a client of "parcel", the protocol of the example plug-in (crates/plugin/examples/parcel.wat).

usage: parcel.py TRUTH [CONNECTIONS]

The server is a child. TRUTH gets a JSON line for each request and event that the client made: connection, operation,
target, status (null for events). Payloads hold the word zq-payload-secret, which must be in no output of a tracer.
"""

import json
import os
import socket
import sys
import threading

SECRET = b"zq-payload-secret "
STATUS = {"store": 0, "fetch": 0, "return": 2}


def leb(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out + bytes([n]))


def frame(kind, number, rest):
    body = bytes([kind]) + leb(number) + rest
    return b"\xb7" + leb(len(body)) + body


def text(s):
    return bytes([len(s)]) + s.encode()


class Reader:
    """Frames of one side."""

    def __init__(self, connection):
        self.connection, self.buffer = connection, b""

    def take(self, n):
        while len(self.buffer) < n:
            more = self.connection.recv(65536)
            if not more:
                raise EOFError
            self.buffer += more
        taken, self.buffer = self.buffer[:n], self.buffer[n:]
        return taken

    def leb(self):
        n = shift = 0
        while True:
            byte = self.take(1)[0]
            n |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return n

    def frame(self):
        assert self.take(1) == b"\xb7"
        body = Reader(None)
        body.buffer = self.take(self.leb())
        return body.take(1)[0], body.leb(), body


def serve_one(connection):
    with connection:
        reader, names, held = Reader(connection), {}, None
        try:
            assert reader.take(5) == b"PRCL\x01"
            while True:
                kind, number, body = reader.frame()
                code = body.take(1)[0]
                if code & 0x80:
                    names[code & 7] = body.take(body.take(1)[0]).decode()
                name = names[code & 7]
                target = body.take(body.take(1)[0]).decode()
                if kind == 3:
                    continue
                status = 1 if target == "nowhere" else STATUS[name]
                answer = frame(2, number, bytes([status]) + SECRET * (200 if name == "fetch" else 1))
                # Answers do not come in the order of the requests: of two that come together, the second is answered
                # first.
                if target.startswith("slow"):
                    held = answer
                    continue
                connection.sendall(answer + (held or b""))
                held = None
        except EOFError:
            pass


def serve(listener):
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve_one, args=(connection,), daemon=True).start()


def talk(port, n, truth):
    numbers = {}

    def ask(number, name, target, size=1, event=False):
        if name in numbers:
            operation = bytes([numbers[name]])
        else:
            numbers[name] = len(numbers)
            operation = bytes([0x80 | numbers[name]]) + text(name)
        status = None if event else 1 if target == "nowhere" else STATUS[name]
        truth.append({"connection": n, "operation": name, "target": target, "status": status})
        return frame(3 if event else 1, 0 if event else number, operation + text(target) + SECRET * size)

    with socket.create_connection(("127.0.0.1", port)) as connection:
        reader = Reader(connection)
        # One call with the hello and the first request; a payload of several calls; two requests at once; an event.
        connection.sendall(b"PRCL\x01" + ask(1, "store", f"p-{n}"))
        assert reader.frame()[1] == 1
        connection.sendall(ask(2, "store", "large", size=2_000))
        assert reader.frame()[1] == 2
        connection.sendall(ask(3, "fetch", "slow-one") + ask(4, "fetch", "quick"))
        assert [reader.frame()[1], reader.frame()[1]] == [4, 3]
        connection.sendall(ask(0, "track", "somewhere", event=True))
        connection.sendall(ask(5, "fetch", "nowhere"))
        assert reader.frame()[1] == 5
        connection.sendall(ask(6, "return", f"p-{n}"))
        assert reader.frame()[1] == 6


def main():
    truth_file, connections = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    port = listener.getsockname()[1]
    child = os.fork()
    if child == 0:
        serve(listener)
    try:
        truth = []
        for n in range(connections):
            talk(port, n, truth)
        with open(truth_file, "w") as file:
            file.writelines(json.dumps(line) + "\n" for line in truth)
    finally:
        os.kill(child, 15)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
