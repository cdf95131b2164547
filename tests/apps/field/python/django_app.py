"""Django in one file: its ORM over psycopg 3, redis-py and requests. DJANGO_DATABASE adds options to the database."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import django
import redis
import requests
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.db import connection, models, transaction
from django.http import JsonResponse
from django.urls import path
from shared import BACK, DATABASE_URL, LEAF, REDIS_PORT

database = urlsplit(DATABASE_URL)
settings.configure(
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=os.environ.get("DJANGO_URLS", __name__),
    SECRET_KEY="field",
    MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": database.hostname,
            "PORT": database.port,
            "USER": database.username,
            "NAME": database.path[1:],
            **json.loads(os.environ.get("DJANGO_DATABASE", "{}")),
        }
    },
)
django.setup()
cache = redis.Redis(host="127.0.0.1", port=REDIS_PORT)
http = requests.Session()
http.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=32))


class Item(models.Model):
    id = models.TextField(primary_key=True)
    name = models.TextField()
    stock = models.IntegerField()

    class Meta:
        app_label, db_table, managed = "field", "items", False


class Order(models.Model):
    id = models.TextField(primary_key=True)
    item = models.TextField()
    state = models.TextField(default="new")

    class Meta:
        app_label, db_table, managed = "field", "orders", False


def get(url):
    return http.get(url).json()


def item(id):
    return Item.objects.filter(pk=id).values("name", "stock").first()


def seq(request, id):
    cached = cache.get(f"item:{id}")
    row = item(id)
    price = get(f"{LEAF}/price/{id}")
    cache.set(f"item:{id}", json.dumps(price), ex=60)
    return JsonResponse({"id": id, "cached": cached and cached.decode(), "row": row, "price": price})


def par(request, id):
    def row():
        try:
            return item(id)
        finally:
            connection.close()  # a thread of one's own has a connection of its own

    with ThreadPoolExecutor(4) as threads:
        cached = threads.submit(cache.get, f"item:{id}")
        found = threads.submit(row)
        price, stock = threads.map(get, (f"{LEAF}/price/{id}", f"{LEAF}/stock/{id}"))
    return JsonResponse({"id": id, "cached": bool(cached.result()), "row": found.result(), "all": [price, stock]})


def tx(request, id):
    with transaction.atomic():
        Order.objects.create(id=id, item="book")
        Order.objects.filter(pk=id).update(state="paid")
    cache.delete(f"item:{id}")
    return JsonResponse({"id": id, "leaf": get(f"{LEAF}/ship/{id}")})


def nest(request, id):
    seen = cache.incr(f"seen:{id}")
    with ThreadPoolExecutor(2) as threads:
        found, price = threads.map(get, (f"{BACK}/seq/{id}", f"{LEAF}/price/{id}"))
    return JsonResponse({"id": id, "seen": seen, "item": found, "price": price})


urlpatterns = [path(f"{view.__name__}/<id>", view) for view in (seq, par, tx, nest)]
wsgi, asgi = get_wsgi_application(), get_asgi_application()
