"""bRPC's protocol (baidu_std) in Java, both ends: small and large calls, a service that throws, a missing method."""

from stage import JavaEnds


class Brpc(JavaEnds):
    protocol = "brpc"
    port = 8002
    folder, main = "brpc", "Brpc"
    files = ("brpc/jprotobuf-rpc-core-*.jar", "brpc-classes/Brpc.class")

    def warm(self, client):
        self.ask(client, "add", "x")

    def use(self, client):
        for method, what, status, said in (
            ("add", "add", "ok", "ok"),
            ("add", "large", "ok", "ok"),
            ("refuse", "refuse", "server-error", "failed 2001"),
            ("missing", "missing", "client-error", "failed 1001"),
            ("add", "add", "ok", "ok"),
        ):
            with self.call(
                method, "shop.Cart", status, attrs={"rpc.system.name": "brpc", "rpc.method": f"shop.Cart/{method}"}
            ):
                assert (answer := self.ask(client, what, self.secret("text"))) == said, answer
