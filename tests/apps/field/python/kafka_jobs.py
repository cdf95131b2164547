"""A consumer of Kafka with aiokafka that calls a database and the leaf, one message after the other."""

import asyncio
import json
import os

import aiohttp
import asyncpg
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from shared import DATABASE_URL, LEAF

KAFKA = os.environ["KAFKA_URL"]


async def work(topic, message, pool, http, producer):
    id = message["item"]
    if topic == "ship":
        await pool.execute("INSERT INTO orders (id, item) VALUES ($1, $2) ON CONFLICT DO NOTHING", id, "book")
    async with http.get(f"{LEAF}/{topic}/{id}") as answer:
        await answer.read()
    if topic == "pack":
        await producer.send_and_wait("ship", json.dumps({"item": id}).encode(), key=id.encode())
    elif topic == "pay" and "again" not in message:
        again = json.dumps({"item": id, "again": True})
        await producer.send_and_wait("pay", again.encode(), key=id.encode())


async def main():
    consumer = AIOKafkaConsumer(
        "ship", "pack", "pay", bootstrap_servers=KAFKA, group_id="shop", auto_offset_reset="earliest"
    )
    async with (
        asyncpg.create_pool(DATABASE_URL, min_size=1, max_size=4) as pool,
        aiohttp.ClientSession() as http,
        AIOKafkaProducer(bootstrap_servers=KAFKA) as producer,
        consumer,
    ):
        async for record in consumer:
            await work(record.topic, json.loads(record.value), pool, http, producer)


asyncio.run(main())
