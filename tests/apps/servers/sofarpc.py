"""SOFARPC in Java, both ends (Bolt, hessian2, no registry): calls, large ones, exceptions."""

from stage import CACHE, Client

JAVA = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", f"{CACHE}/sofa-classes:{CACHE}/sofa/*", "Sofa"]
ORDERS = "Sofa$Orders:1.0"  # with its version, as the header has it


class Sofarpc(Client):
    protocol = "sofarpc"
    port = 12200
    programs = ("java",)
    files = ("sofa/sofa-rpc-all-*.jar", "sofa-classes/Sofa.class")
    also = ("sofarpc heartbeat",)
    LATE, FRESH, PARALLEL = 1, 1, 1  # a client is a process

    def start(self):
        self.spawn(*JAVA, "server", self.port)

    def command(self):
        return [*JAVA, "client", self.port]

    def warm(self, client):
        self.ask(client, "echo", "x")

    def use(self, client):
        for method, what, said in (("echo", "echo", "ok"), ("echo", "large", "ok"), ("list", "list", "ok"), ("missing", "missing", "failed")):
            for _ in range(3):
                with self.call(method, ORDERS, "ok" if said == "ok" else "server-error"):
                    assert self.ask(client, what, self.secret("value")) == said
