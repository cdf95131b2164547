"""SOFARPC in Java, both ends (Bolt, hessian2, no registry): calls, large ones, exceptions."""

from stage import JavaEnds

ORDERS = "Sofa$Orders:1.0"  # with its version, as the header has it


class Sofarpc(JavaEnds):
    protocol = "sofarpc"
    port = 12200
    folder, main = "sofa", "Sofa"
    options = ("--add-opens=java.base/java.lang=ALL-UNNAMED",)
    files = ("sofa/sofa-rpc-all-*.jar", "sofa-classes/Sofa.class")
    also = ("sofarpc heartbeat",)

    def warm(self, client):
        self.ask(client, "echo", "x")

    def use(self, client):
        for method, what, said in (
            ("echo", "echo", "ok"),
            ("echo", "large", "ok"),
            ("list", "list", "ok"),
            ("missing", "missing", "failed"),
        ):
            for _ in range(3):
                with self.call(method, ORDERS, "ok" if said == "ok" else "server-error"):
                    assert self.ask(client, what, self.secret("value")) == said
