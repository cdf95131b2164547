"""The real servers that the applications use. Each writes down by itself what it was asked: the ground truth."""

import csv
import json
import os
import pathlib
import re
import shutil
import subprocess

from stack import CACHE

ID = re.compile(r"(?<![0-9a-f-])[0-9a-f]{12}(?![0-9a-f])")  # no part of a longer number, as ids of jobs are

POSTGRES = max(
    pathlib.Path("/usr/lib/postgresql").glob("*/bin"),
    default=pathlib.Path("/usr/lib/postgresql/bin"),
    key=lambda p: float(p.parent.name),
)


class Server:
    """A server that `run.py` starts. `asked()` returns what its own log says, in order: dictionaries with `port` (the
    caller's), `text`, and `id` (of the request for which it was asked; None: the driver's own).
    """

    name = ""
    port = 0

    def __init__(self, run):
        self.run, self.work = run, run.work / self.name

    def missing(self):
        return None

    def finish(self):
        """The users have gone; applications and servers still run."""


class Redis(Server):
    name, port = "redis", 6379

    def missing(self):
        return None if shutil.which("redis-server") else "needs redis-server"

    def start(self):
        self.work.mkdir()
        options = {"port": self.port, "save": "", "appendonly": "no", "dir": self.work, "bind": "127.0.0.1"}
        self.run.spawn("redis", ["redis-server", *(w for k, v in options.items() for w in (f"--{k}", v))])
        self.run.wait_port("redis", self.port)
        self.run.spawn("monitor", ["redis-cli", "-p", self.port, "monitor"], out=self.work / "monitor")

    @staticmethod
    def asked(work):
        line = re.compile(r'^[\d.]+ \[\d+ 127\.0\.0\.1:(\d+)\] "(\w+)"(.*)$')
        connections = {}
        for said in (work / "redis" / "monitor").read_text(errors="replace").splitlines():
            if found := line.match(said):
                port, command, rest = found.groups()
                key = ID.search(rest)
                one = {"port": int(port), "text": command.upper(), "id": key[0] if key else None}
                connections.setdefault(port, []).append(one)
        for commands in connections.values():
            yield from with_transactions(commands)


class Postgresql(Server):
    name, port = "postgresql", 5432
    TABLES = (
        "CREATE TABLE items (id text PRIMARY KEY, name text NOT NULL, stock int NOT NULL DEFAULT 10);"
        "CREATE TABLE orders (id text PRIMARY KEY, item text NOT NULL, state text NOT NULL DEFAULT 'new');"
    )

    def missing(self):
        return None if (POSTGRES / "initdb").exists() else "needs the server of PostgreSQL"

    def start(self):
        self.work.mkdir()
        data = self.work / "data"
        data.mkdir()
        shutil.chown(data, "postgres")
        how = {"user": "postgres", "cwd": "/", "env": {**os.environ, "HOME": str(data)}}
        subprocess.run(
            [POSTGRES / "initdb", "-D", data, "-U", "app", "-A", "trust", "-N", "--no-instructions", "-E", "UTF8"],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **how,
        )
        options = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "fsync": "off",
            "autovacuum": "off",
            "max_connections": "400",
            "log_destination": "jsonlog",
            "logging_collector": "on",
            "log_directory": data / "log",
            "log_filename": "statements",
            "log_statement": "all",
            "log_file_mode": "0644",
        }
        command = [POSTGRES / "postgres", "-D", data, *(f"-c{k}={v}" for k, v in options.items())]
        self.run.spawn("postgresql", command, user="postgres")
        self.run.wait_port("postgresql", self.port)
        psql = ["psql", "-q", "-h", "127.0.0.1", "-p", str(self.port), "-U", "app", "postgres", "-c", self.TABLES]
        for _ in range(50):
            if not subprocess.run(psql, stderr=subprocess.DEVNULL).returncode:
                return
        raise SystemExit("PostgreSQL does not take its tables")

    @staticmethod
    def asked(work):
        connections = {}
        for said in (work / "postgresql" / "data" / "log" / "statements.json").read_text().splitlines():
            said = json.loads(said)
            text = re.match(r"(?:statement|execute [^:]*): (.*)", said.get("message", ""), re.DOTALL)
            if text and said.get("remote_port"):
                found = ID.search(text[1]) or ID.search(said.get("detail", ""))
                one = {"port": int(said["remote_port"]), "text": text[1], "id": found[0] if found else None}
                connections.setdefault(one["port"], []).append(one)
        for statements in connections.values():
            yield from with_transactions(statements)


BEGINS, ENDS = (
    re.compile(r"begin|start transaction|set autocommit=0|multi$", re.I),
    re.compile(r"commit|rollback|exec$", re.I),
)


def with_transactions(statements):
    """The first and last statement of a transaction belong to the request whose statements it has."""
    begun, inside = [], None
    for one in statements:
        if BEGINS.match(one["text"]):
            begun, inside = [one], None
        elif ENDS.match(one["text"]):
            for each in [*begun, one]:
                each["id"] = inside
            begun, inside = [], None
        elif one["id"]:
            inside = one["id"]
    return statements


class Mariadb(Server):
    """Its general log is a table of comma-separated values. The list of connections, with their ports, is asked for at
    the end: drivers' pools are still open then. Calls of a connection that was closed before count for nobody.
    """

    name, port = "mariadb", 3306
    TABLES = (
        "CREATE DATABASE app;"
        "CREATE TABLE app.items (id varchar(20) PRIMARY KEY, name text NOT NULL, stock int NOT NULL DEFAULT 10);"
        "CREATE TABLE app.orders (id varchar(20) PRIMARY KEY, item text NOT NULL, state varchar(9) DEFAULT 'new');"
        "CREATE USER app@'127.0.0.1' IDENTIFIED BY 'app';"
        "GRANT ALL ON app.* TO app@'127.0.0.1'; SET GLOBAL general_log = 1;"
    )

    def missing(self):
        return None if shutil.which("mariadbd") else "needs mariadb-server"

    def start(self):
        self.work.mkdir()
        data = self.work / "data"
        common = ["--no-defaults", "--user=root", f"--datadir={data}"]
        install = ["mariadb-install-db", *common, "--skip-test-db", "--auth-root-authentication-method=normal"]
        subprocess.run(install, check=True, stdout=subprocess.DEVNULL)
        options = {
            "port": self.port,
            "bind-address": "127.0.0.1",
            "socket": self.work / "socket",
            "innodb-flush-log-at-trx-commit": 0,
            "innodb-buffer-pool-size": "32M",
            "skip-name-resolve": 1,
            "log-output": "TABLE",
        }
        self.run.spawn("mariadb", ["mariadbd", *common, *(f"--{k}={v}" for k, v in options.items())])
        self.run.wait_port("mariadb", self.port)
        self.ask(self.TABLES)

    def ask(self, sql):
        client = ["mariadb", "--no-defaults", "-N", "-u", "root", "-S", self.work / "socket", "-e", sql]
        return subprocess.run(client, check=True, stdout=subprocess.PIPE).stdout

    def finish(self):
        (self.work / "connections").write_bytes(self.ask("SELECT id, host FROM information_schema.processlist"))

    @staticmethod
    def asked(work):
        lines = (work / "mariadb" / "connections").read_text().splitlines()
        ports = {number: int(host.rpartition(":")[2]) for number, host in map(str.split, lines) if ":" in host}
        connections = {}
        for _, _, thread, _, kind, text in csv_rows(work / "mariadb" / "data" / "mysql" / "general_log.CSV"):
            if kind in ("Query", "Execute") and thread in ports:
                found = ID.search(text)
                one = {"port": ports[thread], "text": text, "id": found[0] if found else None}
                connections.setdefault(thread, []).append(one)
        for statements in connections.values():
            yield from with_transactions(statements)


def csv_rows(file):
    return csv.reader(file.read_text(errors="replace").splitlines(), escapechar="\\", doublequote=False)


class Leaf(Server):
    name, port = "leaf", 7900

    def start(self):
        self.run.spawn("leaf", [self.run.build / "leaf"], LISTEN=f"127.0.0.1:{self.port}", PAUSE_US=self.run.pause_us)
        self.run.wait_port("leaf", self.port)

    @staticmethod
    def asked(work):
        for line in (work / "truth" / "leaf.jsonl").read_text().splitlines():
            said = json.loads(line)
            yield {"port": said["port"], "text": said["path"], "id": said["path"].rpartition("/")[2]}


class Rabbitmq(Server):
    """A queue only: what it was asked is not the truth of anything."""

    name, port = "rabbitmq", 5672
    PROGRAM = pathlib.Path("/usr/lib/rabbitmq/bin/rabbitmq-server")

    def missing(self):
        return None if Rabbitmq.PROGRAM.exists() else "needs rabbitmq-server"

    def start(self):
        self.work.mkdir()
        conf = self.work / "rabbitmq.conf"
        conf.write_text(f"listeners.tcp.1 = 127.0.0.1:{self.port}\nloopback_users = none\nlog.console = true\n")
        env = {
            "HOME": self.work,
            "RABBITMQ_BASE": self.work,
            "RABBITMQ_CONFIG_FILE": conf,
            "RABBITMQ_MNESIA_BASE": self.work / "mnesia",
            "RABBITMQ_LOG_BASE": self.work,
            "RABBITMQ_NODENAME": "wirespan@localhost",
            "RABBITMQ_ENABLED_PLUGINS_FILE": self.work / "plugins",
            "RABBITMQ_PID_FILE": self.work / "pid",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+sbwt none +S 2:2 -start_epmd true",
            "RABBITMQ_LOGS": "-",
        }
        self.run.spawn("epmd", ["epmd", "-address", "127.0.0.1"])
        self.run.spawn("rabbitmq", [self.PROGRAM], **{k: str(v) for k, v in env.items()})
        self.run.wait_port("rabbitmq", self.port)

    @staticmethod
    def asked(work):
        return []


class Mongodb(Server):
    """Another server of its protocol, from memory, as no registry has MongoDB itself."""

    name, port = "mongodb", 27017
    JAVA = ("java", "-Xmx192m", "-XX:+UseSerialGC", "-cp", f"{CACHE}/mongo/*:{CACHE}/mongo-classes", "Mongo")

    def missing(self):
        if not shutil.which("java"):
            return "needs java"
        return None if (CACHE / "mongo-classes").exists() else "needs mongo (tests/apps/fetch/fetch.py)"

    def start(self):
        self.work.mkdir()
        self.run.spawn("mongodb", [*self.JAVA, self.port, self.work / "commands"])
        self.run.wait_port("mongodb", self.port)

    @staticmethod
    def asked(work):
        for line in (work / "mongodb" / "commands").read_text(errors="replace").splitlines():
            port, command, collection, document = line.split("\t", 3)
            found = ID.search(document)
            yield {"port": int(port), "text": f"{command} {collection}", "id": found[0] if found else None}


class Kafka(Server):
    """A queue only. Its topics have two partitions each, as one consumer reads them all."""

    name, port = "kafka", 9092
    TOPICS = ("ship", "pack", "pay")
    JAVA = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", CACHE / "kafka" / "*")

    def missing(self):
        if not shutil.which("java"):
            return "needs java"
        parts = ("kafka", "venv/bin/python")
        return next((f"needs {p} (tests/apps/fetch/fetch.py)" for p in parts if not (CACHE / p).exists()), None)

    def start(self):
        cluster, data = "wirespanwirespanwirespA", self.work / "data"
        data.mkdir(parents=True)
        (data / "meta.properties").write_text(f"version=1\ncluster.id={cluster}\nnode.id=1\n")
        options = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": "1@127.0.0.1:9093",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:9093",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": data,
            "num.network.threads": 2,
            "num.io.threads": 2,
            "num.partitions": 2,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
        }
        conf = self.work / "server.properties"
        conf.write_text("".join(f"{key}={value}\n" for key, value in options.items()))
        form = [*self.JAVA, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", conf, "--ignore-formatted"]
        subprocess.run(form, check=True, stdout=subprocess.DEVNULL)
        self.run.spawn("kafka", [*self.JAVA, "kafka.Kafka", conf])
        self.run.wait_port("kafka", self.port)
        make = (
            "from kafka.admin import KafkaAdminClient as A, NewTopic as T;"
            f"A(bootstrap_servers='127.0.0.1:{self.port}').create_topics([T(t, 2, 1) for t in {self.TOPICS}])"
        )
        for _ in range(20):
            if not subprocess.run([CACHE / "venv/bin/python", "-c", make], stderr=subprocess.DEVNULL).returncode:
                return
        raise SystemExit("Kafka does not make its topics")

    @staticmethod
    def asked(work):
        return []


SERVERS = {server.name: server for server in (Redis, Postgresql, Mariadb, Mongodb, Rabbitmq, Kafka, Leaf)}
