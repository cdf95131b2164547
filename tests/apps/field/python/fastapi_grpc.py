"""FastAPI that calls gRPC services by grpc.aio, one channel for all."""

import asyncio
import contextlib

import grpc
import redis.asyncio
from fastapi import FastAPI, Request
from shared import BACK, REDIS_PORT

protos, services = grpc.protos_and_services("shop.proto")


@contextlib.asynccontextmanager
async def lifespan(app):
    app.state.redis = redis.asyncio.Redis(host="127.0.0.1", port=REDIS_PORT)
    async with grpc.aio.insecure_channel(BACK.removeprefix("http://")) as channel:
        app.state.shop = services.ShopStub(channel)
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/seq/{id}")
async def seq(id: str, request: Request):
    seen = await request.app.state.redis.incr(f"seen:{id}")
    reply = await request.app.state.shop.Seq(protos.Item(id=id), metadata=(("x-item", id),))
    return {"id": id, "seen": seen, "text": reply.text}


@app.get("/par/{id}")
async def par(id: str, request: Request):
    shop, metadata = request.app.state.shop, (("x-item", id),)
    first, second = await asyncio.gather(
        shop.Seq(protos.Item(id=id), metadata=metadata), shop.Par(protos.Item(id=id), metadata=metadata)
    )
    return {"id": id, "text": [first.text, second.text]}


@app.get("/list/{id}")
async def list_(id: str, request: Request):
    call = request.app.state.shop.List(protos.Item(id=id), metadata=(("x-item", id),))
    replies = [reply.text async for reply in call]
    return {"id": id, "text": replies, "seen": await request.app.state.redis.incr(f"seen:{id}")}
