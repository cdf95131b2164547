#!/usr/bin/env python3
"""Runs one real server with its client, and writes what the client did; stage.py says how.

usage: serve.py NAME TRUTH_FILE      waits for `go` on stdin when the server is ready
       serve.py NAME --alone         traces nothing, waits for nothing, prints the truth
"""

import importlib.util
import os
import pathlib
import signal
import sys
import tempfile

import services
import stage


def load(name):
    """The subclass that servers/NAME.py defines. The folder is not on the path: its files have names of libraries."""
    spec = importlib.util.spec_from_file_location(f"server_{name}", stage.APPS / "servers" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return next(
        v
        for v in vars(module).values()
        if isinstance(v, type) and v.__module__ == module.__name__ and issubclass(v, stage.Server)
    )


def main(name, truth):
    alone = truth == "--alone"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.environ.setdefault("HOME", "/root")
    with tempfile.TemporaryDirectory(prefix="wirespan-server-", ignore_cleanup_errors=True) as folder:
        work = pathlib.Path(folder)
        os.chmod(work, 0o755)  # servers that refuse to be root have to reach their files
        server = load(name)(work, work / "truth.jsonl" if alone else pathlib.Path(truth))
        if reason := server.missing():
            print(f"skip {reason}", flush=True)
            return
        services.own_network()
        if alone:
            sys.stdin = open(server.file("stdin", "go\n"))
        try:
            server.run()
            if alone:
                print(server.truth_file.read_text(), end="")
        finally:
            server.end()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
