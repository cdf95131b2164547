"""What flows cost the load: CPU time of client and server per round trip, without a tracer, with the floor, with
bundles.

The kernel's statistics of BPF programs read a clock before and after each run, which costs more than most runs do, and
is in what they tell. Here nothing is counted while the load runs: the three take turns, in another order in each round,
and what a method adds is the median of its differences to the run without a tracer of the same round, with the interval
in which that median lies with 95 % certainty (by order statistics). Loopback's softirqs run in the processes, so what
programs do there is in their time.
"""

import json
import os
import platform
import random
import signal
import statistics
import time

METHODS = ["nothing", "floor", "bundles"]
LOADS = [
    ("short", "tcp", ["-1", "-p", 16], 30_000),
    ("persistent", "tcp", ["-c", 50], 120_000),
    ("udp", "udp", ["-c", 50], 120_000),
]


def one(load, port, protocol, call, trips, cpu_ns):
    """CPU time per round trip, ns."""
    server = load.start("serve", protocol, "0.0.0.0", port)
    server.stderr.readline()
    time.sleep(0.3)
    client = load.start("call", protocol, "127.0.0.1", port, "-h", "-n", trips, *call)
    client.stderr.readline()
    both = lambda: cpu_ns(client.pid) + cpu_ns(server.pid)
    before = both()
    client.stdin.write("\n")
    client.stdin.flush()
    done = json.loads(client.stdout.readline())["received"]
    spent = both() - before
    client.communicate("\n")  # until which it lived, and could be asked
    server.send_signal(signal.SIGTERM)
    server.communicate()
    return spent / max(done, 1)


def interval(values):
    """The median and its 95 % interval: the values between two ranks of a binomial distribution."""
    values, n = sorted(values), len(values)
    reach = 0.98 * n**0.5
    low, high = max(0, int(n / 2 - reach)), min(n - 1, int(n / 2 + reach))
    return statistics.median(values), values[low], values[high]


def measure(args, load, port, tracer, cpu_ns):
    print(
        f"Linux {platform.release()}, {os.cpu_count()} cores, {args.profile} build, {args.cost} rounds, load average "
        f"{os.getloadavg()[0]:.1f} at the start; CPU time of client and server per round trip\n"
    )
    print("| load | without | empty programs add | bundles add |\n|---|---|---|---|")
    for name, protocol, call, trips in LOADS:
        found = {method: [] for method in METHODS}
        for _ in range(args.cost):
            for method in random.sample(METHODS, len(METHODS)):
                t = None if method == "nothing" else tracer(method)
                found[method].append(one(load, port, protocol, call, trips, cpu_ns))
                if t:
                    t.send_signal(signal.SIGTERM)
                    t.communicate()
        added = {}
        for method in METHODS[1:]:
            pairs = zip(found[method], found["nothing"])
            added[method] = "{:.0f} ns ({:.0f} to {:.0f})".format(*interval([a - b for a, b in pairs]))
        print(
            f"| {name} | {statistics.median(found['nothing']):.0f} ns | {added['floor']} | {added['bundles']} |",
            flush=True,
        )
