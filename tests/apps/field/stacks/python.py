"""Python: web frameworks on their usual servers, with drivers that block and drivers of asyncio."""

import json

from stack import LOOPS, THREADS, App, Stack

PYTHON = "{cache}/field_python/bin/python"
POOL = json.dumps({"OPTIONS": {"pool": {"min_size": 2, "max_size": 10}}})


def uvicorn(app, *options, **env):
    command = [PYTHON, "-m", "uvicorn", "--app-dir", "{here}/python", "--port", "{port}", "--no-access-log", *options]
    return App([*command, app], env, needs=("field_python/bin/uvicorn",))


def gunicorn(app, *options, **env):
    command = [PYTHON, "-m", "gunicorn", "--chdir", "{here}/python", "-b", "127.0.0.1:{port}"]
    command += ["--no-control-socket", *options]  # it would be one file for all
    return App([*command, app], env, needs=("field_python/bin/gunicorn",))


GTHREAD = gunicorn("django_app:wsgi", "-k", "gthread", "--threads", "16", DJANGO_DATABASE=POOL)
FASTAPI_ROUTES = ("seq", "par", "tx", "nest", "stream", "later", "deep", "thread")

STACKS = {
    "fastapi": Stack(
        "Python: FastAPI on uvicorn, asyncpg, httpx, redis.asyncio in front of Django on gunicorn gthread, psycopg",
        uvicorn("fastapi_app:app", "--loop", "asyncio"),
        LOOPS,
        routes=FASTAPI_ROUTES,
        back=GTHREAD,
    ),
    "django-gthread": Stack(
        "Python: Django on gunicorn gthread, psycopg, requests in front of FastAPI on uvloop, asyncpg, httpx",
        GTHREAD,
        THREADS,
        back=uvicorn("fastapi_app:app", "--loop", "uvloop"),
    ),
}
