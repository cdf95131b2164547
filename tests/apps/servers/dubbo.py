"""Dubbo in Java, both ends (hessian2, no registry): calls, large ones, exceptions."""

from stage import CACHE, Client

JAVA = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", f"{CACHE}/dubbo-classes:{CACHE}/dubbo/*", "Dubbo"]
ORDERS = "Dubbo$Orders"


class Dubbo(Client):
    protocol = "dubbo"
    port = 20880
    programs = ("java",)
    files = ("dubbo/dubbo-3*.jar", "dubbo-classes/Dubbo.class")
    also = ("dubbo $heartbeat",)
    LATE, FRESH, PARALLEL = 1, 1, 1  # a client is a process

    def start(self):
        self.spawn(*JAVA, "server", str(self.port))

    def command(self):
        return [*JAVA, "client", self.port]

    def warm(self, client):
        self.ask(client, "echo", "x")

    def use(self, client):
        for method, what, said in (("echo", "echo", "ok"), ("echo", "large", "ok"), ("list", "list", "ok"), ("missing", "missing", "failed")):
            for _ in range(3):
                with self.call(method, ORDERS, "ok" if said == "ok" else "server-error"):
                    assert self.ask(client, what, self.secret("value")) == said
