#!/usr/bin/python3
"""The first process of a guest: prepares it, traces chain.py or a load of TLS, says what came of it, ends the guest.

The kernel's command line chooses: with `tls=CONNECTIONS seconds=SECONDS` it is the load.
"""

import collections
import ctypes
import fcntl
import glob
import json
import os
import pathlib
import platform
import signal
import socket
import struct
import subprocess
import sys
import traceback

sys.path.insert(0, "/")
import stress

libc = ctypes.CDLL(None, use_errno=True)
MOUNTS = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("bpf", "/sys/fs/bpf"),
    ("cgroup2", "/sys/fs/cgroup"),
    ("tracefs", "/sys/kernel/tracing"),
    ("debugfs", "/sys/kernel/debug"),
]
FINIT_MODULE, POWER_OFF = 313, 0x4321FEDC
UP = 1


def say(name, document):
    print(f"@@{name} {json.dumps(document)}", flush=True)


def prepare():
    for kind, at in MOUNTS:
        if libc.mount(kind.encode(), at.encode(), kind.encode(), 0, None):
            print(f"mounting {at}: {os.strerror(ctypes.get_errno())}", flush=True)
    for path in sorted(glob.glob("/modules/*.ko")):
        with open(path, "rb") as module:
            if libc.syscall(FINIT_MODULE, module.fileno(), b"", 0):
                print(f"{path}: {os.strerror(ctypes.get_errno())}", flush=True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", UP))
    os.environ.update(PATH="/usr/bin", HOME="/root", PYTHONDONTWRITEBYTECODE="1")
    with open("/proc/sys/kernel/printk", "w") as f:
        f.write("1")


def plain(attributes):
    return {a["key"]: next(iter(a["value"].values()), None) for a in attributes}


def spans_of(path):
    """Spans of HTTP requests, by id."""
    spans = {}
    for line in open(path):
        for group in json.loads(line)["resourceSpans"]:
            for scope in group["scopeSpans"]:
                for span in scope["spans"]:
                    attributes = plain(span["attributes"])
                    if "url.path" in attributes or "url.full" in attributes:
                        place = attributes.get("url.path") or attributes["url.full"]
                        spans[span["spanId"]] = {**span, "path": place.rsplit("/", 2)[-2:]}
    return spans


def whole(spans, request):
    """Whether a request is one chain of four spans in a trace of its own."""
    mine = {(s["path"][0], s["kind"]): s for s in spans.values() if s["path"][1] == request}
    chain = [mine.get(key) for key in [("front", 3), ("front", 2), ("back", 3), ("back", 2)]]
    if None in chain:
        return False
    joined = all(child.get("parentSpanId") == parent["spanId"] for parent, child in zip(chain, chain[1:]))
    traces = {s["traceId"] for s in chain}
    alone = sum(s["traceId"] in traces for s in spans.values()) == 4
    return joined and len(traces) == 1 and alone


def check(environment):
    """What this kernel allows; why nothing works goes to the log."""
    done = subprocess.run(
        ["wirespan", "check", "--format", "json"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        say("refused", done.stderr.strip())
        loud = subprocess.run(
            ["wirespan", "check"],
            env={**environment, "WIRESPAN_LOG": "libbpf=debug"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        print(loud.stdout[-20_000:], flush=True)
    return json.loads(done.stdout) if done.returncode == 0 else None


def trace(rung, features):
    environment = {**os.environ, "WIRESPAN_RUNG": rung}
    command = ["wirespan", "run", "--ui", stress.UI, "--keep", "--print=0", "--otlp-file", "/tmp/spans"]
    command += ["--map-file", "/tmp/map", "--", "/usr/bin/python3", "/chain.py"]
    with open("/tmp/stderr", "w+") as errors:
        done = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
        truth = json.loads(next(line for line in done.stdout if line.startswith("{")))
        counters, left_out = stress.settled(), stress.missed(done.pid)
        done.send_signal(signal.SIGINT)
        done.wait()
        errors.seek(0)
        complaints = errors.read()
    print(complaints, flush=True)
    spans = spans_of("/tmp/spans")
    asked = truth["asked"]
    good = [name for name in asked if whole(spans, name)]
    edges = json.load(open("/tmp/map"))["edges"]
    at = lambda port: next((e["tcp"] for e in edges if e["port"] == port), collections.defaultdict(int))
    front, back = at(8081), at(8082)
    opened = [front["opened"] + back["opened"], truth["front"]["connections"] + truth["back"]["connections"]]
    sent = [front["request_bytes"], truth["front"]["bytes"]]
    faults = []
    if done.returncode:
        faults.append(f"exit code {done.returncode}")
    if len(spans) != 4 * len(asked):
        faults.append(
            f"{len(spans)} spans of {4 * len(asked)}: "
            + str(collections.Counter((s["path"][0], s["kind"]) for s in spans.values()))
        )
    if faults:
        faults.append(f"runs that the kernel left out: {left_out}; counters: {counters}")
    if len(good) != len(asked):
        faults.append(f"not whole: {sorted(set(asked) - set(good))[:8]}")
    active = {f["feature"] for f in features["features"] if f["active"]}
    if "flows: TCP connections, bundled" in active and opened[0] != opened[1]:
        faults.append(f"connections {opened}")
    if "flows: TCP connections, bundled" in active and sent[0] != sent[1]:
        faults.append(f"bytes {sent}")
    say(
        rung,
        {
            "features": features["features"],
            "spans": [len(spans), 4 * len(asked)],
            "whole": [len(good), len(asked)],
            "connections": opened,
            "bytes": sent,
            "faults": faults,
            "counters": counters,
            "missed": left_out,
            "stderr": complaints,
        },
    )


# Points that every kernel from 6.1 on has; and the others.
POINTS = ["queue", "xmit", "receive", "tcp", "copied"]
NEWER_POINTS = ["send", "ready"]
MESSAGES = 20


def converse(port, program):
    """Runs a packet program during a conversation on loopback. Returns its lines, what it said before packets were
    seen and after, and its status."""
    with open("/tmp/packets.yaml", "w") as f:
        f.write(program)
    command = ["wirespan", "packet", "/tmp/packets.yaml", "--netns", "pid:1", "--for", "10m", "--format", "json"]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    missing = []
    for line in run.stderr:
        if "packets are seen" in line:
            break
        missing.append(line.strip())
    listener = socket.create_server(("127.0.0.1", port))
    client = socket.create_connection(("127.0.0.1", port))
    server, _ = listener.accept()
    for _ in range(MESSAGES):
        client.sendall(b"x" * 100)
        server.recv(100)
    client.close()
    server.close()
    listener.close()
    run.terminate()
    out, err = run.communicate()
    return [json.loads(line) for line in out.splitlines()], missing, err, run.returncode


def functions():
    """Packets at a function of the kernel and at others, with their headers and stacks; none has payload."""
    program = "filter: {protocol: tcp, port: 8098}\nwhere: [queue, receive, drop, kprobe: ip_rcv]\n"
    lines, said, err, code = converse(8098, program + "action: [record, journeys, snap: 192, stack]\n")
    packets = [line for line in lines if line["kind"] == "packet" and line["len"] == 100]
    good = {"queue": 0, "receive": 0, "function": 0}
    for packet in packets:
        headers = bytes.fromhex(packet["headers"]["bytes"])
        whole = headers[packet["headers"]["link_len"]] == 0x45 and b"xxxx" not in headers
        named = packet["point"] != "function" or packet["function"] == packet["stack"][0] == "ip_rcv"
        good[packet["point"]] += whole and named and len(packet["stack"]) > 3 and len(headers) >= 40
    ways = [[s["point"] for s in j["steps"]] for j in lines if j["kind"] == "journey" and j["len"] == 100]
    told = [*good.values(), ways.count(["queue", "receive", "function"])]
    say("functions", {"told": told, "of": [MESSAGES] * 4, "said": said + [err], "exit code": code, "some": packets[:2]})


def devices():
    """Packets at a chosen device: by tcx, and where the kernel has none by clsact."""
    program = "filter: {protocol: tcp, port: 8097}\nwhere: [{tc: lo}]\naction: [record]\n"
    lines, said, err, code = converse(8097, program)
    points = [line["point"] for line in lines if line["kind"] == "packet" and line["len"] == 100]
    told = [points.count("egress"), points.count("ingress")]
    say("devices", {"told": told, "of": [MESSAGES] * 2, "said": said + [err], "exit code": code})


def packets():
    """Follows the packets of a conversation on loopback: each message has a whole journey."""
    program = "filter: {protocol: tcp, port: 8099}\naction: [journeys]\n"
    lines, missing, err, code = converse(8099, program)
    lost = lambda point: any(f"at `{point}`" in line for line in missing)
    expected = set(POINTS) | {point for point in NEWER_POINTS if not lost(point)}
    journeys = [j for j in lines if j["kind"] == "journey" and j["len"] == 100]
    whole = [j for j in journeys if {step["point"] for step in j["steps"]} >= expected]
    say("packets", {"whole": [len(whole), MESSAGES], "missing": missing, "stderr": err, "exit code": code})
    functions()
    devices()
    # The same points with the addresses of watched servers.
    command = ["wirespan", "up", "--no-ui", "--seconds", "1", "--pid", "1", "--watch-packets", "/any"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    refused = [line for line in run.stderr.splitlines() if "does not show packets" in line]
    say("watched", {"refused": refused, "exit code": run.returncode, "stderr": run.stderr[-2000:]})


# Answers five requests of its own, for each of which it runs 200 ms on the second processor once that has come.
SPINNING = """
import http.server, os, threading, time, urllib.request
class Spin(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        until = time.monotonic() + 0.2
        while time.monotonic() < until:
            pass
        self.send_response(200)
        self.end_headers()
    def log_message(self, *words):
        pass
print('ready', flush=True)
while os.sysconf('SC_NPROCESSORS_ONLN') < 2:
    time.sleep(0.1)
time.sleep(3)
os.sched_setaffinity(0, {1})
server = http.server.ThreadingHTTPServer(('127.0.0.1', 8096), Spin)
threading.Thread(target=server.serve_forever, daemon=True).start()
for n in range(5):
    urllib.request.urlopen(f'http://127.0.0.1:8096/spin/{n}').read()
"""


def processors():
    """Samples at a processor that came after tracing had begun."""
    switch = pathlib.Path("/sys/devices/system/cpu/cpu1/online")
    switch.write_text("0")
    command = ["wirespan", "run", "--no-ui", "--print=0", "--threshold", "1ns", "--otlp-file", "/tmp/spun", "--"]
    run = subprocess.Popen([*command, "/usr/bin/python3", "-c", SPINNING], stdout=subprocess.PIPE, text=True)
    ready = run.stdout.readline()
    switch.write_text("1")
    run.communicate(timeout=120)
    spans = [s for line in open("/tmp/spun") for g in json.loads(line)["resourceSpans"] for s in spans_in(g)]
    events = [plain(event["attributes"]) for span in spans for event in span.get("events", [])]
    samples = sum(int(event.get("wirespan.cpu.samples", 0)) for event in events)
    say("processors", {"samples": samples, "ready": ready, "exit code": run.returncode, "spans": len(spans)})


def spans_in(group):
    return [span for scope in group["scopeSpans"] for span in scope["spans"]]


def asked_for():
    """Numbers on the kernel's command line, by name."""
    words = [word.partition("=") for word in open("/proc/cmdline").read().split()]
    return {name: int(value) for name, _, value in words if value.isdigit()}


def main():
    prepare()
    say("kernel", platform.release())
    asked = asked_for()
    if "tls" in asked:
        say("stress", stress.trace(asked["tls"], asked["seconds"]))
        return
    best = check(os.environ)
    if best:
        trace(best["messages.rung"], best)
        packets()
        if os.cpu_count() > 1:
            processors()
    other = "syscall-tracepoints"
    if best and best["messages.rung"] != other:
        features = check({**os.environ, "WIRESPAN_RUNG": other})
        if features:
            trace(other, features)


try:
    main()
except Exception:
    traceback.print_exc()
print("EXIT", flush=True)
libc.sync()
libc.reboot(POWER_OFF)
