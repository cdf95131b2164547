#!/usr/bin/env python3
"""Holds half-open connections on every port of a server while spans are reported."""

import argparse
import resource
import socket
import tempfile
import time

from server import Server, verdict

BEGINNINGS = [
    b"",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: 9999999\r\n\r\n{",
]


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=1100, help="connections to each port")
    options.add_argument("--seconds", type=int, default=60)
    options = options.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as directory:
        server = Server(directory, before="ulimit -n 1024")
        held, answered, slowest, n = [], 0, 0.0, 1
        until = time.monotonic() + options.seconds
        while time.monotonic() < until:
            # Connections that were hung up on are replaced.
            for port in (server.ui, server.otlp, server.agents):
                for i in range(max(1, options.count // 10)):
                    try:
                        s = socket.create_connection(("127.0.0.1", port), 5)
                        s.sendall(BEGINNINGS[i % len(BEGINNINGS)])
                        held.append(s)
                    except OSError:
                        pass
            for s in held[: -3 * options.count]:
                s.close()
            del held[: -3 * options.count]
            began = time.monotonic()
            if server.report(n, 1000) == 200:
                answered += 1000
            n += 1000
            server.status()
            slowest = max(slowest, time.monotonic() - began)
        stored = server.status()["store"]["spans"]
        server.end()
    verdict(
        stored == answered and slowest < 10 and answered >= n - 1,
        f"{len(held)} connections held; {n - 1} spans reported, {answered} answered 200, {stored} stored; "
        f"the slowest report and status took {slowest:.2f} s",
    )


main()
