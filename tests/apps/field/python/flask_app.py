"""Flask with a pool of psycopg, redis-py, and requests that keeps no connection."""

import json
from concurrent.futures import ThreadPoolExecutor

import redis
import requests
from flask import Flask, jsonify, stream_with_context
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool
from shared import BACK, DATABASE_URL, LEAF, REDIS_PORT

app = Flask(__name__)
cache = redis.Redis(host="127.0.0.1", port=REDIS_PORT, decode_responses=True)
pool = ConnectionPool(DATABASE_URL, kwargs={"row_factory": dict_row}, min_size=2, max_size=10, open=True)
threads = ThreadPoolExecutor(32)


def get(url):
    return requests.get(url).json()


def item(id):
    with pool.connection() as connection:
        return connection.execute("SELECT name, stock FROM items WHERE id = %s", (id,)).fetchone()


@app.get("/seq/<id>")
def seq(id):
    cached = cache.get(f"item:{id}")
    row = item(id)
    price = get(f"{LEAF}/price/{id}")
    cache.set(f"item:{id}", json.dumps(price), ex=60)
    return jsonify(id=id, cached=cached, row=row, price=price)


@app.get("/par/<id>")
def par(id):
    work = [
        threads.submit(cache.get, f"item:{id}"),
        threads.submit(item, id),
        threads.submit(get, f"{LEAF}/price/{id}"),
        threads.submit(get, f"{LEAF}/stock/{id}"),
    ]
    return jsonify([done.result() for done in work])


@app.get("/tx/<id>")
def tx(id):
    with pool.connection() as connection:
        connection.execute("INSERT INTO orders (id, item) VALUES (%s, %s)", (id, "book"))
        connection.execute("UPDATE orders SET state = 'paid' WHERE id = %s", (id,))
    with cache.pipeline() as pipe:
        pipe.delete(f"item:{id}").incr(f"sold:{id}").execute()
    return jsonify(id=id, leaf=get(f"{LEAF}/ship/{id}"))


@app.get("/nest/<id>")
def nest(id):
    seen = cache.incr(f"seen:{id}")
    found, price = threads.map(get, (f"{BACK}/seq/{id}", f"{LEAF}/price/{id}"))
    return jsonify(id=id, seen=seen, item=found, price=price)


@app.get("/stream/<id>")
def stream(id):
    @stream_with_context
    def lines():
        for part in ("price", "stock", "ship"):
            yield json.dumps(get(f"{LEAF}/{part}/{id}")) + "\n"
        yield json.dumps(cache.incr(f"seen:{id}")) + "\n"

    return app.response_class(lines(), mimetype="application/x-ndjson")
