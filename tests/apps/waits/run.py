#!/usr/bin/env python3
"""Starts services, asks them for requests with known waits, and writes what the services say to TRUTH.

usage: run.py TRUTH

A line of TRUTH has the case and what the service measured. `skipped` names a case that this machine cannot have.
"""

import contextlib
import http.client
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).parent
LOOK = 3  # requests of each kind


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Service:
    def __init__(self, kind, leaf=None):
        self.port = free_port()
        command = [sys.executable, str(HERE / "service.py"), kind, str(self.port)]
        self.process = subprocess.Popen(command + ([str(leaf)] if leaf else []), stdout=subprocess.PIPE, text=True)
        self.said = []
        threading.Thread(target=lambda: self.said.extend(self.process.stdout), daemon=True).start()
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.05)
        raise SystemExit(f"{kind} does not listen")

    def ask(self, path):
        client = http.client.HTTPConnection("127.0.0.1", self.port)
        client.request("GET", path)
        client.getresponse().read()
        client.close()

    def end(self):
        time.sleep(0.2)
        self.process.kill()
        self.process.wait()
        return [json.loads(line) for line in self.said]


@contextlib.contextmanager
def competitors():
    """Two processes that never sleep, on the first processor that is allowed; gives that processor."""
    cpu = min(os.sched_getaffinity(0))
    spin = f"import os\nos.sched_setaffinity(0, {{{cpu}}})\nprint(flush=True)\nwhile 1: pass"
    command = ["timeout", "20", sys.executable, "-c", spin]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    for process in both:
        process.stdout.readline()  # it is there, and competes from now on
    try:
        yield cpu
    finally:
        for process in both:
            process.terminate()
            process.wait()


@contextlib.contextmanager
def limited(pid):
    """Lets a process have a fifth of a processor: by a group of its own in one that has the limit."""
    name = f"wirespan-waits-{os.getpid()}"
    v1, v2 = pathlib.Path("/sys/fs/cgroup/cpu") / name, pathlib.Path("/sys/fs/cgroup") / name
    group = v1 if v1.parent.is_dir() else v2
    inner = group / "inner"
    truth = {"case": "limit-total", "path": ""}
    try:
        group.mkdir()
        if group == v2:
            (group / "cpu.max").write_text("20000 100000")
            (group / "cgroup.subtree_control").write_text("+cpu")
        else:
            (group / "cpu.cfs_period_us").write_text("100000")
            (group / "cpu.cfs_quota_us").write_text("20000")
        inner.mkdir()
        (inner / "cgroup.procs").write_text(str(pid))
        yield truth
        stat = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
        unit = 1e9 if "throttled_time" in stat else 1e6
        truth["throttled"] = int(stat.get("throttled_time") or stat.get("throttled_usec")) / unit
    except OSError as error:
        print(f"waits: no CPU limit: {error}", file=sys.stderr)
        yield None
    finally:
        for _ in range(50):
            with contextlib.suppress(OSError):
                for old in (inner, group):
                    if old.is_dir():
                        old.rmdir()
                break
            time.sleep(0.1)


def together(service, *paths):
    """Asks for one request, and each 20 ms later for another."""
    threads = [threading.Thread(target=service.ask, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
        time.sleep(0.02)
    for thread in threads:
        thread.join()


def main():
    truth = []
    leaf = Service("threads")

    def threads(case, *paths, around=None):
        service = Service("threads", leaf.port)
        with around(service) if around else contextlib.nullcontext({}) as there:
            if there is None:
                truth.append({"case": case, "skipped": True})
            elif there:
                truth.append(there)
            for path in paths if there is not None else []:
                service.ask(path)
            said = service.end()
        truth.extend({"case": case, **done} for done in said)

    for what in ("spin", "sleep", "call", "mix", "disk", "pipe", "socket", "child"):
        threads(what, *(f"/{what}/40/{what}{i}" for i in range(LOOK)))

    @contextlib.contextmanager
    def crowded(service):
        with competitors() as cpu:
            os.sched_setaffinity(service.process.pid, {cpu})
            yield {}

    threads("queue", *(f"/spin/40/queue{i}" for i in range(LOOK)), around=crowded)
    threads("limit", *(f"/spin/60/limit{i}" for i in range(LOOK)), around=lambda s: limited(s.process.pid))
    for case, kind, *paths in (
        ("lock", "threads", "/hold/80/holder", "/lock/0/waiter"),
        ("convoy", "threads", "/keep/100/keeper", "/convoy/0/middle", "/end/0/last"),
        ("loop", "loop", "/nap/40/napper", "/spin/80/spinner"),
    ):
        service = Service(kind, leaf.port if kind == "threads" else None)
        together(service, *paths)
        truth.extend({"case": case, **done} for done in service.end())
    leaf.end()
    pathlib.Path(sys.argv[1]).write_text("".join(json.dumps(line) + "\n" for line in truth))


main()
