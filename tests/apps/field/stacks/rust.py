"""Rust: web frameworks on tokio, with one multiplexed connection to Redis."""

from stack import LOOPS, App, Stack

ROUTES = ("seq", "par", "tx", "nest", "deep", "work", "later", "stream")


def rust(name, **env):
    return App([f"{{cache}}/field_rust/{name}"], env, needs=(f"field_rust/{name}",))


def stack(what, front, back):
    return Stack(f"Rust: {what}, reqwest, sqlx, redis-rs", rust(front), LOOPS, routes=ROUTES, back=rust(back))


STACKS = {
    "axum": stack("axum in front of actix-web", "axum", "actix"),
    "actix": stack("actix-web in front of axum", "actix", "axum"),
    "poem": Stack(
        "Rust: poem, deadpool-postgres, fred, reqwest in front of axum, sqlx, redis-rs",
        rust("poem"),
        LOOPS,
        routes=("seq", "par", "tx", "nest", "deep", "retry", "later", "stream"),
        back=rust("axum"),
    ),
    "tonic": Stack(
        "Rust: axum, tonic's client in front of tonic's server, reqwest, sqlx, redis-rs",
        rust("tonic_front"),
        LOOPS,
        routes=("seq", "par", "list"),
        back=rust("tonic_server"),
    ),
}
