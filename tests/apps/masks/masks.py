#!/usr/bin/env python3
"""Speaks HTTP, Redis, Memcached and PostgreSQL with itself, each with secrets (canary…) beside what a configuration may
let through (allowed…). Servers are threads here: what is tested is what a tracer writes, not how servers answer.
"""

import socket
import struct
import threading


def exchange(request, answers):
    """One connection: each of the client's pieces is answered with the server's."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = listener.accept()
        with connection:
            for piece, answer in zip(request, answers):
                seen = b""
                while len(seen) < len(piece):
                    seen += connection.recv(65536)
                connection.sendall(answer)

    server = threading.Thread(target=serve)
    server.start()
    with socket.create_connection(listener.getsockname()) as connection:
        for piece, answer in zip(request, answers):
            connection.sendall(piece)
            seen = b""
            while len(seen) < len(answer):
                seen += connection.recv(65536)
    server.join()


def http():
    request = (
        b"GET /orders?page=allowed-page&token=canary-token HTTP/1.1\r\nHost: shop\r\nX-Tenant: allowed-tenant\r\n"
        b"User-Agent: agent-of-the-test\r\nAuthorization: Bearer canary-auth\r\nCookie: id=canary-cookie\r\n\r\n"
    )
    body = b"canary-body"
    head = b"HTTP/1.1 200 OK\r\nServer-Timing: allowed-timing\r\nSet-Cookie: canary-set\r\nContent-Length: %d\r\n\r\n"
    exchange([request], [head % len(body) + body])


def command(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def redis():
    commands = [
        command(b"AUTH", b"canary-password"),
        command(b"SET", b"allowed:key", b"canary-value"),
        command(b"GET", b"allowed:key"),
    ]
    exchange(commands, [b"+OK\r\n", b"+OK\r\n", b"$12\r\ncanary-value\r\n"])


def memcached():
    exchange(
        [b"set allowed:cached 0 0 12\r\ncanary-value\r\n", b"get allowed:cached\r\n"],
        [b"STORED\r\n", b"VALUE allowed:cached 0 12\r\ncanary-value\r\nEND\r\n"],
    )


def message(kind, body):
    return kind + struct.pack(">I", len(body) + 4) + body


def postgresql():
    parameters = b"user\0canary-user\0database\0shop\0\0"
    startup = struct.pack(">II", len(parameters) + 8, 196608) + parameters
    ready = message(b"Z", b"I")
    queries = [
        b"INSERT INTO orders (name) VALUES ('allowed-row')\0",
        b"ALTER USER shop PASSWORD 'canary-password'\0",
        b"UPDATE accounts SET token = 'canary-token' WHERE id = 1\0",
    ]
    answers = [message(b"C", b"INSERT 0 1\0"), message(b"C", b"ALTER ROLE\0"), message(b"C", b"UPDATE 1\0")]
    exchange(
        [startup] + [message(b"Q", q) for q in queries],
        [message(b"R", struct.pack(">I", 0)) + ready] + [a + ready for a in answers],
    )


http()
redis()
memcached()
postgresql()
