"""FastAPI with plain functions, which run in its pool of threads: SQLAlchemy's ORM over psycopg, redis-py, httpx."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import httpx
import redis
from fastapi import BackgroundTasks, Depends, FastAPI
from shared import BACK, DATABASE_URL, LEAF, REDIS_PORT
from sqlalchemy import create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

app = FastAPI()
engine = create_engine(DATABASE_URL.replace("postgresql:", "postgresql+psycopg:"), pool_size=10)
cache = redis.Redis(host="127.0.0.1", port=REDIS_PORT, decode_responses=True)
http = httpx.Client(timeout=30)
threads = ThreadPoolExecutor(32)


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


def get_session():
    with Session(engine) as session:
        yield session


Database = Annotated[Session, Depends(get_session)]


def get(url):
    return http.get(url).json()


@app.get("/seq/{id}")
def seq(id: str, session: Database):
    cached = cache.get(f"item:{id}")
    row = session.scalar(select(Item.name).where(Item.id == id))
    price = get(f"{LEAF}/price/{id}")
    cache.set(f"item:{id}", json.dumps(price), ex=60)
    return {"id": id, "cached": cached, "row": row, "price": price}


@app.get("/par/{id}")
def par(id: str, session: Database):
    cached = threads.submit(cache.get, f"item:{id}")
    price, stock = threads.submit(get, f"{LEAF}/price/{id}"), threads.submit(get, f"{LEAF}/stock/{id}")
    row = session.scalar(select(Item.name).where(Item.id == id))
    return {"id": id, "cached": cached.result(), "row": row, "price": price.result(), "stock": stock.result()}


@app.get("/tx/{id}")
def tx(id: str, session: Database):
    order = Order(id=id, item="book")
    session.add(order)
    session.flush()
    order.state = "paid"
    session.commit()
    cache.delete(f"item:{id}")
    return {"id": id, "leaf": get(f"{LEAF}/ship/{id}")}


@app.get("/nest/{id}")
def nest(id: str):
    seen = cache.incr(f"seen:{id}")
    found, price = threads.map(get, (f"{BACK}/seq/{id}", f"{LEAF}/price/{id}"))
    return {"id": id, "seen": seen, "item": found, "price": price}


@app.get("/later/{id}")
def later(id: str, tasks: BackgroundTasks):
    def mail():
        get(f"{LEAF}/mail/{id}")
        cache.incr(f"mails:{id}")

    tasks.add_task(mail)
    return {"id": id, "seen": cache.incr(f"seen:{id}")}
