#!/usr/bin/env python3
"""ARP trouble at a device (a case of DeepFlow, SIGCOMM '23): nobody answers for an address.

A client and a server are joined by a bridge. Three phases: healthy; broken (the server's device answers no ARP, as if
it were in the wrong VLAN); and mended. The client only knows that there is no route, after seconds. `wirespan up
--mirror` counts requests, answers and addresses without an answer at the client's device, and `wirespan packet` says
why its packets were dropped.
"""

import contextlib
import subprocess
import sys
import time

import case

ADDRESS, PORT = "10.217.7.2", 7141
CONNECT = """
import socket, sys, time
began = time.monotonic()
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20).close()
    print('connected')
except OSError as error:
    print(error.strerror or error, 'after', round(time.monotonic() - began, 1), 's')
"""
METRICS = """
import urllib.request
print(urllib.request.urlopen('http://127.0.0.1:9473/metrics', timeout=10).read().decode())
"""


def bridged():
    lines = ["-n {switch} link add name br0 type bridge", "-n {switch} link set br0 up"]
    for n, space in enumerate(("client", "server"), 1):
        lines += [
            f"-n {{switch}} link add name port{n} type veth peer name eth0 netns {{{space}}}",
            f"-n {{switch}} link set dev port{n} master br0 up",
            f"-n {{{space}}} addr add 10.217.7.{n}/24 dev eth0",
            f"-n {{{space}}} link set eth0 up",
        ]
    return case.Spaces(("switch", "client", "server"), lines)


@contextlib.contextmanager
def mirroring(wirespan, spaces):
    """Reads the client's device meanwhile. Gives a function that says what was counted so far."""
    args = spaces.inside("client", wirespan, "up", "--mirror", "eth0")
    tracer = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def counted():
        text = case.run(*spaces.inside("client", sys.executable, "-c", METRICS))
        parts = [line.split('counter="eth0_arp_') for line in text.splitlines()]
        named = (part[1] for part in parts if len(part) == 2)
        return {line.split('"')[0]: int(line.split()[-1]) for line in named}

    try:
        case.wait_until("tracing packets of eth0", tracer)
        yield counted
    finally:
        tracer.terminate()
        tracer.wait(timeout=60)


def measure(args, spaces, counted):
    # What the client knows of its neighbours is forgotten, as after some minutes.
    spaces.run("client", "ip neigh flush all dev eth0")
    before = counted()
    with case.traced(args.wirespan, spaces, f"filter: {{port: {PORT}}}\nwhere: [drop]\naction: [record]") as lines:
        with spaces.python("client", CONNECT, ADDRESS, PORT) as client:
            said = client.communicate(timeout=60)[0].strip()
        time.sleep(5)
    after = counted()
    drops = {x["drop_reason"] for x in lines if x["kind"] == "packet" and x["route"]["destination_port"] == PORT}
    return {"said": said, **{name: after[name] - before.get(name, 0) for name in after}, "drops": sorted(drops)}


def phases(args):
    with bridged() as spaces, spaces.server(ADDRESS, PORT), mirroring(args.wirespan, spaces) as counted:
        time.sleep(2)
        yield "healthy", measure(args, spaces, counted)
        spaces.run("server", "ip link set eth0 arp off")
        program = f"filter: {{port: {PORT}}}\naction: [drops, count]"
        with case.pictured(args, spaces, "arp", program, "1280x420", "", "[role=status]"):
            broken = measure(args, spaces, counted)
        yield "broken", broken
        spaces.run("server", "ip link set eth0 arp on")
        yield "mended", measure(args, spaces, counted)


def line(seen):
    return (
        f"{seen['said']}; ARP at eth0: {seen['requests']} requests, {seen['answers']} answers, {seen['unanswered']} "
        f"addresses without an answer; dropped: {', '.join(seen['drops']) or '-'}"
    )


def verdict(found):
    broken, quiet = found["broken"], [found["healthy"], found["mended"]]
    located = broken["unanswered"] > 0 and broken["said"] != "connected" and "NEIGH_FAILED" in broken["drops"]
    return located and all(x["unanswered"] == 0 and x["answers"] > 0 and x["said"] == "connected" for x in quiet)


if __name__ == "__main__":
    sys.exit(case.main(__doc__, [], phases, line, verdict))
