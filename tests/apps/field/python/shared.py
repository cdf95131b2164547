"""What the Python services share: where their servers are."""

import os
import urllib.parse

REDIS_PORT = int(os.environ["REDIS_PORT"])
DATABASE_URL = os.environ["DATABASE_URL"]
LEAF = os.environ["LEAF_URL"]
BACK = os.environ.get("BACK_URL", "")


def mysql():
    """Where MariaDB is, as drivers of Python want it."""
    url = urllib.parse.urlsplit(os.environ["MYSQL_URL"])
    end = {"host": url.hostname, "port": url.port, "user": url.username}
    return end | {"password": url.password, "db": url.path[1:]}
