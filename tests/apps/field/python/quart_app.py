"""Quart on Hypercorn, with aiomysql's pool, a pipeline of redis.asyncio, and httpx with time limits."""

import asyncio
import json

import aiomysql
import httpx
import redis.asyncio
from quart import Quart
from shared import BACK, LEAF, REDIS_PORT, mysql

app = Quart(__name__)
cache = redis.asyncio.Redis(host="127.0.0.1", port=REDIS_PORT, decode_responses=True)


@app.before_serving
async def connect():
    app.pool = await aiomysql.create_pool(**mysql(), minsize=2, maxsize=10, autocommit=True)
    app.http = httpx.AsyncClient(limits=httpx.Limits(max_connections=100), timeout=30)


async def get(url, **options):
    answer = await app.http.get(url, **options)
    return answer.json()


async def item(id):
    async with app.pool.acquire() as connection, connection.cursor(aiomysql.DictCursor) as cursor:
        await cursor.execute("SELECT name, stock FROM items WHERE id = %s", (id,))
        return await cursor.fetchone()


@app.get("/seq/<id>")
async def seq(id):
    cached = await cache.get(f"item:{id}")
    row = await item(id)
    price = await get(f"{LEAF}/price/{id}")
    await cache.set(f"item:{id}", json.dumps(price), ex=60)
    return {"id": id, "cached": cached, "row": row, "price": price}


@app.get("/par/<id>")
async def par(id):
    async with asyncio.TaskGroup() as group:
        cached = group.create_task(cache.get(f"item:{id}"))
        row = group.create_task(item(id))
        price = group.create_task(get(f"{LEAF}/price/{id}"))
        stock = group.create_task(get(f"{LEAF}/stock/{id}"))
    return {"id": id, "parts": [t.result() for t in (cached, row, price, stock)]}


@app.get("/tx/<id>")
async def tx(id):
    async with app.pool.acquire() as connection, connection.cursor() as cursor:
        await connection.begin()
        await cursor.execute("INSERT INTO orders (id, item) VALUES (%s, %s)", (id, "book"))
        await cursor.execute("UPDATE orders SET state = 'paid' WHERE id = %s", (id,))
        await connection.commit()
    async with cache.pipeline(transaction=False) as pipe:
        sold = await pipe.delete(f"item:{id}").incr(f"sold:{id}").execute()
    return {"id": id, "sold": sold, "leaf": await get(f"{LEAF}/ship/{id}")}


@app.get("/nest/<id>")
async def nest(id):
    seen = await cache.incr(f"seen:{id}")
    found, price = await asyncio.gather(get(f"{BACK}/seq/{id}"), get(f"{LEAF}/price/{id}"))
    return {"id": id, "seen": seen, "item": found, "price": price}


@app.get("/deep/<id>")
async def deep(id):
    few = asyncio.Semaphore(2)

    async def part(n):
        async with few:
            return await get(f"{LEAF}/part{n}/{id}")

    parts = [await done for done in asyncio.as_completed([part(n) for n in range(5)])]
    return {"id": id, "parts": parts, "row": await item(id)}


@app.get("/retry/<id>")
async def retry(id):
    for attempt in ("try0", "try1"):
        try:
            return {"id": id, "leaf": await get(f"{LEAF}/{attempt}/{id}", timeout=0.015)}
        except httpx.TimeoutException:
            await asyncio.sleep(0.002)
    return {"id": id, "leaf": await get(f"{LEAF}/last/{id}")}


async def mail(id):
    await item(id)
    await cache.set(f"mail:{id}", "sent")
    await get(f"{LEAF}/mail/{id}")


@app.get("/later/<id>")
async def later(id):
    app.add_background_task(mail, id)
    return {"id": id}


@app.get("/stream/<id>")
async def stream(id):
    async def parts():
        for part in ("price", "stock"):
            yield json.dumps(await get(f"{LEAF}/{part}/{id}")).encode()
        yield json.dumps(await cache.incr(f"seen:{id}")).encode()

    return parts(), {"Content-Type": "application/x-ndjson"}


@app.get("/thread/<id>")
async def thread(id):
    plain = await asyncio.to_thread(lambda: httpx.get(f"{LEAF}/plain/{id}").json())
    return {"id": id, "plain": plain, "cached": await cache.get(f"item:{id}")}
