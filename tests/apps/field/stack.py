"""What describes a stack of the field suite: its applications, what they use, and its aims."""

import dataclasses
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[3]
CACHE = ROOT / "target" / "servers"  # what tests/apps/fetch/fetch.py has fetched
HERE = pathlib.Path(__file__).resolve().parent

# Exact traces aimed at, per cent, with 1, 10, 50 and 200 users.
THREADS = (100, 99.9, 99.9, 99.9)
LOOPS = (100, 99, 99, 97)
MULTIPLEXED_JAVA = (100, 98, 97, 97)
GRPC_JAVA = (100, 92, 92, 92)
QUEUES = (99.9, 99.9, 99.9, 99.9)
REACTORS = (100, 85, 0, 0)


@dataclasses.dataclass
class App:
    """One service. `command` may use {port}, {here}, {cache}, {work}; `env` goes to it with URLs of what it uses."""

    command: list
    env: dict = dataclasses.field(default_factory=dict)
    needs: tuple = ()  # files below CACHE
    sources: str = ""  # folder here whose files are copied to CACHE/field_FOLDER, beside the packages they import
    programs: tuple = ()  # on PATH
    packages: tuple = ()  # of the system
    config: str = ""  # file here: @PORT@, @FRONT@, @WORK@, names of `env` are replaced; its place is {config}


@dataclasses.dataclass
class Stack:
    what: str  # for people
    front: App
    aim: tuple
    routes: tuple = ("seq", "par", "tx", "nest")
    servers: tuple = ("leaf", "redis", "postgresql")
    back: App | None = None  # what `/nest/ID` of the front calls, at `/seq/ID`
    proxy: App | None = None  # in front of the front
    more: dict = dataclasses.field(default_factory=dict)  # further services; all know the one named X as X_URL
    jobs: App | None = None  # takes jobs from a queue, and serves nobody
    tls: bool = False  # front and back have TLS_CERT and TLS_KEY, and BACK_URL is https
