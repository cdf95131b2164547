"""The client that the gRPC servers share: messages are bytes, so that nothing has to be generated."""

from stage import Server


def same(message):
    return message


class Calls(Server):
    protocol = "http"  # network.protocol.name of its spans; their rpc.system.name is grpc
    parser = "http2"
    modules = ("grpc",)

    def open(self):
        import grpc

        self.opens = getattr(self, "opens", 0) + 1
        # Channels with equal options share a connection. The number makes the options of this channel unique.
        channel = grpc.insecure_channel(
            f"127.0.0.1:{self.port}", options=[("grpc.use_local_subchannel_pool", 1), ("wirespan.number", self.opens)]
        )
        grpc.channel_ready_future(channel).result(20)
        return channel

    def ready(self):
        self.wait_port(self.port)
        self.wait(lambda: not self.open().close(), "a channel")

    def unary(self, channel, method, message, code="OK", **more):
        """One call without streams. `code` is the expected status."""
        import grpc

        number = grpc.StatusCode[code].value[0]
        status = (
            "ok"
            if number == 0
            else "server-error"
            if code in ("UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS")
            else "client-error"
        )
        with self.call(method[1:], "", status, attrs={"rpc.system.name": "grpc", "rpc.status_code": code, **more}):
            try:
                answer = channel.unary_unary(method, same, same)(
                    message, timeout=20, metadata=[("x-token", self.secret("token")), ("cookie", self.secret("cookie"))]
                )
                assert number == 0
                return answer
            except grpc.RpcError as error:
                assert error.code().name == code, error

    def warm(self, channel):
        channel.unary_unary("/shop.Orders/Echo")(b"x", timeout=20)

    def stream(self, channel, kind, method, messages, answers):
        """A call of `kind` with several messages one way or both."""
        with self.call(method[1:], attrs={"rpc.system.name": "grpc", "rpc.status_code": "OK"}):
            many = getattr(channel, kind)(method, same, same)
            got = many(iter(messages) if kind.startswith("stream") else messages[0], timeout=20)
            assert (len(list(got)) if kind.endswith("stream") else 1) == answers

    def orders(self, channel):
        """Calls of every method that both servers of `shop.Orders` have."""
        message = self.secret("message").encode()
        self.unary(channel, "/shop.Orders/Echo", message)
        self.unary(channel, "/shop.Orders/Echo", message * 5000)
        self.unary(channel, "/shop.Orders/Missing", message, "NOT_FOUND")
        self.unary(channel, "/shop.Orders/Broken", message, "INTERNAL")
        self.unary(channel, "/shop.Orders/Nothing", message, "UNIMPLEMENTED")
        self.stream(channel, "unary_stream", "/shop.Orders/List", [message], 5)
        self.stream(channel, "stream_unary", "/shop.Orders/Upload", [message] * 7, 1)
        self.stream(channel, "stream_stream", "/shop.Orders/Chat", [message] * 4, 4)
