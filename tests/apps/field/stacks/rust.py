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
    "salvo": Stack(
        "Rust: Salvo, SeaORM, redis-rs in a pool of bb8, isahc (libcurl in a thread) in front of Rocket",
        rust("salvo"),
        LOOPS,
        routes=("seq", "par", "tx", "nest", "deep", "retry", "later"),
        back=rust("rocket"),
    ),
    "rocket": Stack(
        "Rust: Rocket, a pool of postgres in threads, redis-rs, reqwest in front of Salvo",
        rust("rocket"),
        LOOPS,
        routes=("seq", "par", "tx", "nest", "thread"),
        back=rust("salvo"),
    ),
    "tonic": Stack(
        "Rust: axum, tonic's client in front of tonic's server, reqwest, sqlx, redis-rs",
        rust("tonic_front"),
        LOOPS,
        routes=("seq", "par", "list"),
        back=rust("tonic_server"),
    ),
}
