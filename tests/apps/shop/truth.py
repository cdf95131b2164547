"""The common part of the shop's Python services: addresses from the environment, and the record of their requests."""

import itertools
import json
import os


def address(name):
    host, port = os.environ[name].rsplit(":", 1)
    return host, int(port)


def text(pair):
    return f"{pair[0]}:{pair[1]}"


class Truth:
    """Appends one JSON line per finished call; one write each, so that nothing is lost when the process is ended."""

    def __init__(self, service):
        path = os.path.join(os.environ["GROUND_TRUTH_DIR"], f"{service}.jsonl")
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.service = service
        self.numbers = itertools.count(1)

    def next_id(self):
        return f"{self.service}-{next(self.numbers)}"

    def write(self, **record):
        record["service"] = self.service
        os.write(self.fd, (json.dumps(record) + "\n").encode())
