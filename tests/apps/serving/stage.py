"""The common part of all files of servers/: one real server, one real client, and a record of the client's operations.

A file servers/NAME.py defines a subclass of `Server`; serve.py runs it. The run, talked about over stdin and stdout:

1. `skip REASON` and the end, if a program or package is missing.
2. A network namespace and a temporary folder of its own, the server, and `LATE` connections that are opened and used
   *before* anybody traces. Then `ready`.
3. On `go` (tracing began): the list of operations on each of those connections, on `FRESH` new ones one after another,
   and on `PARALLEL` new ones at once. Then `done`, when the connections are closed.
4. At the end of stdin, or when it is told to end, the processes it started end, by their pids.

The truth file has JSON lines. The first has `ports` (of the servers), `also` (operations that the client's library or
the server makes by itself, as `protocol` or `protocol operation`: they must look alike on both ends, but are not
counted) and `secrets`. Each other line is one operation: `protocol`, `operation`, `target`, `status` (as
`wirespan.status` writes it), `attrs` (those that must be so), `late`, `start` and `end` (Unix ns, around the call),
`port` (the server's) and `end_port` (the client's, 0: not known).
"""

import contextlib
import importlib
import json
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time

import services

APPS = pathlib.Path(__file__).resolve().parents[1]
CACHE = APPS.parents[1] / "target" / "servers"  # fetch/fetch.py fetches and builds these
READY_SECONDS = 90


class Server:
    """One real server with its client. Subclasses say what they need, how to start it, and what the client does."""

    protocol = ""  # of its spans
    port = 0
    more_ports = ()  # of the same server, or behind it
    programs = ()  # on PATH
    modules = ()  # of Python, in the venv
    files = ()  # below CACHE
    also = ()  # see above
    LATE, FRESH, PARALLEL = 2, 2, 4

    def __init__(self, work, truth):
        self.work = work
        self.children = []
        self.truth_file = truth
        self.lock = threading.Lock()
        self.here = threading.local()
        token = secrets.token_hex(8)
        self.token = f"zq{token}"

    # --- defined by a subclass -------------------------------------------------------------------------------------

    def start(self):
        """Starts the server(s)."""

    def ready(self):
        """Returns when the server can be used."""
        self.wait_port(self.port)

    def prepare(self):
        """Makes what the operations need; not traced."""

    def open(self):
        """A connection."""

    def greet(self, connection):
        """Records the operations of opening a connection, if it is traced from its start."""

    def warm(self, connection):
        """Uses a connection before the tracing starts."""

    def use(self, connection):
        """The list of operations."""

    def close(self, connection):
        connection.close()

    def end_port(self, connection):
        """The client's port, 0 if it cannot be known."""
        return 0

    # --- used by a subclass ----------------------------------------------------------------------------------------

    def secret(self, kind):
        """A value that must be found nowhere."""
        return f"{self.token}{kind}"

    @property
    def late(self):
        return self.here.late

    @contextlib.contextmanager
    def call(self, operation, target="", status="ok", **more):
        """Records the operation in the `with` block. The block may change the record that it gets."""
        record = {
            "protocol": self.protocol,
            "operation": operation,
            "target": target,
            "status": status,
            "attrs": {},
            "late": self.late,
            "port": self.port,
            "end_port": self.here.port,
            "start": time.time_ns(),
            **more,
        }
        yield record
        record["end"] = time.time_ns()
        self.write(record)

    def opened(self, operation, target="", **more):
        """Records the operation by which this connection was opened."""
        with self.call(operation, target, **more) as record:
            record["start"] = self.here.opened

    def also_seen(self, record, **changed):
        """Another record of the same time: a second hop, a second message of the same call."""
        self.write({"end": time.time_ns(), **record, **changed})

    def write(self, record):
        with self.lock:
            self.truth.write(json.dumps(record) + "\n")
            self.truth.flush()

    def spawn(self, *command, env=None, user=None, cwd=None, stdin=None):
        """Starts a process that ends with this one; its output goes to a log."""
        log = open(self.work / f"{pathlib.Path(str(command[0])).name}.log", "ab")
        child = subprocess.Popen(
            [str(w) for w in command],
            stdin=stdin or subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=cwd or self.work,
            user=user,
            env={**os.environ, **(env or {})},
            start_new_session=True,
            preexec_fn=services.end_with_parent,
        )
        log.close()
        self.children.append(child)
        return child

    def file(self, name, text):
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def wait_port(self, port):
        def connected():
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        self.wait(connected, f"an answer on port {port}")

    def wait(self, attempt, what):
        """Until it is true; an exception counts as no."""
        deadline = time.monotonic() + READY_SECONDS
        last = None
        while True:
            try:
                if result := attempt():
                    return result
            except Exception as error:  # noqa: BLE001 - whatever a client library raises while its server starts
                last = error
            for child in self.children:
                if child.poll() not in (None, 0):
                    raise SystemExit(f"{child.args[0]} ended with code {child.returncode}:\n{self.logs()}")
            if time.monotonic() > deadline:
                raise SystemExit(f"never: {what} ({last})\n{self.logs()}")
            time.sleep(0.05)

    def logs(self):
        return "\n".join(
            f"--- {p.name}\n{p.read_text(errors='replace')[-1500:]}" for p in sorted(self.work.rglob("*.log"))
        )

    # --- the run ---------------------------------------------------------------------------------------------------

    def missing(self):
        os.environ["PATH"] += ":/usr/sbin:/usr/local/sbin:/sbin:/usr/local/go/bin"
        for program in self.programs:
            if not shutil.which(program):
                return f"needs {program}"
        for module in self.modules:
            try:
                importlib.import_module(module)
            except ImportError:
                return f"needs Python's {module} (tests/apps/fetch/fetch.py)"
        for file in self.files:
            if not list(CACHE.glob(file)):
                return f"needs target/servers/{file} (tests/apps/fetch/fetch.py)"
        return None

    def session(self, connection, late):
        self.here.late, self.here.port = late, self.end_port(connection)
        if not late:
            self.greet(connection)
        self.use(connection)

    def new_session(self):
        self.here.late, self.here.port = False, 0
        opened = time.time_ns()
        connection = self.open()
        self.here.opened = opened
        try:
            self.session(connection, False)
        finally:
            self.close(connection)

    def perform(self, early):
        for connection in early:
            self.session(connection, True)
            self.close(connection)
        for _ in range(self.FRESH):
            self.new_session()
        errors = []

        def one():
            try:
                self.new_session()
            except BaseException as error:  # noqa: BLE001 - told below
                errors.append(error)

        threads = [threading.Thread(target=one) for _ in range(self.PARALLEL)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def end(self):
        services.end(self.children)

    def run(self):
        self.start()
        self.ready()
        self.here.late, self.here.port = True, 0
        self.prepare()
        early = []
        for _ in range(self.LATE):
            early.append(self.open())
            self.warm(early[-1])
        with open(self.truth_file, "w") as self.truth:
            self.write(
                {
                    "ports": [self.port, *self.more_ports],
                    "also": list(self.also),
                    "secrets": [self.token],
                    "from_start": self.LATE == 0,
                }
            )
            print("ready", flush=True)
            if sys.stdin.readline().strip() != "go":
                return
            time.sleep(0.2)
            self.perform(early)
        print("done", flush=True)
        sys.stdin.read()


class Client(Server):
    """A server whose client is a separate program. It prints `ready`, and answers each line of its stdin."""

    def command(self):
        """The command that starts a client."""
        raise NotImplementedError

    def open(self):
        with open(self.work / "client.log", "ab") as log:
            client = subprocess.Popen(
                [str(w) for w in self.command()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self.work,
            )
        self.children.append(client)
        line = client.stdout.readline()
        assert line == "ready\n", f"{line}\n{self.logs()}"
        return client

    def close(self, client):
        client.stdin.close()
        client.wait(20)

    def ask(self, client, *words):
        print(*words, file=client.stdin, flush=True)
        return client.stdout.readline().strip()


class JavaEnds(Client):
    """…both ends of which are one class of `jars/`, run as `server PORT` and as `client PORT`."""

    programs = ("java",)
    folder = main = ""  # below CACHE, with its libraries and, as FOLDER-classes, the class; its name
    options = ()
    LATE, FRESH, PARALLEL = 1, 1, 1  # a client is a process

    def java(self, end):
        path = f"{CACHE}/{self.folder}-classes:{CACHE}/{self.folder}/*"
        return [
            "java",
            "-Xmx128m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            *self.options,
            "-cp",
            path,
            self.main,
            end,
            self.port,
        ]

    def start(self):
        self.spawn(*self.java("server"))

    def command(self):
        return self.java("client")


class JavaOrders(JavaEnds):
    """…that speak of `Orders`: calls, large ones, exceptions."""

    service = ""  # as the protocol names it

    def warm(self, client):
        self.ask(client, "echo", "x")

    def use(self, client):
        for method, what, said in (
            ("echo", "echo", "ok"),
            ("echo", "large", "ok"),
            ("list", "list", "ok"),
            ("missing", "missing", "failed"),
        ):
            for _ in range(3):
                with self.call(method, self.service, "ok" if said == "ok" else "server-error"):
                    assert self.ask(client, what, self.secret("value")) == said
