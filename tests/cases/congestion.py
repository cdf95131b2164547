#!/usr/bin/env python3
"""Congestion at the port of a switch (vNetTracer's case I), found by the time between the points of a packet's way.

A client and a server talk through a bridge. Its port to the server sends 100 Mbit/s (tbf in place of Open vSwitch's
policing). A second client then fills this port. Three phases: the port is quiet; it is congested; it is mended (htb,
with a class of its own for the small messages). `wirespan packet` says each time where the small messages waited.

Prints a table, and one JSON line for each phase on --json. Exit code 0: the port was found, and mending it helped;
1: not; 77: this machine lacks something. Touches only namespaces that it makes.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

MESSAGES, BULK = 7101, 7102
SERVER = """
import socket, sys, threading
s = socket.create_server(('10.217.1.2', int(sys.argv[1])))
print('ready', flush=True)
def serve(c):
    while c.recv(1 << 16):
        if sys.argv[2] == 'answer':
            c.send(b'y' * 10)
while True:
    c, _ = s.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
"""
ASK = """
import socket, sys, time
s = socket.create_connection(('10.217.1.2', int(sys.argv[1])), timeout=10)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for n in range(int(sys.argv[2])):
    s.sendall(b'x' * 100)
    s.recv(100)
    time.sleep(0.005)
"""
FILL = """
import socket, sys
s = socket.create_connection(('10.217.1.2', int(sys.argv[1])), timeout=30)
print('ready', flush=True)
while True:
    s.sendall(b'z' * 65536)
"""


class Lacking(Exception):
    """The machine has not what the case needs."""


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    if done.returncode:
        text = f"{' '.join(words)}: {done.stderr.strip()}"
        lacks = ("kind is unknown", "not permitted", "not supported", "Unknown device type")
        raise Lacking(text) if any(word in text for word in lacks) else SystemExit(text)


class Spaces:
    """client and other client — bridge — server, each in a namespace of its own."""

    def __init__(self):
        self.names = {name: f"wscase-{name}-{os.getpid()}" for name in ("client", "other", "switch", "server")}

    def __enter__(self):
        for name in self.names.values():
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        switch = self.names["switch"]
        run("ip", "-n", switch, "link", "add", "name", "br0", "type", "bridge")
        run("ip", "-n", switch, "link", "set", "br0", "up")
        for name, port, address in (("client", "portc", 1), ("server", "ports", 2), ("other", "porto", 3)):
            space = self.names[name]
            peer = ("peer", "name", "eth0", "netns", space)
            run("ip", "-n", switch, "link", "add", "name", port, "type", "veth", *peer)
            run("ip", "-n", switch, "link", "set", "dev", port, "master", "br0", "up")
            run("ip", "-n", space, "addr", "add", f"10.217.1.{address}/24", "dev", "eth0")
            run("ip", "-n", space, "link", "set", "eth0", "up")
        return self

    def __exit__(self, *_):
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=30)

    def tc(self, *words):
        run("ip", "netns", "exec", self.names["switch"], "tc", *words)

    @contextlib.contextmanager
    def python(self, space, script, *words, ready=False):
        args = ["ip", "netns", "exec", self.names[space], sys.executable, "-c", script, *map(str, words)]
        child = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            if ready and child.stdout.readline() != "ready\n":
                raise SystemExit(f"a program in {space} did not start")
            yield child
        finally:
            child.kill()
            child.wait()


def name(place):
    return f"{place['point']} {place['device']}".strip()


def measure(wirespan, spaces, messages):
    """Where the messages were, by `wirespan packet`: the time of the whole way, and of each leg (p50, ns)."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "program.yaml"
        program.write_text(f"filter: {{protocol: tcp, destination_port: {MESSAGES}}}\naction: [latency]\nfor: 2m\n")
        args = [wirespan, "packet", str(program), "--format", "json", "--netns", *spaces.names.values()]
        tracer = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            for line in tracer.stderr:
                if "packets are seen" in line:
                    break
            with spaces.python("client", ASK, MESSAGES, messages) as client:
                client.wait(timeout=100)
            tracer.send_signal(signal.SIGTERM)
            out, _ = tracer.communicate(timeout=100)
        finally:
            tracer.kill()
            tracer.wait()
    lines = [json.loads(line) for line in out.splitlines()]
    legs = {f"{name(x['from'])} → {name(x['to'])}": x["times"] for x in lines if x["kind"] == "latency"}
    # A leg that few messages took is no part of the usual way.
    legs = {leg: times["p50_ns"] for leg, times in legs.items() if times["packets"] >= messages / 2}
    total = next(x["times"] for x in lines if x["kind"] == "total")
    return {"total_p50_ns": total["p50_ns"], "total_p99_ns": total["p99_ns"], "legs": legs}


def congest(spaces):
    spaces.tc("qdisc", "add", "dev", "ports", "root", *"tbf rate 100mbit burst 32kb limit 1mb".split())


def mend(spaces):
    spaces.tc("qdisc", "del", "dev", "ports", "root")
    spaces.tc("qdisc", "add", "dev", "ports", "root", "handle", "1:", *"htb default 20".split())
    for words in ("classid 1:10 htb rate 10mbit ceil 100mbit prio 0", "classid 1:20 htb rate 90mbit prio 1"):
        spaces.tc("class", "add", "dev", "ports", "parent", "1:", *words.split())
    match = f"protocol ip u32 match ip dport {MESSAGES} 0xffff flowid 1:10"
    spaces.tc("filter", "add", "dev", "ports", "parent", "1:", *match.split())


def phases(wirespan, messages):
    with Spaces() as spaces:
        congest(spaces)
        with contextlib.ExitStack() as stack:
            stack.enter_context(spaces.python("server", SERVER, MESSAGES, "answer", ready=True))
            stack.enter_context(spaces.python("server", SERVER, BULK, "read", ready=True))
            yield "quiet", measure(wirespan, spaces, messages)
            stack.enter_context(spaces.python("other", FILL, BULK, ready=True))
            time.sleep(1)
            yield "congested", measure(wirespan, spaces, messages)
            mend(spaces)
            time.sleep(1)
            yield "mended", measure(wirespan, spaces, messages)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wirespan", default="target/release/wirespan", help="the program")
    parser.add_argument("--messages", type=int, default=400, help="in each phase")
    parser.add_argument("--json", action="store_true", help="JSON lines instead of a table")
    args = parser.parse_args()
    if missing := [tool for tool in ("ip", "tc") if not shutil.which(tool)]:
        print(f"needs {missing[0]}")
        return 77
    found = {}
    try:
        for phase, seen in phases(args.wirespan, args.messages):
            leg, took = max(seen["legs"].items(), key=lambda item: item[1])
            seen |= {"phase": phase, "longest": leg, "share": took / sum(seen["legs"].values())}
            found[phase] = seen
            if args.json:
                print(json.dumps(seen), flush=True)
                continue
            times = f"{seen['total_p50_ns'] / 1e3:9.0f} µs {seen['total_p99_ns'] / 1e3:9.0f} µs"
            print(f"{phase:10} {times}   {leg}: {took / 1e3:.0f} µs, {seen['share']:.0%}", flush=True)
    except Lacking as why:
        print(why)
        return 77
    slow, mended = found["congested"], found["mended"]
    located = slow["longest"] == "queue ports → xmit ports" and slow["share"] > 0.5
    helped = mended["legs"]["queue ports → xmit ports"] < slow["legs"]["queue ports → xmit ports"] / 4
    return 0 if located and helped else 1


if __name__ == "__main__":
    sys.exit(main())
