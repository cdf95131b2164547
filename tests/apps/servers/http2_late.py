"""HTTP/2 joined in the middle: a hundred connections with headers in their tables before anybody traces."""

from grpc_calls import Calls
from stage import CACHE


class Http2Late(Calls):
    port = 50053
    files = ("grpc_go",)
    LATE, FRESH, PARALLEL = 100, 0, 0

    def start(self):
        self.spawn(CACHE / "grpc_go", f"127.0.0.1:{self.port}")

    def warm(self, channel):
        channel.unary_unary("/shop.Orders/Echo")(b"x", timeout=20, metadata=[("x-token", self.secret("token"))])

    def use(self, channel):
        message = self.secret("message").encode()
        self.unary(channel, "/shop.Orders/Echo", message)
        self.unary(channel, "/shop.Orders/Missing", message, "NOT_FOUND")
        self.unary(channel, "/shop.Orders/Echo", message)
