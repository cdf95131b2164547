"""A gRPC server with a pool of threads, with a pool of psycopg, redis-py and requests."""

import os
from concurrent.futures import ThreadPoolExecutor

import grpc
import redis
import requests
from psycopg_pool import ConnectionPool
from shared import DATABASE_URL, LEAF, REDIS_PORT

protos, services = grpc.protos_and_services("shop.proto")
cache = redis.Redis(host="127.0.0.1", port=REDIS_PORT)
pool = ConnectionPool(DATABASE_URL, min_size=2, max_size=10, open=True)
http = requests.Session()
http.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=32))
threads = ThreadPoolExecutor(32)


def get(path):
    return http.get(f"{LEAF}{path}").text


def item(id):
    with pool.connection() as connection:
        return connection.execute("SELECT name, stock FROM items WHERE id = %s", (id,)).fetchone()


class Shop(services.ShopServicer):
    def Seq(self, request, context):
        cache.get(f"item:{request.id}")
        item(request.id)
        price = get(f"/price/{request.id}")
        cache.set(f"item:{request.id}", price, ex=60)
        return protos.Reply(text=price)

    def Par(self, request, context):
        work = [
            threads.submit(cache.get, f"item:{request.id}"),
            threads.submit(item, request.id),
            threads.submit(get, f"/price/{request.id}"),
        ]
        return protos.Reply(text=str([done.result() for done in work]))

    def List(self, request, context):
        for part in ("price", "stock", "ship"):
            yield protos.Reply(text=get(f"/{part}/{request.id}"))


server = grpc.server(ThreadPoolExecutor(32))
services.add_ShopServicer_to_server(Shop(), server)
server.add_insecure_port(f"127.0.0.1:{os.environ['PORT']}")
server.start()
server.wait_for_termination()
