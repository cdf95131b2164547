#!/usr/bin/env python3
"""Starts the demo shop, sends it customers, writes the ground truth, and leaves nothing running.

    load → gateway (nginx) → storefront (Python) → catalog (Go) → pricing (C)
                                                 → cart (Java)  → redis
                                                 → redis

With --with payment,shipping, as the demo does, checkouts are also paid (TLS, PostgreSQL) and shipped (Kafka); see
more.py.

usage: run.py --dir WORKDIR [--load N] [--users K] [--rate R] [--seed S] [--base-port P] [--with PARTS] [--netns]
       run.py --build-only

Without --load it serves until SIGINT or SIGTERM, with customers only if --rate is given. WORKDIR gets truth/ (see
../README.md), logs/ and the files of the servers. Progress goes to stderr, the customers' summary (JSON) to stdout.
"""

import argparse
import ctypes
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

import more

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE / "build"
SERVICES = ["gateway", "storefront", "catalog", "cart", "pricing", "redis"]  # ports: base, base + 1, …
MORE = ["payment", "postgres", "shipping", "kafka", "controller"]  # the same, behind those
PARTS = {"payment": ["payment", "postgres"], "shipping": []}  # services that must answer before customers come
SLOW = ("kafka", "shipping", "warehouse")  # the shop works without these
TOOLS = {  # command → package of Debian and Ubuntu
    "nginx": "nginx",
    "redis-server": "redis-server",
    "go": "golang-go",
    "javac": "default-jdk-headless",
    "java": "default-jdk-headless",
    "cc": "gcc",
    "ip": "iproute2",
}
READY_SECONDS = 60
SETTLE_SECONDS = 0.5  # a server writes its record after its answer has left


def say(text):
    print(f"shop: {text}", file=sys.stderr, flush=True)


def fail(text):
    say(text)
    sys.exit(1)


def check_tools():
    os.environ["PATH"] += ":/usr/sbin:/usr/local/go/bin"
    lost = sorted({package for tool, package in TOOLS.items() if not shutil.which(tool)})
    if lost:
        fail(f"missing programs; install them with: apt-get install {' '.join(lost)}")


def build(parts):
    """Compiles what is older than its sources."""
    BUILD.mkdir(exist_ok=True)
    go = dict(os.environ, GOTOOLCHAIN="local", GOFLAGS="", GOPROXY="off", CGO_ENABLED="0")
    if "HOME" not in go:
        go.setdefault("GOCACHE", str(BUILD / "go-cache"))
    c = ["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]
    steps = [
        ("pricing", ["pricing.c", "truth.h"], c + [BUILD / "pricing", "pricing.c"], None),
        ("load", ["load.c", "truth.h"], c + [BUILD / "load", "load.c"], None),
        ("Cart.class", ["Cart.java", "Lines.java"], ["javac", "-d", BUILD, "Cart.java", "Lines.java"], None),
        ("catalog", ["catalog/main.go", "catalog/go.mod"], ["go", "build", "-o", BUILD / "catalog", "."], go),
    ]
    for each in steps:
        step(*each)
    if "shipping" in parts:
        more.build(BUILD, step)


def step(name, sources, command, env=None):
    made = BUILD / name
    if made.exists() and all((HERE / s).stat().st_mtime <= made.stat().st_mtime for s in sources):
        return
    say(f"building {name}")
    cwd = (HERE / sources[0]).parent
    done = subprocess.run(
        [str(w) for w in command], cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        fail(f"building {name} failed:\n{done.stdout}")


def nginx_conf(work, ports):
    log = work / "logs"
    tmp = "\n".join(
        f"    {kind}_temp_path {work}/nginx/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    common = "proxy_set_header X-Request-ID $request_id; proxy_set_header Host shop; proxy_next_upstream off;"
    return f"""
daemon off;
worker_processes 2;
{"user root;" if os.geteuid() == 0 else ""}
pid {work}/nginx/pid;
error_log {log}/gateway-errors.log warn;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_requests 1000000;
    keepalive_timeout 3600s;
{tmp}
    upstream storefront {{
        server 127.0.0.1:{ports["storefront"]}; keepalive 256; keepalive_requests 1000000; keepalive_timeout 3600s;
    }}
    server {{
        listen 127.0.0.1:{ports["gateway"]} backlog=1024;
        add_header X-Request-ID $request_id always;
        location / {{ proxy_pass http://storefront; proxy_http_version 1.1; proxy_set_header Connection ""; {common} }}
        location /legacy/ {{ proxy_pass http://storefront; proxy_http_version 1.0; {common} }}
        location /static/ {{ default_type image/svg+xml; return 200 '<svg xmlns="http://www.w3.org/2000/svg"/>'; }}
    }}
}}
"""


class Shop:
    def __init__(self, work, base_port, parts):
        self.work = work
        self.ports = {name: base_port + i for i, name in enumerate(SERVICES + MORE)}
        self.parts = parts
        self.children = []
        self.ending = False
        self.paced = False

    def at(self, name):
        return f"127.0.0.1:{self.ports[name]}"

    def python(self, name, script, **env):
        self.start(name, [sys.executable, script], **env)

    def start(self, name, command, user=None, cwd=None, **env):
        log = open(self.work / "logs" / f"{name}.log", "ab")
        stdout = subprocess.PIPE if name == "load" else log
        full = dict(os.environ, GROUND_TRUTH_DIR=str(self.work / "truth"), PYTHONDONTWRITEBYTECODE="1", **env)
        libc = ctypes.CDLL(None)
        child = subprocess.Popen(
            [str(w) for w in command],
            cwd=cwd or self.work,
            user=user,
            env=full,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=log,
            start_new_session=True,
            preexec_fn=lambda: libc.prctl(1, signal.SIGTERM),  # PR_SET_PDEATHSIG: never outlive this program
        )
        log.close()
        self.children.append((name, child))
        return child

    def start_all(self):
        for folder in ("truth", "logs", "nginx", "redis"):
            (self.work / folder).mkdir(parents=True, exist_ok=True)
        for old in (self.work / "truth").glob("*.jsonl"):
            old.unlink()
        (self.work / "nginx" / "conf").write_text(nginx_conf(self.work, self.ports))
        self.start(
            "redis",
            [
                "redis-server",
                "--bind",
                "127.0.0.1",
                "--port",
                self.ports["redis"],
                "--save",
                "",
                "--appendonly",
                "no",
                "--dir",
                self.work / "redis",
            ],
        )
        self.start("pricing", [BUILD / "pricing"], LISTEN=self.at("pricing"))
        self.start("catalog", [BUILD / "catalog"], LISTEN=self.at("catalog"), PRICING=self.at("pricing"))
        java = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-Xss256k", "-cp", BUILD, "Cart"]
        self.start("cart", java, LISTEN=self.at("cart"), REDIS=self.at("redis"))
        upstreams = {name.upper(): self.at(name) for name in ("catalog", "cart", "redis")}
        if "payment" in self.parts:
            upstreams.update(more.payment(self))
        if "shipping" in self.parts:
            upstreams["SHIPPING"] = self.at("shipping")
        self.python("storefront", HERE / "storefront.py", LISTEN=self.at("storefront"), **upstreams)
        self.start("gateway", ["nginx", "-p", self.work / "nginx", "-c", self.work / "nginx" / "conf"])

    def wait_ready(self):
        deadline = time.monotonic() + READY_SECONDS
        names = SERVICES + [name for part in self.parts for name in PARTS[part]]
        for name in names:
            port = self.ports[name]
            while True:
                self.check_alive()
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                if time.monotonic() > deadline:
                    fail(f"{name} does not answer on port {port}; see {self.work}/logs/{name}.log")
                time.sleep(0.05)
        say(f"{len(names)} services are up, http://{self.at('gateway')}/home")

    def check_alive(self):
        for name, child in self.children:
            if name in SLOW and child.poll() is not None:
                say(f"{name} ended with code {child.returncode}; the shop goes on; see {self.work}/logs/{name}.log")
                self.children = [(n, c) for n, c in self.children if c is not child]
            elif name != "load" and child.poll() is not None:
                tail = (self.work / "logs" / f"{name}.log").read_text(errors="replace")[-600:]
                fail(f"{name} ended with code {child.returncode}: {tail.strip() or 'no output'}")

    def customers(self, args):
        command = [BUILD / "load", "--to", self.at("gateway"), "--users", args.users, "--requests", args.load or 0]
        command += ["--rate", args.rate or 0, "--seed", args.seed]
        self.paced = bool(args.rate)
        say(
            f"{args.users} customers, "
            + (f"{args.rate:g} requests per second" if args.rate else f"{args.load} requests")
        )
        return self.start("load", command)

    def wait(self, load):
        """Until the customers are done; for ever if there are none or their number is not bounded."""
        shown = time.monotonic()
        while not self.ending:
            self.check_alive()
            if load and load.poll() is not None:
                return
            time.sleep(0.05)
            if load and not self.paced and time.monotonic() - shown > 5:
                shown = time.monotonic()
                with open(self.work / "truth" / "load.jsonl", "rb") as done:
                    say(f"{sum(1 for _ in done)} requests done")

    def end(self):
        """Ends every child by its pid: customers first, so that the records are whole."""
        for name, child in reversed(self.children):
            if name == "load":
                self.end_one(name, child)
                time.sleep(SETTLE_SECONDS)
        for _, child in self.children:
            if child.poll() is None:
                child.terminate()
        for name, child in self.children:
            self.end_one(name, child)

    @staticmethod
    def end_one(name, child):
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                say(f"{name} does not end, killing it")
                child.kill()
                child.wait()


def own_network():
    """Moves this process into a network namespace of its own, with the loopback up."""
    clone_newnet = 0x40000000
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(clone_newnet):
        fail(f"no network namespace: {os.strerror(ctypes.get_errno())} (run as root)")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def main():
    parser = argparse.ArgumentParser(description="The demo shop.")
    parser.add_argument("--dir", type=pathlib.Path, help="folder for truth, logs and data")
    parser.add_argument("--load", type=int, metavar="N", help="send N requests, then end")
    parser.add_argument("--users", type=int, default=10, metavar="K", help="concurrent customers (10)")
    parser.add_argument("--rate", type=float, metavar="R", help="requests per second, all customers together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--base-port", type=int, default=8000, help="gateway's port; the others follow (8000)")
    parser.add_argument("--netns", action="store_true", help="run in a network namespace of its own (root)")
    parser.add_argument(
        "--with",
        dest="parts",
        default="",
        metavar="PARTS",
        help="payment, shipping: more services, as far as they are installed",
    )
    parser.add_argument("--build-only", action="store_true")
    args = parser.parse_args()
    if not args.dir and not args.build_only:
        parser.error("--dir is needed")
    parts = [part for part in args.parts.split(",") if part]
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--with {unknown.pop()}: there are {', '.join(PARTS)}")
    check_tools()
    for part in list(parts):
        if lost := more.missing(part):
            parts.remove(part)
            if not args.build_only:
                say(f"without {part}, as there is no {lost}")
    build(parts)
    if args.build_only:
        return 0
    if args.netns:
        own_network()
    shop = Shop(args.dir.resolve(), args.base_port, parts)

    def on_signal(*_):
        shop.ending = True

    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGTERM, on_signal)
    load = None
    try:
        shop.start_all()
        shop.wait_ready()
        if args.load or args.rate:
            load = shop.customers(args)
        if "shipping" in parts:
            more.shipping(shop, BUILD)
        shop.wait(load)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        shop.end()
        if load:
            print(load.stdout.read().decode(), end="", flush=True)
    say("ended")
    return 1 if load and load.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
