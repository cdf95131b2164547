"""Known example systems of many services, rebuilt from real frameworks."""

from stack import LOOPS, App, Stack
from stacks import proxies
from stacks.go import go
from stacks.java import java
from stacks.node import SHOP_PROTO, node
from stacks.python import gunicorn, python
from stacks.ruby import puma
from stacks.rust import rust


WEBRICK = App(["ruby", "{here}/ruby/bookinfo_details.rb"], programs=("ruby",), packages=("ruby-webrick",))
PHP = App(
    ["php", "-S", "127.0.0.1:{port}", "{here}/php/index.php"],
    {"PHP_CLI_SERVER_WORKERS": "8"},
    programs=("php",),
    packages=("php-pgsql", "php-redis", "php-curl"),
)

STACKS = {
    "bookinfo": Stack(
        "Bookinfo: Flask on gunicorn gevent, WEBrick, Spring MVC on Tomcat, Node with mysql2",
        gunicorn("bookinfo_product:app", "gevent"),
        LOOPS,
        routes=("productpage", "details", "reviews", "ratings"),
        servers=("leaf", "mariadb"),
        more={
            "ratings": node("bookinfo_ratings.mjs"),
            "reviews": java("tomcat", "bookinfo.Reviews"),
            "details": WEBRICK,
        },
    ),
    # No registry that is reached has what .NET is built with, so another language has the cart.
    "astronomy": Stack(
        "OpenTelemetry's demo: Envoy, Express, Go, Python, Java, Node, Rust, PHP, Ruby, gRPC, Kafka",
        node("astronomy_front.mjs", SHOP_PROTO),
        LOOPS,
        routes=("product", "cart", "checkout"),
        servers=("leaf", "redis", "postgresql", "kafka"),
        proxy=proxies.ENVOY,
        more={
            "catalog": go("grpc"),
            "cart": java("grpc", "GrpcServer"),
            "ad": java("grpc", "GrpcServer"),
            "payment": node("grpc_server.mjs", SHOP_PROTO),
            "quote": PHP,
            "shipping": rust("axum", BACK_URL="http://127.0.0.1:7014"),
            "email": puma(),
            "recommendation": python("{here}/python/recommendation_server.py"),
            "checkout": go("checkout"),
        },
        jobs=go("kafka_jobs"),
    ),
}
