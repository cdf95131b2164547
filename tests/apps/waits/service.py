#!/usr/bin/env python3
"""A service whose requests spend their time in known ways, and say how much: one JSON line for each on standard output.

usage: service.py threads|loop PORT [LEAF_PORT [DIR]]

Paths are /WHAT/MS/ID. `spin` runs for MS, `sleep` sleeps, `call` asks the leaf to sleep, `hold` sleeps with a lock and
`lock` waits for that lock; `mix` runs, sleeps and calls. `keep` writes to a file for MS with the lock, each time until
the disk has it, and `convoy` waits for a lock whose holder waits for that one. `disk` writes in the same way without a
lock, `pipe` and `socket` wait for bytes that another thread sends after MS, `child` waits for a process that takes MS.
`fail` sleeps, and answers that the server has failed. `pool` asks the leaf by the only connection that there is, `dns`
looks the name wMS.test up. `nap` (of a loop) lets others run for MS. All times are in seconds, measured here; `queued`
is the kernel's own. `waits` are those of `disk`, `pool` and `dns`: the kind, what ended it, and what that thread did
meanwhile.
"""

import asyncio
import http.client
import http.server
import json
import os
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time

THERE = tempfile.TemporaryDirectory(dir=os.environ.get("WAITS_DIR"))
LOG = open(f"{THERE.name}/app.log", "wb")
LOCK = threading.Lock()
SECOND = threading.Lock()
LEAF = int(sys.argv[3]) if len(sys.argv) > 3 else 0
POOL = queue.Queue()
POOL.put(http.client.HTTPConnection("127.0.0.1", LEAF))


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


def write(seconds):
    """Returns for how long it waited for the disk."""
    until, waited = time.monotonic() + seconds, 0.0
    while time.monotonic() < until:
        LOG.seek(0)
        LOG.write(bytes(1 << 20))
        LOG.flush()
        waited += timed(os.fsync, LOG.fileno())
    return waited


def wait(kind, by, took, held=""):
    return {"kind": kind, "by": by, "held": held, "took": took}


def call_by_pool(ms):
    waits = []
    named("user")
    try:
        leaf = POOL.get_nowait()
    except queue.Empty:
        began = time.monotonic()
        leaf = POOL.get()
        waits.append(wait("lock", "thread user", time.monotonic() - began, "socket "))
    began = time.monotonic()
    leaf.request("GET", f"/sleep/{ms}/leaf")
    leaf.getresponse().read()
    POOL.put(leaf)
    return [*waits, wait("socket", "network", time.monotonic() - began)]


def told(what, ms):
    """Waits that are told one by one."""
    if what == "disk":
        return [wait("disk", "disk", write(ms / 1000))]
    if what == "pool":
        return call_by_pool(ms)
    if what == "dns":
        return [wait("socket", "network", timed(socket.getaddrinfo, f"w{ms}.test", None))]
    return []


def receive(ends, seconds):
    """Waits at the first end for what another thread puts into the second one."""
    read, put = ends

    def later():
        time.sleep(seconds)
        os.write(put, b"x")

    thread = threading.Thread(target=later)
    thread.start()
    began = time.monotonic()
    os.read(read, 1)
    waited = time.monotonic() - began
    thread.join()
    return waited


def named(name):
    """The name of this thread, as the kernel has it."""
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as comm:
        comm.write(name)


def other_work(what, seconds):
    if what == "keep":
        named("keeper")
        with LOCK:
            return timed(write, seconds)
    if what == "convoy":
        named("middle")
        with SECOND:
            waited = timed(LOCK.acquire)
            LOCK.release()
            return waited
    if what == "end":
        waited = timed(SECOND.acquire)
        SECOND.release()
        return waited
    if what == "pipe":
        return receive(os.pipe(), seconds)
    if what == "socket":
        pair = socket.socketpair()
        return receive([end.fileno() for end in pair], seconds)
    if what == "child":
        return timed(subprocess.run, ["sleep", str(seconds)])
    return 0.0


def queued():
    """How long this thread has been ready without a processor so far."""
    with open(f"/proc/self/task/{threading.get_native_id()}/schedstat") as clocks:
        return int(clocks.read().split()[1]) / 1e9


def work(path):
    _, what, ms, _ = path.split("/")
    seconds, slept, called = int(ms) / 1000, 0.0, 0.0
    began, ran, ready = time.monotonic(), time.thread_time(), queued()
    if what in ("spin", "mix"):
        spin(seconds)
    if what in ("sleep", "mix", "fail"):
        slept += timed(time.sleep, seconds)
    if what in ("call", "mix"):
        called = timed(call, ms)
    if what == "hold":
        with LOCK:
            slept += timed(time.sleep, seconds)
    if what == "lock":
        slept += timed(LOCK.acquire)
        LOCK.release()
    slept += other_work(what, seconds)
    waits = told(what, int(ms))
    slept += sum(waited["took"] for waited in waits)
    return {
        "path": path,
        "waits": waits,
        "ran": time.thread_time() - ran,
        "queued": queued() - ready,
        "slept": slept,
        "called": called,
        "took": time.monotonic() - began,
    }


def say(done):
    if LEAF or sys.argv[1] == "loop":
        # In one piece: several threads say something.
        sys.stdout.write(json.dumps(done) + "\n")
        sys.stdout.flush()


class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        done = work(self.path)
        self.send_response(500 if self.path.startswith("/fail/") else 200)
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
            nothing = dict.fromkeys(("ran", "queued", "slept", "called"), 0.0)
            done = {"path": path, **nothing, "took": time.monotonic() - began}
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
