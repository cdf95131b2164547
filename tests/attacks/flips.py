#!/usr/bin/env python3
"""Flips bytes in the files of a store, and compares every value that is served with what was written."""

import argparse
import json
import pathlib
import random
import shutil
import tempfile

from server import START, Server, verdict

SPANS = 6000


def served(server):
    """Every span that a search gives, by its id."""
    found = {}
    for first in range(0, SPANS + 1, 1000):
        answer = server.get(f"/api/v1/spans?from={START + first}&to={START + first + 1000}&limit=1000")
        found |= {s["id"]: s for s in answer["spans"]}
    return found


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=200)
    options.add_argument("--seed", type=int, default=1)
    options = options.parse_args()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        whole = directory / "whole"
        server = Server(directory, store=whole)
        for first in range(1, SPANS, 500):
            assert server.report(first, 500) == 200
        written = served(server)
        server.end()
        assert len(written) == SPANS, len(written)
        altered = silent = starts = least = 0
        least = SPANS
        for number in range(options.rounds):
            store = directory / f"round-{number}"
            shutil.copytree(whole, store)
            file = chance.choice([f for f in store.iterdir() if f.is_file() and f.stat().st_size > 8])
            data = bytearray(file.read_bytes())
            at = chance.randrange(len(data))
            data[at] ^= 1 << chance.randrange(8)
            file.write_bytes(data)
            server = Server(directory, store=store)
            starts += 1
            found = served(server)
            wrong = [id for id, span in found.items() if json.dumps(span) != json.dumps(written.get(id))]
            said = server.status()["store"]["damaged"]
            altered += len(wrong)
            silent += len(found) < SPANS and not said
            least = min(least, len(found))
            if wrong or (len(found) < SPANS and not said):
                print(f"round {number}: byte {at} of {file.name}: {len(wrong)} altered, {len(found)} found, {said}")
            server.end()
            shutil.rmtree(store)
    verdict(
        altered == 0 and silent == 0,
        f"{options.rounds} flips: {starts} starts, {altered} altered spans, {silent} losses in silence, "
        f"at least {least} of {SPANS} spans found",
    )


main()
