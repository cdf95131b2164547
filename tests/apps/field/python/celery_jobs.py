"""Celery over Redis or RabbitMQ: jobs that call a database and the leaf, one of which asks for another."""

import os

import psycopg
import requests
from celery import Celery
from shared import DATABASE_URL, LEAF, REDIS_PORT

app = Celery("shop", broker=os.environ.get("AMQP_URL", f"redis://127.0.0.1:{REDIS_PORT}/1"))


@app.task
def ship(id):
    with psycopg.connect(DATABASE_URL) as connection:
        connection.execute("INSERT INTO orders (id, item) VALUES (%s, %s)", (id, "book"))
    requests.get(f"{LEAF}/ship/{id}")


@app.task
def pack(id):
    requests.get(f"{LEAF}/pack/{id}")
    ship.delay(id)


@app.task(bind=True, max_retries=3)
def pay(self, id):
    requests.get(f"{LEAF}/pay/{id}")
    if self.request.retries == 0:
        raise self.retry(countdown=0.2)
