"""FastAPI that sends work to Kafka with aiokafka: one message a request, or work that asks for more work."""

import contextlib
import json
import os

from aiokafka import AIOKafkaProducer
from fastapi import FastAPI, Request


@contextlib.asynccontextmanager
async def lifespan(app):
    async with AIOKafkaProducer(bootstrap_servers=os.environ["KAFKA_URL"]) as app.state.producer:
        yield


app = FastAPI(lifespan=lifespan)


async def send(request, topic, id):
    await request.app.state.producer.send_and_wait(topic, json.dumps({"item": id}).encode(), key=id.encode())
    return {"id": id}


@app.get("/job/{id}")
async def job(id: str, request: Request):
    return await send(request, "ship", id)


@app.get("/chain/{id}")
async def chain(id: str, request: Request):
    return await send(request, "pack", id)


@app.get("/retry/{id}")
async def retry(id: str, request: Request):
    return await send(request, "pay", id)
