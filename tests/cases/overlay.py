#!/usr/bin/env python3
"""What an overlay costs (vNetTracer's case III), found by the receive passes of each packet and their processor.

Two containers on two hosts, joined by a switch: once with addresses of the hosts' network, once through bridges and a
VXLAN tunnel. Three phases: direct; overlay; and steered: receive packet steering gives the work behind the tunnel to
the other processor. `wirespan packet` says how often each packet is received on its way, and on which processor. The
rate of a bulk transfer is measured apart, without a packet program.
"""

import collections
import contextlib
import os
import sys
import time

import case

PORT, BULK = 7121, 7122
ADDRESSES = {"direct": "10.217.3.12", "overlay": "10.217.4.12", "steered": "10.217.4.12"}
SPACES = ("client", "host1", "switch", "host2", "server")


def hosts():
    """client — bridge of host1 — switch — bridge of host2 — server. The containers have two devices: `eth0` on the
    hosts' network, and `eth1` on the overlay."""
    lines = ["-n {switch} link add name br0 type bridge", "-n {switch} link set br0 up"]
    for n, (host, container) in enumerate((("host1", "client"), ("host2", "server")), 1):
        lines += [
            f"-n {{switch}} link add name port{n} type veth peer name nic netns {{{host}}}",
            f"-n {{switch}} link set dev port{n} master br0 up",
            *(f"-n {{{host}}} link add name {name} type bridge" for name in ("br0", "br1")),
            *(f"-n {{{host}}} link add name c{d} type veth peer name eth{d} netns {{{container}}}" for d in (0, 1)),
            f"-n {{{host}}} addr add 10.217.3.{n}/24 dev br0",
            f"-n {{{host}}} link set dev nic master br0 up",
            f"-n {{{host}}} link set dev c0 master br0 up",
            f"-n {{{host}}} link set br0 up",
            f"-n {{{host}}} link add name vx type vxlan id 7 local 10.217.3.{n} remote 10.217.3.{3 - n} dstport 4789",
            f"-n {{{host}}} link set dev vx master br1 up",
            f"-n {{{host}}} link set dev c1 master br1 up",
            f"-n {{{host}}} link set br1 up",
            f"-n {{{container}}} addr add 10.217.3.1{n}/24 dev eth0",
            f"-n {{{container}}} addr add 10.217.4.1{n}/24 dev eth1",
            f"-n {{{container}}} link set eth0 up",
            f"-n {{{container}}} link set eth1 mtu 1450 up",
        ]
    return case.Spaces(SPACES, lines)


def passes(args, spaces, address, cpu):
    """How often each message is received, and on which processors (their shares, the busiest first)."""
    program = f"filter: {{protocol: tcp, destination_port: {PORT}}}\nwhere: [send, queue, receive, copied]\n"
    with case.traced(args.wirespan, spaces, program + "action: [record, journeys]") as lines:
        with spaces.python("client", case.ASK, address, PORT, args.messages, cpu=cpu) as client:
            client.wait(timeout=100)
    messages = [x for x in lines if x["kind"] == "journey" and x["len"] == 100]
    received = [step for x in messages for step in x["steps"] if step["point"] == "receive"]
    cpus = collections.Counter(step["cpu"] for step in received)
    return len(received) / max(len(messages), 1), [n / max(len(received), 1) for _, n in cpus.most_common()]


def softirqs():
    """Runs of net_rx_action so far, of the whole machine."""
    with open("/proc/softirqs") as file:
        line = next(line for line in file if line.split()[0] == "NET_RX:")
    return sum(map(int, line.split()[1:]))


def bulk(spaces, address, mib, cpu):
    began, runs = time.monotonic(), softirqs()
    with spaces.python("client", case.FILL, address, BULK, mib, ready=True, cpu=cpu) as client:
        client.wait(timeout=100)
    return mib * 1.048576 / (time.monotonic() - began), (softirqs() - runs) / mib


def steer(spaces, cpu):
    """Receive packet steering: what comes out of the tunnel is handled by this processor."""
    path = "/sys/class/net/vx/queues/rx-0/rps_cpus"
    case.run(*spaces.inside("host2", "sh", "-c", f"echo {1 << cpu:x} > {path}"))


def phases(args):
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise case.Lacking("two processors")
    sending, reading = cpus[0], cpus[-1]
    with hosts() as spaces:
        for phase, address in ADDRESSES.items():
            if phase == "steered":
                steer(spaces, reading)
            program = f"filter: {{protocol: tcp, destination_port: {PORT}}}\naction: [latency]"
            with spaces.server(address, PORT, cpu=reading), spaces.server(address, BULK, "read", cpu=reading):
                pictured = case.pictured(args, spaces, phase, program, "1280x1100", "", "figure")
                with pictured if phase == "overlay" else contextlib.nullcontext():
                    seen = case.ask(args.wirespan, spaces, address, PORT, args.messages, cpu=sending)
                seen["passes"], seen["processors"] = passes(args, spaces, address, sending)
                seen["mb_per_s"], seen["net_rx_per_mib"] = bulk(spaces, address, args.messages, sending)
            yield phase, seen


def line(seen):
    spread = " + ".join(f"{share:.0%}" for share in seen["processors"])
    return (
        f"{seen['total']['p50_ns'] / 1e3:7.0f} µs  {seen['passes']:.2f} receive passes, by processor {spread}; "
        f"{seen['mb_per_s']:.0f} MB/s, {seen['net_rx_per_mib']:.1f} net_rx runs/MiB"
    )


def verdict(found):
    direct, overlay, steered = (found[phase] for phase in ADDRESSES)
    costs = overlay["passes"] >= 1.5 * direct["passes"] and overlay["mb_per_s"] < 0.9 * direct["mb_per_s"]
    return costs and overlay["processors"][0] > 0.9 and steered["processors"][0] < 0.8


if __name__ == "__main__":
    sys.exit(case.main(__doc__, ["taskset"], phases, line, verdict))
