"""aiohttp with Motor (the driver of MongoDB for asyncio, which works in threads), redis.asyncio and its own client."""

import asyncio
import json
import os

import aiohttp
import redis.asyncio
from aiohttp import web
from motor.motor_asyncio import AsyncIOMotorClient
from shared import BACK, LEAF, REDIS_PORT

routes = web.RouteTableDef()
cache = redis.asyncio.Redis(host="127.0.0.1", port=REDIS_PORT, decode_responses=True)
HTTP = web.AppKey("http", aiohttp.ClientSession)
SHOP = web.AppKey("shop", object)


async def get(request, url):
    async with request.app[HTTP].get(url) as answer:
        return await answer.json()


def item(request, id):
    return request.app[SHOP].items.find_one({"_id": id})


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
    id, orders = request.match_info["id"], request.app[SHOP].orders
    await orders.insert_one({"_id": id, "item": "book", "state": "new"})
    await orders.update_one({"_id": id}, {"$set": {"state": "paid"}})
    await cache.delete(f"item:{id}")
    return web.json_response({"id": id, "leaf": await get(request, f"{LEAF}/ship/{id}")})


@routes.get("/list/{id}")
async def list_(request):
    id, orders = request.match_info["id"], request.app[SHOP].orders
    found = await orders.find({"item": id}).sort("state").to_list(20)
    count, price = await asyncio.gather(orders.count_documents({"item": id}), get(request, f"{LEAF}/price/{id}"))
    return web.json_response({"id": id, "orders": len(found), "count": count, "price": price})


@routes.get("/nest/{id}")
async def nest(request):
    id = request.match_info["id"]
    seen = await cache.incr(f"seen:{id}")
    found, price = await asyncio.gather(get(request, f"{BACK}/seq/{id}"), get(request, f"{LEAF}/price/{id}"))
    return web.json_response({"id": id, "seen": seen, "item": found, "price": price})


async def resources(app):
    client = AsyncIOMotorClient(os.environ["MONGO_URL"], maxPoolSize=10)
    app[SHOP] = client.shop
    async with aiohttp.ClientSession() as app[HTTP]:
        yield
    client.close()


async def create():
    app = web.Application()
    app.add_routes(routes)
    app.cleanup_ctx.append(resources)
    return app


if __name__ == "__main__":
    web.run_app(create(), host="127.0.0.1", port=int(os.environ["PORT"]), access_log=None)
