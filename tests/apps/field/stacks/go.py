"""Go: web frameworks with their drivers, with and without TLS."""

from stack import QUEUES, THREADS, App, Stack
from stacks import proxies

ROUTES = ("seq", "par", "tx", "nest", "deep", "work", "later", "stream")


def go(name, **env):
    return App([f"{{cache}}/field_go/{name}"], env, needs=(f"field_go/{name}",))


def stack(what, front, back, **more):
    return Stack(f"Go: {what}", front, THREADS, routes=ROUTES, back=back, **more)


STACKS = {
    "gin": stack("gin, pgx, go-redis in front of net/http, database/sql", go("gin"), go("nethttp")),
    "gin-tls": stack(
        "nginx, TLS with HTTP/1.1, gin, TLS with HTTP/2, net/http",
        go("gin"),
        go("nethttp"),
        proxy=proxies.NGINX_TLS,
        tls=True,
    ),
    "gin-h2": stack(
        "HAProxy, TLS with HTTP/2, gin, TLS with HTTP/1.1, net/http",
        go("gin", HTTP2="off"),
        go("nethttp"),
        proxy=proxies.HAPROXY_H2,
        tls=True,
    ),
    "gin-grpc": stack("gin in front of grpc-go, pgx, go-redis", go("gin", RPC="on"), go("grpc")),
    "nethttp": stack("net/http, database/sql in front of chi, pgx, redigo", go("nethttp"), go("chi")),
    "echo": stack(
        "nginx, echo, lib/pq, redigo in front of fiber, fasthttp's client", go("echo"), go("fiber"), proxy=proxies.NGINX
    ),
    "fiber": stack(
        "HAProxy, fiber, fasthttp's client in front of echo, lib/pq, redigo",
        go("fiber"),
        go("echo"),
        proxy=proxies.HAPROXY,
    ),
    "chi-tls": stack(
        "nginx, TLS with HTTP/1.1, chi, TLS with HTTP/1.1, net/http",
        go("chi", HTTP2="off"),
        go("nethttp"),
        proxy=proxies.NGINX_TLS,
        tls=True,
    ),
    "envoy": stack("Envoy, gin, pgx in front of echo, lib/pq", go("gin"), go("echo"), proxy=proxies.ENVOY),
    "envoy-h2": stack(
        "Envoy, TLS with HTTP/2, chi, TLS with HTTP/2, net/http",
        go("chi"),
        go("nethttp"),
        proxy=proxies.ENVOY_H2,
        tls=True,
    ),
    "mux": Stack(
        "Go: gorilla/mux, GORM, go-redis, resty, singleflight in front of httprouter, sqlx, redigo",
        go("mux"),
        THREADS,
        routes=(*ROUTES, "batch", "retry", "flight"),
        back=go("httprouter"),
    ),
    "httprouter": Stack(
        "Go: httprouter, sqlx, redigo in front of gorilla/mux, GORM, go-redis, resty",
        go("httprouter"),
        THREADS,
        routes=(*ROUTES, "batch", "retry"),
        back=go("mux"),
    ),
    "hertz": Stack(
        "Go: Hertz on netpoll with its client, Bun, rueidis in front of Connect, pgx, go-redis",
        go("hertz"),
        THREADS,
        routes=("seq", "par", "tx", "nest", "deep", "work", "batch", "later"),
        back=go("connect"),
    ),
    "kafka-go": Stack(
        "Go: net/http sends messages by kafka-go, to a consumer with kafka-go",
        go("queue_front"),
        QUEUES,
        routes=("job", "chain", "retry"),
        servers=("leaf", "postgresql", "kafka"),
        jobs=go("kafka_jobs"),
    ),
    "amqp091-go": Stack(
        "Go: net/http sends messages by amqp091-go, to a consumer with amqp091-go and workers",
        go("queue_front"),
        QUEUES,
        routes=("job", "chain", "retry"),
        servers=("leaf", "postgresql", "rabbitmq"),
        jobs=go("amqp_jobs"),
    ),
    "caddy": stack("Caddy, gin, pgx, go-redis in front of net/http", go("gin"), go("nethttp"), proxy=proxies.CADDY),
    "caddy-tls": stack(
        "Caddy, TLS with HTTP/1.1, gin, TLS with HTTP/1.1, net/http",
        go("gin", HTTP2="off"),
        go("nethttp"),
        proxy=proxies.CADDY_TLS,
        tls=True,
    ),
    "caddy-h2": stack(
        "Caddy, TLS with HTTP/2, gin, TLS with HTTP/2, net/http",
        go("gin"),
        go("nethttp"),
        proxy=proxies.CADDY_H2,
        tls=True,
    ),
}
