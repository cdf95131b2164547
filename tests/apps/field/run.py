#!/usr/bin/env python3
"""Runs one stack of the field suite: real servers, the application, users; leaves nothing running.

usage: run.py --dir WORKDIR [--users K] [--requests N] [--settle S] [--pause-us US] [--routes A,B] STACK
       run.py --list

Everything runs in a network namespace of its own (root). WORKDIR gets truth/, logs/ and what the servers log.
Prints one JSON object: `stack`, and `requests`, `broken`, `seconds` of its users, or why it was `skipped`.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serving"))
import services  # noqa: E402 - from tests/apps/serving
from servers import SERVERS  # noqa: E402
from stack import CACHE, HERE  # noqa: E402
from stacks import STACKS  # noqa: E402

AMQP_URL = f"amqp://127.0.0.1:{SERVERS['rabbitmq'].port}"
KAFKA_URL = f"127.0.0.1:{SERVERS['kafka'].port}"
USERS, BACK, BEHIND = 7000, 7001, 7002  # where users come, the back, the front if a proxy is before it
MORE = 7010  # the first of the further services


class Skip(Exception):
    pass


class Run(services.Services):
    def __init__(self, stack, work, pause_us):
        super().__init__(work, "build")
        self.stack, self.pause_us = stack, str(pause_us)
        self.servers, self.build = [], work / "build"

    def compile(self):
        for name in ("load", "leaf"):
            cc = [
                "cc",
                "-std=gnu11",
                "-O2",
                "-Wall",
                "-Wextra",
                "-pthread",
                "-o",
                self.build / name,
                HERE / f"{name}.c",
            ]
            done = subprocess.run(cc, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode:
                raise SystemExit(done.stdout)

    def start(self):
        self.compile()
        for name in self.stack.servers:
            self.servers.append(SERVERS[name](self))
            self.servers[-1].start()
        urls = {
            "REDIS_PORT": str(SERVERS["redis"].port),
            "DATABASE_URL": f"postgresql://app@127.0.0.1:{SERVERS['postgresql'].port}/postgres",
            "MYSQL_URL": f"mysql://app:app@127.0.0.1:{SERVERS['mariadb'].port}/app",
            "MONGO_URL": f"mongodb://127.0.0.1:{SERVERS['mongodb'].port}",
            "LEAF_URL": f"http://127.0.0.1:{SERVERS['leaf'].port}",
            "BACK_URL": f"http{'s' if self.stack.tls else ''}://127.0.0.1:{BACK}",
            **{f"{name.upper()}_URL": f"http://127.0.0.1:{MORE + i}" for i, name in enumerate(self.stack.more)},
            **({"AMQP_URL": AMQP_URL} if "rabbitmq" in self.stack.servers else {}),
            **({"KAFKA_URL": KAFKA_URL} if "kafka" in self.stack.servers else {}),
            **(self.certificate() if self.stack.tls else {}),
        }
        front = BEHIND if self.stack.proxy else USERS
        apps = (
            *((name, app, MORE + i) for i, (name, app) in enumerate(self.stack.more.items())),
            ("jobs", self.stack.jobs, None),
            ("back", self.stack.back, BACK),
            ("front", self.stack.front, front),
            ("proxy", self.stack.proxy, USERS),
        )
        for name, app, port in apps:
            if app:
                if app.sources:
                    shutil.copytree(HERE / app.sources, CACHE / f"field_{app.sources}", dirs_exist_ok=True)
                places = {"port": port, "here": HERE, "cache": CACHE, "work": self.work, "front": front, **app.env}
                if app.config:
                    text = (HERE / app.config).read_text()
                    for place, value in places.items():
                        text = text.replace(f"@{place.upper()}@", str(value))
                    places["config"] = self.work / pathlib.Path(app.config).name
                    places["config"].write_text(text)
                command = [str(w).format(**places) for w in app.command]
                self.spawn(name, command, **{**urls, **app.env, "PORT": str(port)})
                if port:
                    self.wait_port(name, port)

    def certificate(self):
        """One certificate for all, which the clients of each language learn by a variable."""
        key, crt = self.work / "tls.key", self.work / "tls.crt"
        services.certificate(key, crt)
        trust = ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE")
        return {"TLS_CERT": str(crt), "TLS_KEY": str(key), **{name: str(crt) for name in trust}}

    def load(self, users, requests, routes):
        child = self.spawn("load", [self.build / "load", f"127.0.0.1:{USERS}", users, requests, ",".join(routes)])
        out, _ = child.communicate()
        if not out:
            raise SystemExit(f"the users failed:\n{self.logs()}")
        said = json.loads(out)
        if said["broken"]:
            print(self.logs(), file=sys.stderr)
        if self.stack.jobs:
            self.wait_for_jobs()
        return said

    def wait_for_jobs(self):
        """Jobs go on after the answers, some of them later: until the leaf has not been asked for a while. A consumer
        of Kafka may join its group seconds after the users have gone.
        """
        asked, seen, quiet = self.work / "truth" / "leaf.jsonl", -1, 0
        for _ in range(30):
            quiet = quiet + 1 if seen == (seen := asked.stat().st_size) and seen else 0
            if quiet == 2:
                return
            time.sleep(2)


def check(stack):
    for server in stack.servers:
        if why := SERVERS[server].missing(None):
            raise Skip(why)
    for app in (stack.front, stack.back, stack.proxy, stack.jobs, *stack.more.values()):
        for program in app.programs if app else ():
            if not shutil.which(program):
                raise Skip(f"needs {program}")
        for package in app.packages if app else ():
            said = subprocess.run(["dpkg-query", "-Wf", "${db:Status-Status}", package], capture_output=True, text=True)
            if said.stdout != "installed":
                raise Skip(f"needs the package {package}")
        for file in app.needs if app else ():
            if not (CACHE / file).exists():
                raise Skip(f"needs {file} (tests/apps/fetch/fetch.py)")


def main():
    parser = argparse.ArgumentParser(description="Runs one stack of the field suite.")
    parser.add_argument("stack", nargs="?", choices=[*STACKS], metavar="STACK")
    parser.add_argument("--dir", type=pathlib.Path)
    parser.add_argument("--users", type=int, default=10)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--settle", type=float, default=1, metavar="S", help="pause before the users come, seconds (1)")
    parser.add_argument("--pause-us", type=float, default=1000, help="mean time that the leaf takes, µs (1000)")
    parser.add_argument("--routes", help="some of the stack's routes, separated by commas")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    os.environ["PATH"] += ":/usr/sbin:/usr/local/go/bin"
    if args.list:
        print("\n".join(f"{name:18} {stack.what}" for name, stack in STACKS.items()))
        return
    if not args.dir or not args.stack:
        parser.error("--dir and STACK are needed")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    stack = STACKS[args.stack]
    services.own_network()
    run = Run(stack, args.dir.resolve(), args.pause_us)
    try:
        check(stack)
        run.start()
        time.sleep(args.settle)
        routes = args.routes.split(",") if args.routes else stack.routes
        print(json.dumps({"stack": args.stack, **run.load(args.users, args.requests, routes)}), flush=True)
        time.sleep(0.5)
        for server in run.servers:
            server.finish()
    except Skip as reason:
        print(json.dumps({"stack": args.stack, "skipped": str(reason)}), flush=True)
    finally:
        run.end()


if __name__ == "__main__":
    main()
