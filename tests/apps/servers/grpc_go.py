"""gRPC with a server in Go and a client on gRPC's C core: single calls, streams each way, statuses."""

from grpc_calls import Calls
from stage import CACHE


class GrpcGo(Calls):
    port = 50051
    files = ("grpc_go",)

    def start(self):
        self.spawn(CACHE / "grpc_go", f"127.0.0.1:{self.port}")

    def use(self, channel):
        self.orders(channel)
