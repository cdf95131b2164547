"""NATS: publishing, requests with answers, queue groups, JetStream."""

import asyncio
import time

from stage import Server


class Nats(Server):
    protocol = "nats"
    port = 4222
    programs = ("nats-server",)
    modules = ("nats",)
    also = ("nats PING",)  # the server asks as well

    def start(self):
        self.spawn(
            "nats-server",
            "-a",
            "127.0.0.1",
            "-p",
            self.port,
            "--user",
            "boss",
            "--pass",
            self.secret("pass"),
            "-js",
            "-sd",
            self.work / "js",
        )

    def open(self):
        import nats

        loop = asyncio.new_event_loop()
        client = loop.run_until_complete(
            nats.connect(
                f"nats://127.0.0.1:{self.port}", user="boss", password=self.secret("pass"), allow_reconnect=False
            )
        )
        client.loop = loop
        return client

    def close(self, client):
        client.loop.run_until_complete(client.close())

    def end_port(self, client):
        return client._transport._io_writer.get_extra_info("sockname")[1]

    def warm(self, client):
        self.warmed = [*getattr(self, "warmed", ()), client]
        if len(self.warmed) == self.LATE:
            # The server asks each new connection once after up to 2.4 s; question and answer shall both be before the
            # tracing.
            time.sleep(2.5)
            for each in self.warmed:
                each.loop.run_until_complete(each.flush())

    def greet(self, client):
        self.opened("INFO", status="one-way")
        self.opened("CONNECT", status="one-way")
        self.opened("PING")

    def use(self, client):
        subject = f"shop.orders.{self.end_port(client)}"
        client.loop.run_until_complete(self.talk(client, subject))

    async def talk(self, client, subject):
        with self.call("SUB", subject, "one-way") as record:
            subscription = await client.subscribe(subject)
            await client.flush()
            self.also_seen(record, operation="PING", target="", status="ok")
        for i in range(3):
            with self.call("PUB", subject, "one-way") as record:
                await client.publish(subject, self.secret("message").encode() * (1 + 2000 * i))
                await client.flush()
                await subscription.next_msg(5)
                self.also_seen(record, operation="PING", target="", status="ok")
                self.also_seen(record, operation="MSG")
        with self.call("HPUB", subject, "one-way") as record:
            await client.publish(subject, b"x", headers={"X-Token": self.secret("header")})
            await client.flush()
            await subscription.next_msg(5)
            self.also_seen(record, operation="PING", target="", status="ok")
            self.also_seen(record, operation="HMSG")
