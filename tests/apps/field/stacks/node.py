"""Node: web frameworks, with drivers that multiplex one connection, pools, and HTTP clients."""

from stack import LOOPS, QUEUES, App, Stack
from stacks import proxies

SHOP_PROTO = "{here}/python/shop.proto"


def node(file, *more, **env):
    command = ["node", f"{{cache}}/field_node/{file}", *more]
    return App(command, env, needs=("field_node/node_modules",), sources="node", programs=("node",))


STACKS = {
    "fastify": Stack(
        "Node: Fastify, ioredis, pg, undici in front of Express, node-redis, pg, axios",
        node("fastify.mjs"),
        LOOPS,
        back=node("express.mjs"),
    ),
    "express": Stack(
        "Node: Express, node-redis, pg, axios in front of Fastify, ioredis, pg, undici",
        node("express.mjs"),
        LOOPS,
        back=node("fastify.mjs"),
    ),
    "node-nginx": Stack(
        "Node: nginx, Express, node-redis, pg, axios in front of Fastify, ioredis, pg, undici",
        node("express.mjs"),
        LOOPS,
        back=node("fastify.mjs"),
        proxy=proxies.NGINX,
    ),
    "nestjs": Stack(
        "Node: NestJS, ioredis, mysql2, axios in front of Koa, node-redis, pg, got",
        node("nest.mjs"),
        LOOPS,
        routes=("seq", "par", "tx", "nest", "deep", "later", "stream"),
        servers=("leaf", "redis", "mariadb", "postgresql"),
        back=node("koa.mjs"),
    ),
    "koa": Stack(
        "Node: Koa, node-redis, pg, got in front of NestJS, ioredis, mysql2, axios",
        node("koa.mjs"),
        LOOPS,
        routes=("seq", "par", "tx", "nest", "deep", "work", "later", "stream"),
        servers=("leaf", "redis", "mariadb", "postgresql"),
        back=node("nest.mjs"),
    ),
    "hono": Stack(
        "Node: Hono, Knex on pg, ioredis with pipelines, undici in front of hapi, postgres.js, node-redis, fetch",
        node("hono.mjs"),
        LOOPS,
        routes=("seq", "par", "tx", "nest", "deep", "retry", "later", "stream"),
        back=node("hapi.mjs"),
    ),
    "hapi": Stack(
        "Node: hapi, postgres.js, node-redis, fetch, threads of Piscina in front of Hono, Knex on pg, ioredis, undici",
        node("hapi.mjs"),
        LOOPS,
        routes=("seq", "par", "tx", "nest", "thread", "deep", "later", "stream"),
        back=node("hono.mjs"),
    ),
    "bullmq": Stack(
        "Node: Express gives jobs to BullMQ by Redis",
        node("bull_front.mjs"),
        QUEUES,
        routes=("job", "chain", "later", "retry"),
        jobs=node("bull_jobs.mjs"),
    ),
    "kafkajs": Stack(
        "Node: Express sends messages by kafkajs, to a consumer with kafkajs",
        node("kafka_front.mjs"),
        QUEUES,
        routes=("job", "chain", "two", "retry"),
        servers=("leaf", "postgresql", "kafka"),
        jobs=node("kafka_jobs.mjs"),
    ),
    "amqplib": Stack(
        "Node: Express sends messages by amqplib, to a consumer with amqplib, four at once",
        node("amqp_front.mjs"),
        QUEUES,
        routes=("job", "chain", "later", "retry"),
        servers=("leaf", "postgresql", "rabbitmq"),
        jobs=node("amqp_jobs.mjs"),
    ),
    "amqplib-one": Stack(
        "Node: Express sends messages by amqplib, to a consumer with amqplib, one after the other",
        node("amqp_front.mjs"),
        QUEUES,
        routes=("job", "chain", "later", "retry"),
        servers=("leaf", "postgresql", "rabbitmq"),
        jobs=node("amqp_jobs.mjs", PREFETCH="1"),
    ),
    "mongodb": Stack(
        "Node: Express, MongoDB's driver, ioredis, fetch in front of Fastify, ioredis, pg, undici",
        node("mongo.mjs"),
        LOOPS,
        routes=("seq", "par", "tx", "list", "nest"),
        servers=("leaf", "redis", "mongodb", "postgresql"),
        back=node("fastify.mjs"),
    ),
    "grpc-js": Stack(
        "Node: Express, @grpc/grpc-js in front of a server of @grpc/grpc-js, node-redis, pg",
        node("grpc_front.mjs", SHOP_PROTO),
        LOOPS,
        routes=("seq", "par", "list"),
        back=node("grpc_server.mjs", SHOP_PROTO),
    ),
}
