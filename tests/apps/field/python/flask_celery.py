"""Flask that gives work to Celery, at once, in a chain, and with a retry."""

from celery_jobs import pack, pay, ship
from flask import Flask, jsonify

app = Flask(__name__)


@app.get("/job/<id>")
def job(id):
    ship.delay(id)
    return jsonify(id=id)


@app.get("/chain/<id>")
def chain(id):
    pack.delay(id)
    return jsonify(id=id)


@app.get("/retry/<id>")
def retry(id):
    pay.delay(id)
    return jsonify(id=id)
