"""FastAPI with asyncpg, httpx and redis.asyncio."""

import asyncio
import contextlib
import json

import asyncpg
import httpx
import redis.asyncio
from fastapi import BackgroundTasks, FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from shared import BACK, DATABASE_URL, LEAF, REDIS_PORT

SELECT = "SELECT name, stock FROM items WHERE id = $1"


@contextlib.asynccontextmanager
async def lifespan(app):
    app.state.redis = redis.asyncio.Redis(host="127.0.0.1", port=REDIS_PORT)
    async with asyncpg.create_pool(DATABASE_URL) as app.state.pool, httpx.AsyncClient(timeout=30) as app.state.http:
        yield
    await app.state.redis.aclose()


app = FastAPI(lifespan=lifespan)


async def get(request, url):
    return (await request.app.state.http.get(url)).json()


@app.get("/seq/{id}")
async def seq(id: str, request: Request):
    state = request.app.state
    cached = await state.redis.get(f"item:{id}")
    async with state.pool.acquire() as connection:
        row = await connection.fetchrow(SELECT, id)
    price = await get(request, f"{LEAF}/price/{id}")
    await state.redis.set(f"item:{id}", json.dumps(price), ex=60)
    return {"id": id, "cached": cached, "row": row and dict(row), "price": price}


@app.get("/par/{id}")
async def par(id: str, request: Request):
    cached, row, price, stock = await asyncio.gather(
        request.app.state.redis.get(f"item:{id}"),
        request.app.state.pool.fetchrow(SELECT, id),
        get(request, f"{LEAF}/price/{id}"),
        get(request, f"{LEAF}/stock/{id}"),
    )
    return {"id": id, "cached": cached, "row": row and dict(row), "price": price, "stock": stock}


@app.get("/tx/{id}")
async def tx(id: str, request: Request):
    async with request.app.state.pool.acquire() as connection, connection.transaction():
        await connection.execute("INSERT INTO orders (id, item) VALUES ($1, $2)", id, "book")
        await connection.execute("UPDATE orders SET state = 'paid' WHERE id = $1", id)
    await request.app.state.redis.delete(f"item:{id}")
    return {"id": id, "leaf": await get(request, f"{LEAF}/ship/{id}")}


@app.get("/nest/{id}")
async def nest(id: str, request: Request):
    seen = await request.app.state.redis.incr(f"seen:{id}")
    item, price = await asyncio.gather(get(request, f"{BACK}/seq/{id}"), get(request, f"{LEAF}/price/{id}"))
    return {"id": id, "seen": seen, "item": item, "price": price}


@app.get("/stream/{id}")
async def stream(id: str, request: Request):
    async def lines():
        for part in ("price", "stock", "ship"):
            yield json.dumps(await get(request, f"{LEAF}/{part}/{id}")) + "\n"
        yield json.dumps(await request.app.state.redis.incr(f"seen:{id}")) + "\n"

    return StreamingResponse(lines(), media_type="application/x-ndjson")


@app.get("/later/{id}")
async def later(id: str, request: Request, tasks: BackgroundTasks):
    async def mail():
        await request.app.state.pool.execute("INSERT INTO orders (id, item) VALUES ($1, $2)", id, "mail")
        await get(request, f"{LEAF}/mail/{id}")

    tasks.add_task(mail)
    return {"id": id, "seen": await request.app.state.redis.incr(f"seen:{id}")}


@app.get("/deep/{id}")
async def deep(id: str, request: Request):
    async def offer(shop):
        price = await get(request, f"{LEAF}/{shop}/{id}")
        async with asyncio.TaskGroup() as group:
            row = group.create_task(request.app.state.pool.fetchrow(SELECT, id))
            group.create_task(request.app.state.redis.set(f"{shop}:{id}", json.dumps(price), ex=60))
        return {"shop": shop, "price": price, "row": row.result() and dict(row.result())}

    return await asyncio.gather(offer("north"), offer("south"))


@app.get("/thread/{id}")
async def thread(id: str, request: Request):
    def fetch():
        return httpx.get(f"{LEAF}/report/{id}", timeout=30).json()

    report = await run_in_threadpool(fetch)
    return {"id": id, "report": report, "seen": await request.app.state.redis.incr(f"seen:{id}")}
