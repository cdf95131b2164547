"""Django's asynchronous views on ASGI: its ORM (which runs in threads), redis.asyncio and httpx."""

import asyncio
import json

import httpx
import redis.asyncio
from asgiref.sync import sync_to_async
from django.db import transaction
from django.http import JsonResponse
from django.urls import path
from django_app import Item, Order, asgi
from shared import BACK, LEAF, REDIS_PORT

cache = redis.asyncio.Redis(host="127.0.0.1", port=REDIS_PORT, decode_responses=True)
http = httpx.AsyncClient(timeout=30)


async def get(url):
    return (await http.get(url)).json()


async def item(id):
    return await Item.objects.filter(pk=id).values("name", "stock").afirst()


async def seq(request, id):
    cached = await cache.get(f"item:{id}")
    row = await item(id)
    price = await get(f"{LEAF}/price/{id}")
    await cache.set(f"item:{id}", json.dumps(price), ex=60)
    return JsonResponse({"id": id, "cached": cached, "row": row, "price": price})


async def par(request, id):
    cached, row, price, stock = await asyncio.gather(
        cache.get(f"item:{id}"), item(id), get(f"{LEAF}/price/{id}"), get(f"{LEAF}/stock/{id}")
    )
    return JsonResponse({"id": id, "cached": cached, "row": row, "price": price, "stock": stock})


@sync_to_async
def order(id):
    with transaction.atomic():
        Order.objects.create(id=id, item="book")
        Order.objects.filter(pk=id).update(state="paid")


async def tx(request, id):
    await order(id)
    await cache.delete(f"item:{id}")
    return JsonResponse({"id": id, "leaf": await get(f"{LEAF}/ship/{id}")})


async def nest(request, id):
    seen = await cache.incr(f"seen:{id}")
    found, price = await asyncio.gather(get(f"{BACK}/seq/{id}"), get(f"{LEAF}/price/{id}"))
    return JsonResponse({"id": id, "seen": seen, "item": found, "price": price})


urlpatterns = [path(f"{view.__name__}/<id>", view) for view in (seq, par, tx, nest)]
app = asgi
