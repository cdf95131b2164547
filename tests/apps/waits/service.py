#!/usr/bin/env python3
"""A service whose requests spend their time in known ways, and say how much: one JSON line for each on standard output.

usage: service.py threads|loop PORT [LEAF_PORT]

Paths are /WHAT/MS/ID. `spin` runs for MS, `sleep` sleeps, `call` asks the leaf to sleep, `hold` sleeps with a lock and
`lock` waits for that lock; `mix` runs, sleeps and calls. `nap` (of a loop) lets others run for MS. All times are in
seconds, measured here.
"""

import asyncio
import http.client
import http.server
import json
import sys
import threading
import time

LOCK = threading.Lock()
LEAF = int(sys.argv[3]) if len(sys.argv) > 3 else 0


def spin(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def timed(do, *args):
    began = time.monotonic()
    do(*args)
    return time.monotonic() - began


def call(ms):
    leaf = http.client.HTTPConnection("127.0.0.1", LEAF)
    leaf.request("GET", f"/sleep/{ms}/leaf")
    leaf.getresponse().read()
    leaf.close()


def work(path):
    _, what, ms, _ = path.split("/")
    seconds, slept, called = int(ms) / 1000, 0.0, 0.0
    began, ran = time.monotonic(), time.thread_time()
    if what in ("spin", "mix"):
        spin(seconds)
    if what in ("sleep", "mix"):
        slept += timed(time.sleep, seconds)
    if what in ("call", "mix"):
        called = timed(call, ms)
    if what == "hold":
        with LOCK:
            slept += timed(time.sleep, seconds)
    if what == "lock":
        slept += timed(LOCK.acquire)
        LOCK.release()
    return {
        "path": path,
        "ran": time.thread_time() - ran,
        "slept": slept,
        "called": called,
        "took": time.monotonic() - began,
    }


def say(done):
    if LEAF or sys.argv[1] == "loop":
        print(json.dumps(done), flush=True)


class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        done = work(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
        say(done)

    def log_message(self, *_):
        pass


async def page(reader, writer):
    while line := await reader.readline():
        while (await reader.readline()).strip():
            pass
        path = line.split()[1].decode()
        began = time.monotonic()
        if "/nap/" in path:
            await asyncio.sleep(int(path.split("/")[2]) / 1000)
            done = {"path": path, "ran": 0.0, "slept": 0.0, "called": 0.0, "took": time.monotonic() - began}
        else:
            done = work(path)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        say(done)
    writer.close()


async def loop(port):
    server = await asyncio.start_server(page, "127.0.0.1", port)
    await server.serve_forever()


if sys.argv[1] == "loop":
    asyncio.run(loop(int(sys.argv[2])))
else:
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Page).serve_forever()
