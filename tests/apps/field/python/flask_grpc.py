"""Flask that calls gRPC services from threads, one channel for all."""

import grpc
import redis
from flask import Flask, jsonify
from shared import BACK, REDIS_PORT

protos, services = grpc.protos_and_services("shop.proto")
app = Flask(__name__)
cache = redis.Redis(host="127.0.0.1", port=REDIS_PORT)
shop = services.ShopStub(grpc.insecure_channel(BACK.removeprefix("http://")))


@app.get("/seq/<id>")
def seq(id):
    seen = cache.incr(f"seen:{id}")
    reply = shop.Seq(protos.Item(id=id), metadata=(("x-item", id),))
    return jsonify(id=id, seen=seen, text=reply.text)


@app.get("/par/<id>")
def par(id):
    calls = [call.future(protos.Item(id=id), metadata=(("x-item", id),)) for call in (shop.Seq, shop.Par)]
    return jsonify(id=id, text=[call.result().text for call in calls])


@app.get("/list/<id>")
def list_(id):
    replies = [reply.text for reply in shop.List(protos.Item(id=id), metadata=(("x-item", id),))]
    return jsonify(id=id, text=replies, seen=cache.incr(f"seen:{id}"))
