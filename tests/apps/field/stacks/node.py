"""Node: web frameworks, with drivers that multiplex one connection, pools, and HTTP clients."""

from stack import LOOPS, QUEUES, App, Stack
from stacks import proxies


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
    "bullmq": Stack(
        "Node: Express gives jobs to BullMQ by Redis",
        node("bull_front.mjs"),
        QUEUES,
        routes=("job", "chain", "later", "retry"),
        jobs=node("bull_jobs.mjs"),
    ),
}
