"""Starlette with SQLAlchemy's asynchronous ORM over asyncpg, redis.asyncio, and aiohttp's client."""

import asyncio
import contextlib
import json

import aiohttp
import redis.asyncio
from shared import BACK, DATABASE_URL, LEAF, REDIS_PORT
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.responses import JSONResponse
from starlette.routing import Route

engine = create_async_engine(DATABASE_URL.replace("postgresql:", "postgresql+asyncpg:"), pool_size=10)
Session = async_sessionmaker(engine, expire_on_commit=False)
cache = redis.asyncio.Redis(host="127.0.0.1", port=REDIS_PORT, decode_responses=True)


class Base(DeclarativeBase):
    pass


class Item(Base):
    __tablename__ = "items"
    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    stock: Mapped[int]


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[str] = mapped_column(primary_key=True)
    item: Mapped[str]
    state: Mapped[str] = mapped_column(default="new")


async def get(request, url):
    async with request.app.state.http.get(url) as answer:
        return await answer.json()


async def item(id):
    async with Session() as session:
        found = await session.get(Item, id)
        return found and found.name


async def seq(request):
    id = request.path_params["id"]
    cached = await cache.get(f"item:{id}")
    row = await item(id)
    price = await get(request, f"{LEAF}/price/{id}")
    await cache.set(f"item:{id}", json.dumps(price), ex=60)
    return JSONResponse({"id": id, "cached": cached, "row": row, "price": price})


async def par(request):
    id = request.path_params["id"]
    async with asyncio.TaskGroup() as group:
        work = [
            group.create_task(cache.get(f"item:{id}")),
            group.create_task(item(id)),
            group.create_task(get(request, f"{LEAF}/price/{id}")),
            group.create_task(get(request, f"{LEAF}/stock/{id}")),
        ]
    return JSONResponse([done.result() for done in work])


async def tx(request):
    id = request.path_params["id"]
    async with Session.begin() as session:
        order = Order(id=id, item="book")
        session.add(order)
        await session.flush()
        order.state = "paid"
    async with cache.pipeline() as pipe:
        await pipe.delete(f"item:{id}").incr(f"sold:{id}").execute()
    return JSONResponse({"id": id, "leaf": await get(request, f"{LEAF}/ship/{id}")})


async def nest(request):
    id = request.path_params["id"]
    seen = await cache.incr(f"seen:{id}")
    found, price = await asyncio.gather(get(request, f"{BACK}/seq/{id}"), get(request, f"{LEAF}/price/{id}"))
    return JSONResponse({"id": id, "seen": seen, "item": found, "price": price})


async def later(request):
    id = request.path_params["id"]

    async def mail():
        await get(request, f"{LEAF}/mail/{id}")
        await cache.incr(f"mails:{id}")

    return JSONResponse({"id": id, "row": await item(id)}, background=BackgroundTask(mail))


@contextlib.asynccontextmanager
async def lifespan(app):
    async with aiohttp.ClientSession() as app.state.http:
        yield


ROUTES = [Route(f"/{handler.__name__}/{{id}}", handler) for handler in (seq, par, tx, nest, later)]
app = Starlette(routes=ROUTES, lifespan=lifespan)
