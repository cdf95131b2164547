"""Go: web frameworks with their drivers, with and without TLS."""

from stack import THREADS, App, Stack

ROUTES = ("seq", "par", "tx", "nest", "deep", "work", "later", "stream")
PROXIES = {
    "nginx": App(["nginx", "-c", "{config}"], config="proxies/nginx.conf", programs=("nginx",)),
    "nginx-tls": App(["nginx", "-c", "{config}"], config="proxies/nginx-tls.conf", programs=("nginx",)),
    "haproxy": App(["haproxy", "-db", "-f", "{config}"], config="proxies/haproxy.cfg", programs=("haproxy",)),
    "haproxy-h2": App(["haproxy", "-db", "-f", "{config}"], config="proxies/haproxy-h2.cfg", programs=("haproxy",)),
}


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
        proxy=PROXIES["nginx-tls"],
        tls=True,
    ),
    "gin-h2": stack(
        "HAProxy, TLS with HTTP/2, gin, TLS with HTTP/1.1, net/http",
        go("gin", HTTP2="off"),
        go("nethttp"),
        proxy=PROXIES["haproxy-h2"],
        tls=True,
    ),
    "nethttp": stack("net/http, database/sql in front of chi, pgx, redigo", go("nethttp"), go("chi")),
    "echo": stack(
        "nginx, echo, lib/pq, redigo in front of fiber, fasthttp's client",
        go("echo"),
        go("fiber"),
        proxy=PROXIES["nginx"],
    ),
    "fiber": stack(
        "HAProxy, fiber, fasthttp's client in front of echo, lib/pq, redigo",
        go("fiber"),
        go("echo"),
        proxy=PROXIES["haproxy"],
    ),
    "chi-tls": stack(
        "nginx, TLS with HTTP/1.1, chi, TLS with HTTP/1.1, net/http",
        go("chi", HTTP2="off"),
        go("nethttp"),
        proxy=PROXIES["nginx-tls"],
        tls=True,
    ),
}
