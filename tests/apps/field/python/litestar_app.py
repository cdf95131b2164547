"""Litestar, with SQLAlchemy on psycopg's asynchronous driver, a pipeline of redis.asyncio, and aiohttp's client."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator

import aiohttp
import redis.asyncio
from litestar import Litestar, get
from litestar.background_tasks import BackgroundTask
from litestar.response import Response, Stream
from shared import BACK, DATABASE_URL, LEAF, REDIS_PORT
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

cache = redis.asyncio.Redis(host="127.0.0.1", port=REDIS_PORT, decode_responses=True)
engine = create_async_engine(DATABASE_URL.replace("postgresql:", "postgresql+psycopg:"), pool_size=10)
http = None


@contextlib.asynccontextmanager
async def client(_):
    global http
    async with aiohttp.ClientSession() as http:
        yield


async def call(url, **options):
    async with http.get(url, **options) as answer:
        return await answer.json()


async def item(id):
    async with engine.connect() as connection:
        rows = await connection.execute(text("SELECT name, stock FROM items WHERE id = :id"), {"id": id})
        return [list(row) for row in rows]


@get("/seq/{id:str}")
async def seq(id: str) -> dict:
    cached = await cache.get(f"item:{id}")
    row = await item(id)
    price = await call(f"{LEAF}/price/{id}")
    await cache.set(f"item:{id}", json.dumps(price), ex=60)
    return {"id": id, "cached": cached, "row": row, "price": price}


@get("/par/{id:str}")
async def par(id: str) -> dict:
    calls = (cache.get(f"item:{id}"), item(id), call(f"{LEAF}/price/{id}"), call(f"{LEAF}/stock/{id}"))
    return {"id": id, "parts": await asyncio.gather(*calls)}


@get("/tx/{id:str}")
async def tx(id: str) -> dict:
    async with engine.begin() as connection:
        await connection.execute(text("INSERT INTO orders (id, item) VALUES (:id, 'book')"), {"id": id})
        await connection.execute(text("UPDATE orders SET state = 'paid' WHERE id = :id"), {"id": id})
    async with cache.pipeline(transaction=False) as pipe:
        await pipe.delete(f"item:{id}").incr(f"sold:{id}").execute()
    return {"id": id, "leaf": await call(f"{LEAF}/ship/{id}")}


@get("/nest/{id:str}")
async def nest(id: str) -> dict:
    seen = await cache.incr(f"seen:{id}")
    found, price = await asyncio.gather(call(f"{BACK}/seq/{id}"), call(f"{LEAF}/price/{id}"))
    return {"id": id, "seen": seen, "item": found, "price": price}


@get("/retry/{id:str}")
async def retry(id: str) -> dict:
    for attempt in ("try0", "try1"):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.015):
                return {"id": id, "leaf": await call(f"{LEAF}/{attempt}/{id}")}
    return {"id": id, "leaf": await call(f"{LEAF}/last/{id}")}


async def mail(id: str) -> None:
    await item(id)
    await cache.set(f"mail:{id}", "sent")
    await call(f"{LEAF}/mail/{id}")


@get("/later/{id:str}")
async def later(id: str) -> Response[dict]:
    return Response({"id": id}, background=BackgroundTask(mail, id))


async def parts(id: str) -> AsyncGenerator[str, None]:
    for part in ("price", "stock"):
        yield json.dumps(await call(f"{LEAF}/{part}/{id}"))
    yield json.dumps(await cache.incr(f"seen:{id}"))


@get("/stream/{id:str}")
async def stream(id: str) -> Stream:
    return Stream(parts(id))


@get("/thread/{id:str}", sync_to_thread=True)
def thread(id: str) -> dict:
    import requests

    return {"id": id, "plain": requests.get(f"{LEAF}/plain/{id}").json()}


app = Litestar([seq, par, tx, nest, retry, later, stream, thread], lifespan=[client], openapi_config=None)
