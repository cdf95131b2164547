"""Tornado with its own HTTP client, psycopg's asynchronous pool, redis.asyncio, and a pool of threads."""

import asyncio
import concurrent.futures
import datetime
import os

import redis.asyncio
import requests
import tornado.httpclient
import tornado.ioloop
import tornado.web
from psycopg_pool import AsyncConnectionPool
from shared import BACK, DATABASE_URL, LEAF, REDIS_PORT

cache = redis.asyncio.Redis(host="127.0.0.1", port=REDIS_PORT, decode_responses=True)
executor = concurrent.futures.ThreadPoolExecutor(8)
session = requests.Session()


class Handler(tornado.web.RequestHandler):
    async def fetch(self, url, **options):
        client = tornado.httpclient.AsyncHTTPClient()
        return (await client.fetch(url, **options)).body.decode()

    async def item(self, id):
        async with self.settings["pool"].connection() as connection:
            cursor = await connection.execute("SELECT name FROM items WHERE id = %s", (id,))
            return await cursor.fetchone()


class Seq(Handler):
    async def get(self, id):
        cached = await cache.get(f"item:{id}")
        row = await self.item(id)
        price = await self.fetch(f"{LEAF}/price/{id}")
        await cache.set(f"item:{id}", price, ex=60)
        self.write({"id": id, "cached": cached, "row": row, "price": price})


class Par(Handler):
    async def get(self, id):
        parts = await tornado.gen.multi(
            {
                "cached": cache.get(f"item:{id}"),
                "row": self.item(id),
                "price": self.fetch(f"{LEAF}/price/{id}"),
                "stock": self.fetch(f"{LEAF}/stock/{id}"),
            }
        )
        self.write({"id": id, **parts})


class Tx(Handler):
    async def get(self, id):
        async with self.settings["pool"].connection() as connection, connection.pipeline():
            await connection.execute("INSERT INTO orders (id, item) VALUES (%s, %s)", (id, "book"))
            await connection.execute("UPDATE orders SET state = 'paid' WHERE id = %s", (id,))
        async with cache.pipeline() as pipe:
            await pipe.delete(f"item:{id}").incr(f"sold:{id}").execute()
        self.write({"id": id, "leaf": await self.fetch(f"{LEAF}/ship/{id}")})


class Nest(Handler):
    async def get(self, id):
        seen = await cache.incr(f"seen:{id}")
        found, price = await asyncio.gather(self.fetch(f"{BACK}/seq/{id}"), self.fetch(f"{LEAF}/price/{id}"))
        self.write({"id": id, "seen": seen, "item": found, "price": price})


class Retry(Handler):
    async def get(self, id):
        for attempt in ("try0", "try1", "last"):
            try:
                limit = 30 if attempt == "last" else 0.015
                self.write({"id": id, "leaf": await self.fetch(f"{LEAF}/{attempt}/{id}", request_timeout=limit)})
                return
            except tornado.httpclient.HTTPError:
                await tornado.gen.sleep(0.002)


class Later(Handler):
    async def mail(self, id):
        await self.item(id)
        await cache.set(f"mail:{id}", "sent")
        await self.fetch(f"{LEAF}/mail/{id}")

    async def get(self, id):
        loop = tornado.ioloop.IOLoop.current()
        loop.add_timeout(datetime.timedelta(milliseconds=1), self.mail, id)
        self.write({"id": id})


class Stream(Handler):
    async def get(self, id):
        for part in ("price", "stock"):
            self.write(await self.fetch(f"{LEAF}/{part}/{id}"))
            await self.flush()
        self.write(str(await cache.incr(f"seen:{id}")))


class Thread(Handler):
    async def get(self, id):
        loop = tornado.ioloop.IOLoop.current()
        plain = await loop.run_in_executor(executor, lambda: session.get(f"{LEAF}/plain/{id}").text)
        self.write({"id": id, "plain": plain, "cached": await cache.get(f"item:{id}")})


async def main():
    handlers = (Seq, Par, Tx, Nest, Retry, Later, Stream, Thread)
    tornado.httpclient.AsyncHTTPClient.configure(None, max_clients=100)
    async with AsyncConnectionPool(DATABASE_URL, min_size=2, max_size=10, open=False) as pool:
        routes = [(rf"/{handler.__name__.lower()}/(\w+)", handler) for handler in handlers]
        tornado.web.Application(routes, pool=pool).listen(int(os.environ["PORT"]), "127.0.0.1")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
