#!/usr/bin/env python3
"""Starts services, asks them for requests with known waits, and writes what the services say to TRUTH.

usage: run.py TRUTH

A line of TRUTH has the case and what the service measured. `skipped` names a case that this machine cannot have.
"""

import contextlib
import json
import os
import pathlib
import sys

from stage import Service, competitors, limited, together

LOOK = 3  # requests of each kind


def main():
    truth = []
    leaf = Service.of_python("threads")

    def threads(case, *paths, around=None):
        service = Service.of_python("threads", leaf.port)
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
        service = Service.of_python(kind, *([leaf.port] if kind == "threads" else []))
        together(service, *paths)
        truth.extend({"case": case, **done} for done in service.end())
    leaf.end()
    pathlib.Path(sys.argv[1]).write_text("".join(json.dumps(line) + "\n" for line in truth))


main()
