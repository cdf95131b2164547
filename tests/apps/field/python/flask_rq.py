"""Flask that gives work to RQ."""

import redis
from flask import Flask, jsonify
from rq import Queue
from rq_jobs import pack, ship
from shared import REDIS_PORT

app = Flask(__name__)
queue = Queue(connection=redis.Redis(host="127.0.0.1", port=REDIS_PORT))


@app.get("/job/<id>")
def job(id):
    queue.enqueue(ship, id)
    return jsonify(id=id)


@app.get("/two/<id>")
def two(id):
    queue.enqueue(pack, id)
    queue.enqueue(ship, id)
    return jsonify(id=id)
