"""What the Python services share: where their servers are."""

import os

REDIS_PORT = int(os.environ["REDIS_PORT"])
DATABASE_URL = os.environ["DATABASE_URL"]
LEAF = os.environ["LEAF_URL"]
BACK = os.environ.get("BACK_URL", "")
