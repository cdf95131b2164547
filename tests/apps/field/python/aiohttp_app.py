"""aiohttp as server and client, with psycopg's asynchronous pool and redis.asyncio."""

import asyncio
import json
import os

import aiohttp
import redis.asyncio
from aiohttp import web
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from shared import BACK, DATABASE_URL, LEAF, REDIS_PORT

routes = web.RouteTableDef()
cache = redis.asyncio.Redis(host="127.0.0.1", port=REDIS_PORT, decode_responses=True)
HTTP = web.AppKey("http", aiohttp.ClientSession)
POOL = web.AppKey("pool", AsyncConnectionPool)


async def get(request, url):
    async with request.app[HTTP].get(url) as answer:
        return await answer.json()


async def item(request, id):
    async with request.app[POOL].connection() as connection:
        cursor = await connection.execute("SELECT name, stock FROM items WHERE id = %s", (id,))
        return await cursor.fetchone()


@routes.get("/seq/{id}")
async def seq(request):
    id = request.match_info["id"]
    cached = await cache.get(f"item:{id}")
    row = await item(request, id)
    price = await get(request, f"{LEAF}/price/{id}")
    await cache.set(f"item:{id}", json.dumps(price), ex=60)
    return web.json_response({"id": id, "cached": cached, "row": row, "price": price})


@routes.get("/par/{id}")
async def par(request):
    id = request.match_info["id"]
    cached, row, price, stock = await asyncio.gather(
        cache.get(f"item:{id}"),
        item(request, id),
        get(request, f"{LEAF}/price/{id}"),
        get(request, f"{LEAF}/stock/{id}"),
    )
    return web.json_response({"id": id, "cached": cached, "row": row, "price": price, "stock": stock})


@routes.get("/tx/{id}")
async def tx(request):
    id = request.match_info["id"]
    async with request.app[POOL].connection() as connection:
        await connection.execute("INSERT INTO orders (id, item) VALUES (%s, %s)", (id, "book"))
        await connection.execute("UPDATE orders SET state = 'paid' WHERE id = %s", (id,))
    async with cache.pipeline() as pipe:
        await pipe.delete(f"item:{id}").incr(f"sold:{id}").execute()
    return web.json_response({"id": id, "leaf": await get(request, f"{LEAF}/ship/{id}")})


@routes.get("/nest/{id}")
async def nest(request):
    id = request.match_info["id"]
    seen = await cache.incr(f"seen:{id}")
    found, price = await asyncio.gather(get(request, f"{BACK}/seq/{id}"), get(request, f"{LEAF}/price/{id}"))
    return web.json_response({"id": id, "seen": seen, "item": found, "price": price})


@routes.get("/stream/{id}")
async def stream(request):
    id = request.match_info["id"]
    answer = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
    await answer.prepare(request)
    for part in ("price", "stock", "ship"):
        await answer.write(json.dumps(await get(request, f"{LEAF}/{part}/{id}")).encode() + b"\n")
    await answer.write(json.dumps(await cache.incr(f"seen:{id}")).encode() + b"\n")
    await answer.write_eof()
    return answer


async def resources(app):
    async with (
        aiohttp.ClientSession() as app[HTTP],
        AsyncConnectionPool(DATABASE_URL, kwargs={"row_factory": dict_row}, min_size=2, max_size=10, open=False) as app[
            POOL
        ],
    ):
        yield


async def create():
    app = web.Application()
    app.add_routes(routes)
    app.cleanup_ctx.append(resources)
    return app


if __name__ == "__main__":
    web.run_app(create(), host="127.0.0.1", port=int(os.environ["PORT"]), access_log=None)
