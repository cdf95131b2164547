"""gRPC with a server in Java (Netty) and a client on gRPC's C core: single calls, streams each way, statuses."""

from grpc_calls import Calls
from stage import CACHE


class GrpcJava(Calls):
    port = 50052
    programs = ("java",)
    files = ("grpc/grpc-netty-shaded-*.jar", "grpc-classes/Grpc.class")

    def start(self):
        self.spawn(
            "java",
            "-Xmx128m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            f"{CACHE}/grpc-classes:{CACHE}/grpc/*",
            "Grpc",
            str(self.port),
        )

    def use(self, channel):
        self.orders(channel)
