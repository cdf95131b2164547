"""What all cases share: namespaces, small servers and clients, `wirespan packet` while they work, and the end.

A case prints a line for each phase, or one JSON line on --json. Exit code 0: the trouble was found, and mending it
helped; 1: not; 77: this machine lacks something. It touches only what it makes.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

LACKS = ("kind is unknown", "not permitted", "not supported", "Unknown device type", "Read-only file system")
# Answers (or only reads) messages at an address and port; works so many microseconds for each. It waits as an event
# loop does, because since Linux 6.18 a CPU limit holds a thread back only when it leaves the kernel.
SERVER = """
import select, socket, sys, threading, time
address, port, how, work_us = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
s = socket.create_server((address, port))
print('ready', flush=True)
def serve(c):
    poll = select.poll()
    poll.register(c, select.POLLIN)
    while poll.poll() and c.recv(1 << 16):
        until = time.thread_time_ns() + work_us * 1000
        while work_us and time.thread_time_ns() < until:
            pass
        if how == 'answer':
            c.send(b'y' * 10)
    c.close()
while True:
    c, _ = s.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
"""
# So many messages of 100 bytes, each after the answer to the one before.
ASK = """
import socket, sys, time
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=10)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for n in range(int(sys.argv[3])):
    s.sendall(b'x' * 100)
    s.recv(100)
    time.sleep(0.005)
"""
# Bytes without end, or so many MiB.
FILL = """
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=30)
print('ready', flush=True)
left = int(sys.argv[3]) * 16 if len(sys.argv) > 3 else -1
while left:
    s.sendall(b'z' * 65536)
    left -= 1
s.shutdown(socket.SHUT_WR)
s.recv(1)
"""


class Lacking(Exception):
    """The machine has not what the case needs."""


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    if done.returncode:
        text = f"{' '.join(words)}: {done.stderr.strip()}"
        raise Lacking(text) if any(word in text for word in LACKS) else SystemExit(text)
    return done.stdout


class Spaces:
    """Network namespaces, by a name in the case. `script`: lines of `ip`; `{name}` stands for a namespace."""

    # In a picture they have their short names, if nobody else has these.
    for_picture = False

    def __init__(self, names, script):
        self.names = {name: name if self.for_picture else f"wscase-{name}-{os.getpid()}" for name in names}
        self.script = script

    def __enter__(self):
        if taken := [name for name in self.names.values() if pathlib.Path("/run/netns", name).exists()]:
            raise SystemExit(f"the network namespace {taken[0]} is somebody else's")
        try:
            for name in self.names.values():
                run("ip", "netns", "add", name)
                run("ip", "-n", name, "link", "set", "lo", "up")
            for line in self.script:
                run("ip", *line.format(**self.names).split())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=30)

    def inside(self, space, *words):
        return ["ip", "netns", "exec", self.names[space], *words]

    def run(self, space, line):
        return run(*self.inside(space, *line.split()))

    @contextlib.contextmanager
    def started(self, args, ready=False):
        child = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            if ready and child.stdout.readline() != "ready\n":
                raise SystemExit(f"a program did not start: {args}")
            yield child
        finally:
            child.kill()
            child.wait()

    def python(self, space, script, *words, ready=False, cpu=None):
        pinned = [] if cpu is None else ["taskset", "-c", str(cpu)]
        args = [*pinned, sys.executable, "-c", script, *map(str, words)]
        return self.started(self.inside(space, *args), ready)

    def server(self, address, port, how="answer", work_us=0, space="server", cpu=None):
        return self.python(space, SERVER, address, port, how, work_us, ready=True, cpu=cpu)


def name(place):
    return f"{place['point']} {place['device']}".strip()


def wait_until(words, tracer):
    """Reads what wirespan says until it has said these words."""
    said = ""
    while words not in said:
        line = tracer.stderr.readline()
        if not line:
            raise SystemExit(f"wirespan ended: {said}")
        said += line


@contextlib.contextmanager
def traced(wirespan, spaces, program):
    """Runs a packet program meanwhile. The list that it gives has the JSON lines afterwards."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "program.yaml"
        path.write_text(f"{program}\nfor: 3m\n")
        out = (pathlib.Path(folder) / "out").open("w+")
        args = [wirespan, "packet", str(path), "--format", "json", "--netns", *spaces.names.values()]
        tracer = subprocess.Popen(args, stdout=out, stderr=subprocess.PIPE, text=True)
        try:
            wait_until("packets are seen", tracer)
            yield lines
            tracer.send_signal(signal.SIGTERM)
            tracer.communicate(timeout=100)
        finally:
            tracer.kill()
            tracer.wait()
        out.seek(0)
        lines += map(json.loads, out)


PICTURE = pathlib.Path(__file__).parents[2] / "ui/scripts/picture.mjs"
NO_RECEIVERS = '[serve]\notlp_grpc = ""\notlp_http = ""\n'


def picture(args, name, url, *words):
    """Takes the picture of a page: see ui/scripts/picture.mjs."""
    file = pathlib.Path(args.pictures) / f"{name}.png"
    subprocess.run(["node", PICTURE, url, file, "light", *words], check=True, timeout=100)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


@contextlib.contextmanager
def pictured(args, spaces, name, program, *words):
    """On --pictures, the page of packets runs the program meanwhile, and its picture is taken. `program` has no
    namespaces and no time."""
    if not args.pictures:
        yield
        return
    address = f"127.0.0.1:{free_port()}"
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as config, spaces.started(["sleep", "900"]) as target:
        config.write(NO_RECEIVERS)
        config.flush()
        up = [args.wirespan, "--config", config.name, "up", "--pid", str(target.pid), "--packet-programs"]
        tracer = subprocess.Popen([*up, "--ui", address], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            wait_until("Ctrl-C ends", tracer)
            chosen = f"{program}\nfor: 3m\n".replace("filter: {", f"filter: {{netns: [{', '.join(spaces.names)}], ")
            body = json.dumps({"program": chosen}).encode()
            json_body = {"content-type": "application/json"}
            request = urllib.request.Request(f"http://{address}/api/v1/packets", body, json_body)
            urllib.request.urlopen(request, timeout=20).close()
            yield
            # Until the last ways are known.
            time.sleep(4)
            picture(args, name, f"http://{address}/packets", *words)
        finally:
            tracer.terminate()
            tracer.communicate(timeout=60)


def ask(wirespan, spaces, address, port, messages, cpu=None):
    """Where messages to the server were, by `wirespan packet`: the whole way and its legs, in ns."""
    program = f"filter: {{protocol: tcp, destination_port: {port}}}\naction: [latency]"
    with traced(wirespan, spaces, program) as lines:
        with spaces.python("client", ASK, address, port, messages, cpu=cpu) as client:
            client.wait(timeout=150)
    legs = {f"{name(x['from'])} → {name(x['to'])}": x["times"] for x in lines if x["kind"] == "latency"}
    # A leg that few messages took is no part of the usual way.
    legs = {leg: times for leg, times in legs.items() if times["packets"] >= messages / 2}
    total = next(x["times"] for x in lines if x["kind"] == "total")
    return {"total": total, "legs": legs}


def longest(seen, time="p50_ns"):
    """The leg that took longest, and its share of all."""
    leg = max(seen["legs"], key=lambda leg: seen["legs"][leg][time])
    whole = sum(times[time] for times in seen["legs"].values())
    return {"longest": leg, "longest_ns": seen["legs"][leg][time], "share": seen["legs"][leg][time] / whole}


def main(doc, needs, phases, line, verdict):
    """`phases(args)` yields each phase's name and what was seen; `line(seen)` tells it; `verdict(found)`: whether the
    trouble was found and mended."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wirespan", default="target/release/wirespan", help="the program")
    parser.add_argument("--messages", type=int, default=400, help="in each phase")
    parser.add_argument("--json", action="store_true", help="JSON lines instead of a table")
    parser.add_argument("--pictures", help="folder for a picture of the page that shows the trouble; needs Chromium")
    args = parser.parse_args()
    Spaces.for_picture = bool(args.pictures)
    needs = ["ip", *needs, *(["node"] if args.pictures else [])]
    if missing := [tool for tool in needs if not shutil.which(tool)]:
        print(f"needs {missing[0]}")
        return 77
    found = {}
    try:
        for phase, seen in phases(args):
            found[phase] = seen
            told = json.dumps({"phase": phase, **seen}) if args.json else f"{phase:10} {line(seen)}"
            print(told, flush=True)
    except Lacking as why:
        print(why)
        return 77
    return 0 if verdict(found) else 1
