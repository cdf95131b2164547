"""A gRPC server on asyncio, with asyncpg, redis.asyncio and aiohttp's client."""

import asyncio
import os

import aiohttp
import asyncpg
import grpc
import redis.asyncio
from shared import DATABASE_URL, LEAF, REDIS_PORT

protos, services = grpc.protos_and_services("shop.proto")
SELECT = "SELECT name, stock FROM items WHERE id = $1"


class Shop(services.ShopServicer):
    def __init__(self, pool, http, cache):
        self.pool, self.http, self.cache = pool, http, cache

    async def get(self, path):
        async with self.http.get(f"{LEAF}{path}") as answer:
            return await answer.text()

    async def Seq(self, request, context):
        await self.cache.get(f"item:{request.id}")
        await self.pool.fetchrow(SELECT, request.id)
        price = await self.get(f"/price/{request.id}")
        await self.cache.set(f"item:{request.id}", price, ex=60)
        return protos.Reply(text=price)

    async def Par(self, request, context):
        _, _, price = await asyncio.gather(
            self.cache.get(f"item:{request.id}"),
            self.pool.fetchrow(SELECT, request.id),
            self.get(f"/price/{request.id}"),
        )
        return protos.Reply(text=price)

    async def List(self, request, context):
        for part in ("price", "stock", "ship"):
            yield protos.Reply(text=await self.get(f"/{part}/{request.id}"))


async def main():
    cache = redis.asyncio.Redis(host="127.0.0.1", port=REDIS_PORT)
    async with asyncpg.create_pool(DATABASE_URL) as pool, aiohttp.ClientSession() as http:
        server = grpc.aio.server()
        services.add_ShopServicer_to_server(Shop(pool, http, cache), server)
        server.add_insecure_port(f"127.0.0.1:{os.environ['PORT']}")
        await server.start()
        await server.wait_for_termination()


asyncio.run(main())
