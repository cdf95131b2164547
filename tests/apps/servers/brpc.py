"""bRPC's protocol (baidu_std) in Java, both ends: calls, large ones, a service that throws, a method that is not there."""

from stage import CACHE, Client

JAVA = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{CACHE}/brpc-classes:{CACHE}/brpc/*", "Brpc"]


class Brpc(Client):
    protocol = "brpc"
    port = 8002
    programs = ("java",)
    files = ("brpc/jprotobuf-rpc-core-*.jar", "brpc-classes/Brpc.class")
    LATE, FRESH, PARALLEL = 1, 1, 1  # a client is a process

    def start(self):
        self.spawn(*JAVA, "server", self.port)

    def command(self):
        return [*JAVA, "client", self.port]

    def warm(self, client):
        self.ask(client, "add", "x")

    def use(self, client):
        for method, what, status, said in (
            ("add", "add", "ok", "ok"), ("add", "large", "ok", "ok"), ("refuse", "refuse", "server-error", "failed 2001"), ("missing", "missing", "client-error", "failed 1001"), ("add", "add", "ok", "ok"),
        ):
            with self.call(method, "shop.Cart", status, attrs={"rpc.system.name": "brpc", "rpc.method": f"shop.Cart/{method}"}):
                assert (answer := self.ask(client, what, self.secret("text"))) == said, answer
