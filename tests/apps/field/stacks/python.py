"""Python: web frameworks on their usual servers, with drivers that block and drivers of asyncio."""

import json

from stack import LOOPS, QUEUES, THREADS, App, Stack

PYTHON = "{cache}/field_python/bin/python"
POOL = json.dumps({"OPTIONS": {"pool": {"min_size": 2, "max_size": 10}}})
ROUTES = ("seq", "par", "tx", "nest")


def python(*command, **env):
    return App([PYTHON, *command], env, needs=("field_python/bin/gunicorn",))


def uvicorn(app, *options, **env):
    return python(
        "-m", "uvicorn", "--app-dir", "{here}/python", "--port", "{port}", "--no-access-log", *options, app, **env
    )


def gunicorn(app, worker, *options, **env):
    # Its control socket would be one file for all.
    options = ("--no-control-socket", "-k", worker, *options)
    return python("-m", "gunicorn", "--chdir", "{here}/python", "-b", "127.0.0.1:{port}", *options, app, **env)


FASTAPI = uvicorn("fastapi_app:app", "--loop", "asyncio")
FASTAPI_UVLOOP = uvicorn("fastapi_app:app", "--loop", "uvloop", "--workers", "2")
FASTAPI_SYNC = uvicorn("fastapi_sync:app", "--loop", "uvloop")
STARLETTE = uvicorn("starlette_app:app", "--loop", "asyncio")
AIOHTTP = python("{here}/python/aiohttp_app.py")
DJANGO_SYNC = gunicorn("django_app:wsgi", "sync", "--workers", "4")
DJANGO_GTHREAD = gunicorn("django_app:wsgi", "gthread", "--threads", "16", DJANGO_DATABASE=POOL)
DJANGO_GEVENT = gunicorn("django_app:wsgi", "gevent")
DJANGO_ASGI = uvicorn("django_async:app", DJANGO_URLS="django_async")
FLASK_SYNC = gunicorn("flask_app:app", "sync", "--workers", "4")
FLASK_GTHREAD = gunicorn("flask_app:app", "gthread", "--workers", "2", "--threads", "8")
FLASK_GEVENT = gunicorn("flask_app:app", "gevent")
FLASK_OWN = python("-m", "flask", "--app", "{here}/python/flask_app.py", "run", "--port", "{port}")
FASTAPI_GRPC = uvicorn("fastapi_grpc:app", "--loop", "asyncio")
FLASK_GRPC = gunicorn("flask_grpc:app", "gthread", "--threads", "16")
GRPC_AIO = python("{here}/python/grpc_aio_server.py")
GRPC_SYNC = python("{here}/python/grpc_sync_server.py")
FLASK_CELERY = gunicorn("flask_celery:app", "gthread", "--threads", "16")
FLASK_RQ = gunicorn("flask_rq:app", "gthread", "--threads", "16")
FASTAPI_KAFKA = uvicorn("fastapi_kafka:app", "--loop", "asyncio")
KAFKA_JOBS = python("{here}/python/kafka_jobs.py")
MOTOR = python("{here}/python/aiohttp_motor.py")
QUART = python("-m", "hypercorn", "-b", "127.0.0.1:{port}", "asgi:{here}/python/quart_app.py:app")
TORNADO = python("{here}/python/tornado_app.py")
LITESTAR = python(
    "-m", "granian", "--interface", "asgi", "--port", "{port}", "--working-dir", "{here}/python", "litestar_app:app"
)
SANIC = python("{here}/python/sanic_app.py")
CELERY = python("-m", "celery", "--workdir", "{here}/python", "-A", "celery_jobs", "worker", "-c", "2")
CELERY_THREADS = python("-m", "celery", "--workdir", "{here}/python", "-A", "celery_jobs", "worker", "-P", "threads")
RQ = python("-m", "rq.cli", "worker", "--path", "{here}/python", "--url", "redis://127.0.0.1:6379")

STACKS = {
    "fastapi": Stack(
        "Python: FastAPI on uvicorn, asyncpg, httpx, redis.asyncio in front of Django on gunicorn gthread, psycopg",
        FASTAPI,
        LOOPS,
        routes=(*ROUTES, "stream", "later", "deep", "thread"),
        back=DJANGO_GTHREAD,
    ),
    "fastapi-uvloop": Stack(
        "Python: FastAPI on uvloop, two workers, asyncpg, httpx in front of Starlette on asyncio, SQLAlchemy",
        FASTAPI_UVLOOP,
        LOOPS,
        routes=(*ROUTES, "stream", "later", "deep", "thread"),
        back=STARLETTE,
    ),
    "fastapi-sync": Stack(
        "Python: FastAPI with functions in threads, SQLAlchemy, psycopg, httpx in front of Flask on gunicorn gthread",
        FASTAPI_SYNC,
        THREADS,
        routes=(*ROUTES, "later"),
        back=FLASK_GTHREAD,
    ),
    "starlette": Stack(
        "Python: Starlette on uvicorn, SQLAlchemy on asyncpg, aiohttp's client in front of aiohttp, psycopg",
        STARLETTE,
        LOOPS,
        routes=(*ROUTES, "later"),
        back=AIOHTTP,
    ),
    "aiohttp": Stack(
        "Python: aiohttp as server and client, psycopg's asynchronous pool in front of FastAPI on uvloop",
        AIOHTTP,
        LOOPS,
        routes=(*ROUTES, "stream"),
        back=FASTAPI_UVLOOP,
    ),
    "django-sync": Stack(
        "Python: Django on gunicorn sync, psycopg, requests in front of Flask's own server",
        DJANGO_SYNC,
        THREADS,
        back=FLASK_OWN,
    ),
    "django-gthread": Stack(
        "Python: Django on gunicorn gthread, psycopg's pool, requests in front of FastAPI on uvicorn",
        DJANGO_GTHREAD,
        THREADS,
        back=FASTAPI,
    ),
    "django-gevent": Stack(
        "Python: Django on gunicorn gevent, psycopg, requests in front of Flask on gunicorn gevent",
        DJANGO_GEVENT,
        LOOPS,
        back=FLASK_GEVENT,
    ),
    "django-asgi": Stack(
        "Python: Django's asynchronous views on uvicorn, its ORM in threads, httpx in front of FastAPI in threads",
        DJANGO_ASGI,
        LOOPS,
        back=FASTAPI_SYNC,
    ),
    "flask-sync": Stack(
        "Python: Flask on gunicorn sync, psycopg's pool, requests without a session in front of aiohttp",
        FLASK_SYNC,
        THREADS,
        routes=(*ROUTES, "stream"),
        back=AIOHTTP,
    ),
    "flask-gthread": Stack(
        "Python: Flask on gunicorn gthread, two workers, psycopg's pool in front of Django on gunicorn sync",
        FLASK_GTHREAD,
        THREADS,
        routes=(*ROUTES, "stream"),
        back=DJANGO_SYNC,
    ),
    "flask-gevent": Stack(
        "Python: Flask on gunicorn gevent, psycopg's pool in front of Django on gunicorn gevent",
        FLASK_GEVENT,
        LOOPS,
        routes=(*ROUTES, "stream"),
        back=DJANGO_GEVENT,
    ),
    "flask-own": Stack(
        "Python: Flask on its own server, psycopg's pool in front of Django's asynchronous views",
        FLASK_OWN,
        THREADS,
        routes=(*ROUTES, "stream"),
        back=DJANGO_ASGI,
    ),
    "grpc-aio": Stack(
        "Python: FastAPI, grpc.aio in front of grpcio's server with threads, psycopg's pool, requests",
        FASTAPI_GRPC,
        LOOPS,
        routes=("seq", "par", "list"),
        back=GRPC_SYNC,
    ),
    "grpc-sync": Stack(
        "Python: Flask on gunicorn gthread, grpcio in front of grpc.aio's server, asyncpg, aiohttp's client",
        FLASK_GRPC,
        LOOPS,
        routes=("seq", "par", "list"),
        back=GRPC_AIO,
    ),
    "quart": Stack(
        "Python: Quart on Hypercorn, aiomysql, httpx, redis.asyncio in front of Tornado",
        QUART,
        LOOPS,
        routes=(*ROUTES, "deep", "retry", "later", "stream", "thread"),
        servers=("leaf", "redis", "mariadb", "postgresql"),
        back=TORNADO,
    ),
    "tornado": Stack(
        "Python: Tornado and its client, psycopg's asynchronous pool, redis.asyncio in front of Quart on Hypercorn",
        TORNADO,
        LOOPS,
        routes=(*ROUTES, "retry", "later", "stream", "thread"),
        servers=("leaf", "redis", "mariadb", "postgresql"),
        back=QUART,
    ),
    "litestar": Stack(
        "Python: Litestar on Granian, SQLAlchemy on psycopg, aiohttp's client, redis.asyncio in front of Sanic",
        LITESTAR,
        LOOPS,
        routes=(*ROUTES, "retry", "later", "stream", "thread"),
        servers=("leaf", "redis", "mariadb", "postgresql"),
        back=SANIC,
    ),
    "sanic": Stack(
        "Python: Sanic, asyncmy, aiohttp's client, redis.asyncio in front of Litestar on Granian",
        SANIC,
        LOOPS,
        routes=(*ROUTES, "work", "later", "stream"),
        servers=("leaf", "redis", "mariadb", "postgresql"),
        back=LITESTAR,
    ),
    "celery": Stack(
        "Python: Flask on gunicorn gthread gives jobs to Celery by Redis, in processes",
        FLASK_CELERY,
        QUEUES,
        routes=("job", "chain", "retry"),
        jobs=CELERY,
    ),
    "celery-threads": Stack(
        "Python: Flask on gunicorn gthread gives jobs to Celery by Redis, in threads",
        FLASK_CELERY,
        QUEUES,
        routes=("job", "chain", "retry"),
        jobs=CELERY_THREADS,
    ),
    "celery-rabbitmq": Stack(
        "Python: Flask on gunicorn gthread gives jobs to Celery by RabbitMQ, in processes",
        FLASK_CELERY,
        QUEUES,
        routes=("job", "chain", "retry"),
        servers=("leaf", "redis", "postgresql", "rabbitmq"),
        jobs=CELERY,
    ),
    "aiokafka": Stack(
        "Python: FastAPI on uvicorn sends messages by aiokafka, to a consumer with aiokafka, asyncpg, aiohttp's client",
        FASTAPI_KAFKA,
        QUEUES,
        routes=("job", "chain", "retry"),
        servers=("leaf", "postgresql", "kafka"),
        jobs=KAFKA_JOBS,
    ),
    "motor": Stack(
        "Python: aiohttp as server and client, Motor, redis.asyncio in front of FastAPI on asyncio",
        MOTOR,
        LOOPS,
        routes=(*ROUTES, "list"),
        servers=("leaf", "redis", "mongodb", "postgresql"),
        back=FASTAPI,
    ),
    "rq": Stack(
        "Python: Flask on gunicorn gthread gives jobs to RQ by Redis", FLASK_RQ, QUEUES, routes=("job", "two"), jobs=RQ
    ),
}
