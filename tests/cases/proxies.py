#!/usr/bin/env python3
"""A proxy that answers 404, found among its siblings (a case of DeepFlow, SIGCOMM '23), with real nginx instances.

A load balancer gives requests to three proxies in turn, and they to one back end. Three phases: healthy; broken (the
second proxy has lost the location of the requests, and answers 404 by itself); and mended. `wirespan run` traces all
of them, with the devices between them. The traces of the requests that failed end at the process that answered 404
without a call of its own, and the last device before it is that of its namespace.
"""

import collections
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

import case

BACK, PROXIES, FRONT = "10.217.5.30", ["10.217.5.21", "10.217.5.22", "10.217.5.23"], "10.217.5.10"
BROKEN, PORT = PROXIES[1], 8080
SPACES = ("switch", "client", "front", "proxy1", "proxy2", "proxy3", "back")
# The devices on the way to a server are watched from the first request to it on. So it waits after a first round.
CLIENT = """
import http.client, sys, time
c = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=10)
statuses = []
for n in range(int(sys.argv[3])):
    time.sleep(1 if n == 6 else 0)
    c.request('GET', '/item')
    answer = c.getresponse()
    answer.read()
    statuses.append(answer.status)
print(*statuses)
"""


def network():
    lines = ["-n {switch} link add name br0 type bridge", "-n {switch} link set br0 up"]
    for n, (space, address) in enumerate(zip(SPACES[1:], ["10.217.5.1", FRONT, *PROXIES, BACK], strict=True)):
        lines += [
            f"-n {{switch}} link add name port{n} type veth peer name eth0 netns {{{space}}}",
            f"-n {{switch}} link set dev port{n} master br0 up",
            f"-n {{{space}}} addr add {address}/24 dev eth0",
            f"-n {{{space}}} link set eth0 up",
        ]
    return case.Spaces(SPACES, lines)


class Nginx:
    """One instance in its namespace; `server` is what its server does."""

    def __init__(self, spaces, space, folder, server, more=""):
        folder = folder / space
        folder.mkdir()
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        kept = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
        (folder / "conf").write_text(
            f"daemon off; worker_processes 1; user root; pid {folder}/pid; error_log {folder}/log;\n"
            f"events {{}}\nhttp {{ access_log off; {kept} {more}\n"
            f"server {{ listen {PORT}; root {folder}; {server} }} }}\n"
        )
        self.args = spaces.inside(space, "nginx", "-p", str(folder), "-c", f"{folder}/conf", "-e", f"{folder}/log")


def forward(to):
    return f'location / {{ proxy_pass http://{to}; proxy_http_version 1.1; proxy_set_header Connection ""; }}'


def serve(spaces, folder, broken):
    """The command that starts all instances, then the client, and ends them."""
    upstream = "".join(f"server {address}:{PORT}; " for address in PROXIES)
    instances = [Nginx(spaces, "back", folder, 'location = /item { return 200 "item"; }')]
    for n, address in enumerate(PROXIES, 1):
        lost = broken and address == BROKEN
        way = "location = /old { return 204; }" if lost else forward(f"{BACK}:{PORT}")
        instances.append(Nginx(spaces, f"proxy{n}", folder, way))
    instances.append(Nginx(spaces, "front", folder, forward("all"), f"upstream all {{ {upstream} keepalive 8; }}"))
    starts = [" ".join(instance.args) + ' & all="$all $!"' for instance in instances]
    ask = " ".join(spaces.inside("client", sys.executable, f"{folder}/client.py", FRONT, str(PORT)))
    look = f"echo asked >&2; while [ -e {folder}/held ]; do sleep 0.2; done"
    return "\n".join([*starts, "sleep 1", ask + " $1", "sleep 0.5", look, "kill $all", "wait"])


def spans(path):
    for line in path.read_text().splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            for span in (span for scope in resource["scopeSpans"] for span in scope["spans"]):
                yield span | {a["key"]: next(iter(a["value"].values())) for a in span["attributes"]}


def take_picture(args, tracer, address):
    """Of the trace of a request that failed, with the device before the process that answered."""
    case.wait_until("asked", tracer)
    time.sleep(5)
    ask = [args.wirespan, "traces", "--server", address, "--format", "json", "--limit", "200", "status=error"]
    # The first requests to a server have no devices.
    trace = max(map(json.loads, case.run(*ask).splitlines()), key=lambda trace: trace["spans"])["id"]
    with urllib.request.urlopen(f"http://{address}/api/v1/trace/{trace}", timeout=20) as answer:
        spans = json.load(answer)["spans"]
    device = [row["span"]["id"] for row in spans if row["span"]["tap"] == "server-nic"][-1]
    case.picture(args, "proxies", f"http://{address}/trace/{trace}?span={device}", "1280x800")


def above(ends, by_id):
    return [by_id[span["parentSpanId"]] for span in ends if span.get("parentSpanId") in by_id]


def measure(args, spaces, broken):
    """The statuses that the client got, and where the requests that failed ended: server, and device before it."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "client.py").write_text(CLIENT)
        out = folder / "spans.jsonl"
        address, pictured = f"127.0.0.1:{case.free_port()}", args.pictures and broken
        (folder / "wirespan.toml").write_text(case.NO_RECEIVERS)
        words = [
            args.wirespan,
            "--config",
            str(folder / "wirespan.toml"),
            "run",
            *(["--ui", address] if pictured else ["--no-ui"]),
            "--print",
            "0",
            "--otlp-file",
            str(out),
            "--watch-packets",
            "GET /item",
        ]
        words += ["--", "sh", "-c", serve(spaces, folder, broken), "sh", str(args.messages)]
        if pictured:
            (folder / "held").touch()
        tracer = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            if pictured:
                take_picture(args, tracer, address)
                (folder / "held").unlink()
            told, said = tracer.communicate(timeout=150)
        finally:
            tracer.kill()
        if tracer.returncode:
            raise SystemExit(f"wirespan run: {said}")
        all_spans = list(spans(out))
    by_id = {span["spanId"]: span for span in all_spans}
    callers = {span.get("parentSpanId") for span in all_spans}
    ends = [
        span
        for span in all_spans
        if span.get("http.response.status_code") == "404" and span["wirespan.tap_side"] == "server-process"
        if span["spanId"] not in callers
    ]
    devices = [span for span in above(ends, by_id) if span["wirespan.tap_side"] == "server-nic"]
    names = {name: space for space, name in spaces.names.items()}
    return {
        "statuses": collections.Counter(told.split()),
        "failed_at": collections.Counter(span["network.peer.address"] for span in above(ends, by_id)),
        "device_before": collections.Counter(
            f"{d['network.interface.name']} in {names[d['wirespan.hop.netns']]}" for d in devices
        ),
        "traces": len({span["traceId"] for span in all_spans}),
    }


def phases(args):
    with network() as spaces:
        for phase in ("healthy", "broken", "mended"):
            yield phase, measure(args, spaces, phase == "broken")


def line(seen):
    def told(counts):
        return ", ".join(f"{name} ({count})" for name, count in counts.items()) or "-"

    return f"answers {told(seen['statuses'])}; 404 by {told(seen['failed_at'])}, behind {told(seen['device_before'])}"


def verdict(found):
    failed = found["broken"]["statuses"]["404"]
    named = found["broken"]["failed_at"]
    located = failed > 0 and set(named) == {BROKEN} and named[BROKEN] == failed
    # The first request to a server has no devices: its address is learnt from it.
    seen = set(found["broken"]["device_before"]) == {"eth0 in proxy2"}
    return located and seen and not found["healthy"]["failed_at"] and not found["mended"]["statuses"]["404"]


if __name__ == "__main__":
    sys.exit(case.main(__doc__, ["nginx"], phases, line, verdict))
