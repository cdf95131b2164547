#!/usr/bin/env python3
"""Congestion at the port of a switch (vNetTracer's case I), found by the time between the points of a packet's way.

A client and a server talk through a bridge. Its port to the server sends 100 Mbit/s (tbf in place of Open vSwitch's
policing). A second client then fills this port. Three phases: the port is quiet; it is congested; it is mended (htb,
with a class of its own for the small messages). `wirespan packet` says each time where the small messages waited.
"""

import contextlib
import sys
import time

import case

ADDRESS, MESSAGES, BULK = "10.217.1.2", 7101, 7102
PORT = "queue ports → xmit ports"


def bridged():
    """client and other client — bridge — server, each in a namespace of its own."""
    lines = ["-n {switch} link add name br0 type bridge", "-n {switch} link set br0 up"]
    for space, port, address in (("client", "portc", 1), ("server", "ports", 2), ("other", "porto", 3)):
        lines += [
            f"-n {{switch}} link add name {port} type veth peer name eth0 netns {{{space}}}",
            f"-n {{switch}} link set dev {port} master br0 up",
            f"-n {{{space}}} addr add 10.217.1.{address}/24 dev eth0",
            f"-n {{{space}}} link set eth0 up",
        ]
    return case.Spaces(("client", "other", "switch", "server"), lines)


def mend(spaces):
    for line in (
        "qdisc del dev ports root",
        "qdisc add dev ports root handle 1: htb default 20",
        "class add dev ports parent 1: classid 1:10 htb rate 10mbit ceil 100mbit prio 0",
        "class add dev ports parent 1: classid 1:20 htb rate 90mbit prio 1",
        f"filter add dev ports parent 1: protocol ip u32 match ip dport {MESSAGES} 0xffff flowid 1:10",
    ):
        spaces.run("switch", f"tc {line}")


def phases(args):
    with bridged() as spaces, contextlib.ExitStack() as stack:

        def measure():
            seen = case.ask(args.wirespan, spaces, ADDRESS, MESSAGES, args.messages)
            return seen | case.longest(seen)

        spaces.run("switch", "tc qdisc add dev ports root tbf rate 100mbit burst 32kb limit 1mb")
        stack.enter_context(spaces.server(ADDRESS, MESSAGES))
        stack.enter_context(spaces.server(ADDRESS, BULK, "read"))
        yield "quiet", measure()
        stack.enter_context(spaces.python("other", case.FILL, ADDRESS, BULK, ready=True))
        time.sleep(1)
        program = f"filter: {{protocol: tcp, destination_port: {MESSAGES}}}\naction: [latency]"
        with case.pictured(args, spaces, "congestion", program, "1280x860", "→ xmit ports", "figure"):
            congested = measure()
        yield "congested", congested
        mend(spaces)
        time.sleep(1)
        yield "mended", measure()


def line(seen):
    times = f"{seen['total']['p50_ns'] / 1e3:9.0f} µs {seen['total']['p99_ns'] / 1e3:9.0f} µs"
    return f"{times}   {seen['longest']}: {seen['longest_ns'] / 1e3:.0f} µs, {seen['share']:.0%}"


def verdict(found):
    slow, mended = found["congested"], found["mended"]
    located = slow["longest"] == PORT and slow["share"] > 0.5
    return located and mended["legs"][PORT]["p50_ns"] < slow["legs"][PORT]["p50_ns"] / 4


if __name__ == "__main__":
    sys.exit(case.main(__doc__, ["tc"], phases, line, verdict))
