#!/usr/bin/env python3
"""Floods the OTLP port of a server whose disk is small, frees room, and compares answers with the store. Needs root."""

import argparse
import os
import pathlib
import sys
import tempfile
import time

from server import Server, verdict


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--spans", type=int, default=1_000_000)
    options.add_argument("--disk-mib", type=int, default=96)
    options = options.parse_args()
    if "WIRESPAN_OWN_MOUNTS" not in os.environ:
        # The small disk is seen by this script and its server only.
        os.environ["WIRESPAN_OWN_MOUNTS"] = "yes"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])
    with tempfile.TemporaryDirectory() as directory:
        store = pathlib.Path(directory) / "store"
        store.mkdir()
        mount = f"mount -t tmpfs -o size={options.disk_mib}m tmpfs {store}"
        if os.system(mount) != 0:
            raise SystemExit("the small disk cannot be mounted: root is needed")
        ballast = store / "ballast"
        server = Server(directory, store=store)
        accepted, refused, other, n, full = 0, 0, 0, 1, False
        while n <= options.spans:
            if n > options.spans // 3 and not full:
                ballast.write_bytes(bytes((options.disk_mib - 64) << 20 if options.disk_mib > 64 else 0))
                full = True
            if n > options.spans * 2 // 3 and ballast.exists():
                ballast.unlink()
                time.sleep(2)
            match server.report(n, 1000):
                case 200:
                    accepted += 1000
                case 429 | 503:
                    refused += 1000
                case _:
                    other += 1000
            n += 1000
        told = server.status()
        status = told["store"]
        stages = [stage for stage in told["agent"]["stages"] if stage["name"] == "store"]
        counters = [counter for stage in stages for counter in stage["counters"]]
        forgotten = sum(c["value"] for c in counters if c["name"].startswith("dropped_"))
        server.end()
        os.system(f"umount {store}")
    verdict(
        status["spans"] + forgotten == accepted and other == 0 and refused > 0,
        f"{accepted} spans answered 200, {refused} refused, {other} otherwise; {status['spans']} stored",
    )


main()
