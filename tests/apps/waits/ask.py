#!/usr/bin/env python3
"""Asks a service of any language for requests with known waits, and writes what it says of them to TRUTH.

usage: ask.py TRUTH CASE,… COMMAND…

COMMAND gets a port, that of a leaf, and a directory. A line of TRUTH has the case and what the service measured;
`skipped` names a case that this machine cannot have. `queue` runs beside competitors, `limit` with a fifth of a
processor, `slow-disk` waits for a disk that may take 16 MB a second, as do the cases that follow it after a plus. In
`convoy` requests hold each other up, and in `pool` one waits for the connection of another one. All other cases are
what is asked for. Requests of the case `warm` come first: runtimes load and compile what they need, and wirespan its
programs.
"""

import contextlib
import json
import os
import pathlib
import sys
import tempfile
import time

import stage

MS = 40
ROUNDS = 4
FEW = 2
WARM_SECONDS = 3
BYTES_A_SECOND = 16_000_000
SURROUNDED = ("queue", "limit", "slow-disk", "convoy", "pool")
CONVOY = ("/keep/100/keeper", "/convoy/0/middle", "/end/0/last")


def with_sums(done):
    """What a service said of a request, with the case, and how long it waited for calls and for all else."""
    called = sum(wait["took"] for wait in done["waits"] if (wait["kind"], wait["by"]) == ("socket", "network"))
    slept = sum(wait["took"] for wait in done["waits"]) - called
    case = done["path"].split("-", 1)[1].rpartition("-")[0]
    return {"case": case, "slept": slept, "called": called, **done}


def main():
    to, cases, *command = sys.argv[1:]
    truth = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("WAITS_DIR")) as directory:
        has_names = "dns" not in cases or stage.names()
        leaf = stage.Service.of_python("threads")
        service = stage.Service(command, leaf.port, directory)
        pid = service.process.pid

        def ask(case, *paths, rounds=ROUNDS, at_once=False):
            for n in range(rounds):
                asked = [f"{path}-{case}-{n}" for path in paths]
                stage.together(service, *asked) if at_once else service.ask(*asked)

        @contextlib.contextmanager
        def within(case, surroundings):
            with surroundings as there:
                if there is None:
                    truth.append({"case": case, "skipped": True})
                yield there is not None

        def slow_disk(others):
            with within("slow-disk", stage.slow_disk(pid, directory, BYTES_A_SECOND)) as there:
                if there:
                    ask("slow-disk", f"/disk/{MS}/x", rounds=FEW)
                for case in others:
                    special(case)

        def special(case):
            first, *others = case.split("+")
            if first == "slow-disk":
                slow_disk(others)
            elif case == "queue":
                with within(case, stage.crowded(pid)) as there:
                    there and ask(case, "/spin/40/x", rounds=FEW)
            elif case == "limit":
                with within(case, stage.limited(pid)) as there:
                    there and ask(case, "/spin/60/x", rounds=FEW)
            elif case == "convoy":
                ask(case, *CONVOY, rounds=FEW, at_once=True)
            elif case == "pool":
                ask(case, f"/pool/{MS}/holder", f"/pool/{MS}/other", rounds=FEW, at_once=True)
            elif case == "dns" and not has_names:
                truth.append({"case": case, "skipped": True})
            else:
                ask(case, f"/{case}/{MS}/x", rounds=FEW if others else ROUNDS)

        cases = cases.split(",")
        until = time.monotonic() + WARM_SECONDS
        simple = [case for case in cases if case.partition("+")[0] not in SURROUNDED] or ["pool"]
        simple = [case for case in simple if case != "dns" or has_names]
        while time.monotonic() < until:
            ask("warm", *(f"/{case}/{MS // 2}/x" for case in simple), rounds=1, at_once=True)
        time.sleep(1)  # the agent may ask for the waits of so many threads a second only
        for case in cases:
            special(case)
        truth.extend(with_sums(done) for done in service.end())
        leaf.end()
    pathlib.Path(to).write_text("".join(json.dumps(line) + "\n" for line in truth))


main()
