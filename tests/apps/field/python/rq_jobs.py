"""Jobs of RQ."""

import psycopg
import requests
from shared import DATABASE_URL, LEAF


def ship(id):
    with psycopg.connect(DATABASE_URL) as connection:
        connection.execute("INSERT INTO orders (id, item) VALUES (%s, %s)", (id, "book"))
    requests.get(f"{LEAF}/ship/{id}")


def pack(id):
    requests.get(f"{LEAF}/pack/{id}")
