#!/usr/bin/env python3
"""A service with spans of an SDK, asked for requests whose time goes known ways; writes to TRUTH what it measured.

usage: run.py own|sdk|COMMAND OTLP_ENDPOINT TRUTH CASE…

`own` and `sdk` are the service below, with either of tracer.py. COMMAND is one like it in another language, with
OpenTelemetry's SDK for that: service.cc, Service.java, go/main.go.

A line of TRUTH is a span: its id, its case, and in seconds how long its thread ran, slept and waited for calls in it.

- `carried`: the request says its trace.
- `process`: it does not, and the service makes no call: only the process and the time tell the request of its spans.
- `called`: it does not, and the service does not tell its process id; its call carries the trace.
- `job`: a thread in the background, whose spans tell its id.
- `published`: two requests at once, which do not say their traces, and make no call; the service tells neither its
  process id nor its threads'. It publishes in which span each thread is, by the library SDK_CONTEXT (context.c).
"""

import http.client
import http.server
import json
import os
import pathlib
import shlex
import subprocess
import sys
import threading
import time

import tracer

MS = 20


def spin(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


class Clock:
    """What a thread did within a span."""

    def __init__(self, case, name):
        self.said = {"case": case, "name": name, "slept": 0.0, "called": 0.0}
        self.began, self.ran = time.monotonic(), time.thread_time()

    def timed(self, what, do, *args):
        began = time.monotonic()
        do(*args)
        self.said[what] += time.monotonic() - began

    def end(self, span):
        self.said.update(span=span, ran=time.thread_time() - self.ran, took=time.monotonic() - self.began)
        sys.stdout.write(json.dumps(self.said) + "\n")
        sys.stdout.flush()


def span_of_work(spans, case, name, attributes=None):
    """A span within the present one: it sleeps, it runs, or it does both."""
    clock = Clock(case, name)
    with spans.span(name, attributes=attributes) as span:
        if name != "spin":
            clock.timed("slept", time.sleep, MS / 1000)
        if name != "sleep":
            spin(MS / 1000)
    clock.end(span)


def get(port, path, headers=None):
    client = http.client.HTTPConnection("127.0.0.1", port)
    client.request("GET", path, headers=headers or {})
    client.getresponse().read()
    client.close()


def call(spans, case, port):
    clock = Clock(case, "call")
    with spans.span("call", tracer.CLIENT) as span:
        headers = {}
        spans.inject(headers)
        clock.timed("called", get, port, f"/leaf/{MS}", headers)
    clock.end(span)


def job(spans, port, begins):
    """The messages before and after tell where its thread's clocks stood."""
    begins.wait()
    get(port, "/leaf/0")
    span_of_work(spans, "job", "both", {"thread.id": threading.get_native_id()})
    get(port, "/leaf/0")


def serve(which, endpoint, name, leaf):
    spans = tracer.tracer(which, endpoint, name, with_pid=name != "called")
    jobs = []

    class Page(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            _, case, *_ = self.path.split("/")
            if case == "job":
                answered = threading.Event()
                jobs.append(threading.Thread(target=job, args=(spans, leaf, answered)))
                jobs[-1].start()
                self.answer()
                answered.set()
                return
            clock = Clock(case, "request")
            with spans.span(f"GET {self.path}", tracer.SERVER, self.headers) as span:
                for name in ("sleep", "spin", "both"):
                    span_of_work(spans, case, name)
                if case in ("called", "warm"):
                    call(spans, case, leaf)
                self.answer()
            clock.end(span)

        def answer(self):
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    print(server.server_port, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
    for thread in jobs:
        thread.join()
    spans.flush()


def serve_leaf():
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            time.sleep(int(self.path.split("/")[2]) / 1000)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


class Service:
    def __init__(self, which, endpoint, name, leaf):
        own = [sys.executable, __file__, "serve", which]
        command = [*(own if which in ("own", "sdk") else shlex.split(which)), endpoint, name, str(leaf)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def end(self):
        said, _ = self.process.communicate("")
        assert self.process.returncode == 0
        return said


def main(which, endpoint, truth, *cases):
    leaf = serve_leaf()
    service = Service(which, endpoint, "with-pid", leaf)
    quiet = Service(which, endpoint, "called", leaf)
    # What a service does once only, it does now; Java compiles what it runs often.
    for asked in (service, quiet):
        for _ in range(5):
            get(asked.port, "/warm/1")
    for case in cases:
        headers = {"traceparent": f"00-{os.urandom(16).hex()}-{os.urandom(8).hex()}-01"} if case == "carried" else {}
        asked = quiet if case in ("called", "published") else service
        users = [
            threading.Thread(target=get, args=(asked.port, f"/{case}/{n}", headers))
            for n in range(2 if case == "published" else 1)
        ]
        for user in users:
            user.start()
        for user in users:
            user.join()
    said = (service.end() + quiet.end()).splitlines(keepends=True)
    pathlib.Path(truth).write_text("".join(line for line in said if json.loads(line)["case"] != "warm"))


if sys.argv[1] == "serve":
    serve(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
else:
    main(*sys.argv[1:])
