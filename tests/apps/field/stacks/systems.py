"""Known example systems of many services, rebuilt from real frameworks."""

from stack import LOOPS, App, Stack
from stacks.java import java
from stacks.node import node
from stacks.python import gunicorn

WEBRICK = App(["ruby", "{here}/ruby/bookinfo_details.rb"], programs=("ruby",), packages=("ruby-webrick",))

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
    )
}
