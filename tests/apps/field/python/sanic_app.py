"""Sanic on its own server, with asyncmy's pool, redis.asyncio, and aiohttp's client; workers behind a queue."""

import asyncio
import json
import os

import aiohttp
import asyncmy
import redis.asyncio
from sanic import Sanic
from sanic import json as answer
from shared import BACK, LEAF, REDIS_PORT, mysql

app = Sanic("shop")


@app.before_server_start
async def connect(app):
    app.ctx.pool = await asyncmy.create_pool(**mysql(), minsize=2, maxsize=10, autocommit=True)
    app.ctx.cache = redis.asyncio.Redis(host="127.0.0.1", port=REDIS_PORT, decode_responses=True)
    app.ctx.http = aiohttp.ClientSession()
    app.ctx.tasks = asyncio.Queue()
    for _ in range(4):
        app.add_task(worker)


async def worker(app):
    while True:
        url, done = await app.ctx.tasks.get()
        done.set_result(await get(url))


async def get(url):
    async with app.ctx.http.get(url) as said:
        return await said.json()


async def item(id):
    async with app.ctx.pool.acquire() as connection, connection.cursor() as cursor:
        await cursor.execute("SELECT name, stock FROM items WHERE id = %s", (id,))
        return await cursor.fetchone()


@app.get("/seq/<id>")
async def seq(request, id):
    cached = await app.ctx.cache.get(f"item:{id}")
    row = await item(id)
    price = await get(f"{LEAF}/price/{id}")
    await app.ctx.cache.set(f"item:{id}", json.dumps(price), ex=60)
    return answer({"id": id, "cached": cached, "row": row, "price": price})


@app.get("/par/<id>")
async def par(request, id):
    calls = (app.ctx.cache.get(f"item:{id}"), item(id), get(f"{LEAF}/price/{id}"), get(f"{LEAF}/stock/{id}"))
    return answer({"id": id, "parts": await asyncio.gather(*calls)})


@app.get("/tx/<id>")
async def tx(request, id):
    async with app.ctx.pool.acquire() as connection, connection.cursor() as cursor:
        await connection.begin()
        await cursor.execute("INSERT INTO orders (id, item) VALUES (%s, %s)", (id, "book"))
        await cursor.execute("UPDATE orders SET state = 'paid' WHERE id = %s", (id,))
        await connection.commit()
    async with app.ctx.cache.pipeline() as pipe:
        await pipe.delete(f"item:{id}").incr(f"sold:{id}").execute()
    return answer({"id": id, "leaf": await get(f"{LEAF}/ship/{id}")})


@app.get("/nest/<id>")
async def nest(request, id):
    seen = await app.ctx.cache.incr(f"seen:{id}")
    found, price = await asyncio.gather(get(f"{BACK}/seq/{id}"), get(f"{LEAF}/price/{id}"))
    return answer({"id": id, "seen": seen, "item": found, "price": price})


@app.get("/work/<id>")
async def work(request, id):
    done = asyncio.get_running_loop().create_future()
    app.ctx.tasks.put_nowait((f"{LEAF}/print/{id}", done))
    row = await item(id)
    return answer({"id": id, "row": row, "printed": await done, "seen": await app.ctx.cache.incr(f"seen:{id}")})


async def mail(id):
    await item(id)
    await app.ctx.cache.set(f"mail:{id}", "sent")
    await get(f"{LEAF}/mail/{id}")


@app.get("/later/<id>")
async def later(request, id):
    app.add_task(mail(id))
    return answer({"id": id})


@app.get("/stream/<id>")
async def stream(request, id):
    response = await request.respond(content_type="application/x-ndjson")
    for part in ("price", "stock"):
        await response.send(json.dumps(await get(f"{LEAF}/{part}/{id}")))
    await response.send(json.dumps(await app.ctx.cache.incr(f"seen:{id}")))
    await response.eof()


if __name__ == "__main__":
    app.run("127.0.0.1", int(os.environ["PORT"]), single_process=True, access_log=False, motd=False)
