#!/usr/bin/env python3
"""A server that waits for its processor (vNetTracer's case II), found between the arrival and the reader.

A server works 1 ms for each message, on one processor. Four phases: alone; with three competitors on the same
processor (in place of Xen's other virtual machines); mended (the server is of the class of real-time threads); and
without them, but with a background job of its own under one CPU limit of 10 % (cgroup). `wirespan packet` says each
time where the messages were: the network has given them to the server (`tcp`, `ready`), and the server has not read
them (`copied`).
"""

import contextlib
import os
import pathlib
import subprocess
import sys

import case

ADDRESS, PORT, WORK_US = "10.217.2.2", 7111, 1000
READER = ("tcp eth0 → copied eth0", "ready → copied eth0", "tcp eth0 → ready")
SPIN = "print('ready', flush=True)\nwhile True: pass"


def pair():
    lines = ["-n {client} link add name eth0 type veth peer name eth0 netns {server}"]
    for space, address in (("client", 1), ("server", 2)):
        lines += [f"-n {{{space}}} addr add 10.217.2.{address}/24 dev eth0", f"-n {{{space}}} link set eth0 up"]
    return case.Spaces(("client", "server"), lines)


@contextlib.contextmanager
def limited(percent):
    """A cgroup with a CPU limit (version 1 or 2). What is given to it must have ended before."""
    one = pathlib.Path("/sys/fs/cgroup/cpu")
    group = (one if one.is_dir() else pathlib.Path("/sys/fs/cgroup")) / f"wscase-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        raise case.Lacking(f"a cgroup of its own: {error}") from error
    try:
        old, new = group / "cpu.cfs_quota_us", group / "cpu.max"
        if not old.exists() and not new.exists():
            raise case.Lacking("the controller of processors is not enabled for cgroups")
        if old.exists():
            old.write_text(str(percent * 1000))
        else:
            new.write_text(f"{percent * 1000} 100000")
        yield group
    finally:
        group.rmdir()


def throttled(group):
    stat = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    return int(stat["nr_throttled"])


def reader_share(seen, time):
    whole = sum(times[time] for times in seen["legs"].values())
    return sum(seen["legs"][leg][time] for leg in READER if leg in seen["legs"]) / whole


def phases(args):
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise case.Lacking("two processors")
    theirs, ours = cpus[0], cpus[-1]
    with pair() as spaces:

        def measure(messages=args.messages, time="mean_ns"):
            seen = case.ask(args.wirespan, spaces, ADDRESS, PORT, messages, cpu=theirs)
            return seen | case.longest(seen, time) | {"reader_share": reader_share(seen, time)}

        with spaces.server(ADDRESS, PORT, work_us=WORK_US, cpu=ours) as server:
            yield "alone", measure()
            with contextlib.ExitStack() as stack:
                for _ in range(3):
                    stack.enter_context(spaces.python("server", SPIN, ready=True, cpu=ours))
                program = f"filter: {{protocol: tcp, destination_port: {PORT}}}\naction: [latency]"
                with case.pictured(args, spaces, "scheduler", program, "1280x700", "→ copied", "figure"):
                    competing = measure()
                yield "competing", competing
                done = subprocess.run(["chrt", "-a", "-f", "-p", "10", str(server.pid)], capture_output=True, text=True)
                if done.returncode:
                    raise case.Lacking(done.stderr.strip())
                yield "mended", measure()
        with contextlib.ExitStack() as stack:
            group = stack.enter_context(limited(10))
            server = stack.enter_context(spaces.server(ADDRESS, PORT, work_us=WORK_US, cpu=ours))
            job = stack.enter_context(spaces.python("server", SPIN, ready=True, cpu=theirs))
            for process in (server, job):
                (group / "cgroup.procs").write_text(str(process.pid))
            yield "limited", measure(max(args.messages // 4, 25)) | {"throttled": throttled(group)}


def line(seen):
    total = seen["total"]
    times = " ".join(f"{total[time] / 1e3:9.0f} µs" for time in ("p50_ns", "p99_ns", "p999_ns"))
    return f"{times}   {seen['longest']}: {seen['longest_ns'] / 1e3:.0f} µs; at the reader {seen['reader_share']:.0%}"


def verdict(found):
    mended = found["mended"]["total"]
    slow = [found[phase] for phase in ("competing", "limited")]
    located = all(seen["longest"] in READER and seen["reader_share"] > 0.8 for seen in slow)
    return located and all(seen["total"]["p99_ns"] > 4 * mended["p99_ns"] for seen in slow)


if __name__ == "__main__":
    sys.exit(case.main(__doc__, ["taskset", "chrt"], phases, line, verdict))
