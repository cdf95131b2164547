"""Tars for Node.js, both ends, without its platform: calls, large ones, one-way, TUP, refusals, an unknown function."""

import os

from stage import APPS, CACHE, Client


class Tars(Client):
    protocol = "tars"
    port = 14002
    programs = ("node",)
    files = ("tars/node_modules/@tars/rpc",)
    LATE, FRESH, PARALLEL = 1, 1, 1  # a client is a process

    def node(self, role):
        return ["node", "--no-deprecation", APPS / "fetch" / "tars" / "tars.js", role, self.port]

    def start(self):
        os.environ["NODE_PATH"] = f"{CACHE}/tars/node_modules"
        self.spawn(*self.node("server"))

    def command(self):
        return self.node("client")

    def warm(self, client):
        self.ask(client, "add", "x")

    def use(self, client):
        for function, how, status, said in (
            ("add", "", "ok", "ok"),
            ("add", "/large", "ok", "ok"),
            ("add", "/tup", "ok", "ok"),
            ("refuse", "/tup", "server-error", "failed 77"),
            ("refuse", "", "server-error", "failed 77"),
            ("note", "/one-way", "one-way", "ok"),
            ("missing", "", "client-error", "failed -3"),
            ("add", "", "ok", "ok"),
        ):
            attrs = {"rpc.system.name": "tars", "rpc.method": f"Shop.CartServer.CartObj/{function}"}
            with self.call(function, "Shop.CartServer.CartObj", status, attrs=attrs):
                assert (answer := self.ask(client, function + how, self.secret("text"))) == said, answer
