"""Dubbo in Java, both ends (hessian2, no registry): calls, large ones, exceptions."""

from stage import JavaEnds

ORDERS = "Dubbo$Orders"


class Dubbo(JavaEnds):
    protocol = "dubbo"
    port = 20880
    folder, main = "dubbo", "Dubbo"
    options = ("--add-opens=java.base/java.lang=ALL-UNNAMED",)
    files = ("dubbo/dubbo-3*.jar", "dubbo-classes/Dubbo.class")
    also = ("dubbo $heartbeat",)

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
