"""RocketMQ's name server and broker with its client in Java, headers in JSON and binary: sending, one-way, a long pull,
a queue that is not there.
"""

import itertools
import time

from stage import CACHE, Client

OPENS = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.nio", "sun.nio.ch", "jdk.internal.ref")]
# The broker takes no message when the disk is 90 % full, unless told otherwise.
FULL = ["-Drocketmq.broker.diskSpaceWarningLevelRatio=1", "-Drocketmq.broker.diskSpaceCleanForciblyRatio=1"]


class Rocketmq(Client):
    protocol = "rocketmq"
    port = 10911
    names = 9876
    more_ports = (names,)
    programs = ("java",)
    files = ("rocketmq/rocketmq-broker-*.jar", "rocketmq-classes/Rocketmq.class")
    # Requests of the client library and the broker: the list of brokers, consumers, and their offsets.
    also = tuple(
        f"rocketmq {name}"
        for name in (
            "GET_ROUTEINFO_BY_TOPIC",
            "HEART_BEAT",
            "UNREGISTER_CLIENT",
            "REGISTER_BROKER",
            "QUERY_DATA_VERSION",
            "GET_CONSUMER_LIST_BY_GROUP",
            "QUERY_CONSUMER_OFFSET",
            "GET_MAX_OFFSET",
            "UPDATE_CONSUMER_OFFSET",
            "PULL_MESSAGE",
            "NOTIFY_CONSUMER_IDS_CHANGED",
        )
    )
    LATE, FRESH, PARALLEL = 1, 1, 1  # a client is a process
    numbers = itertools.count()

    def java(self):
        return [
            "java",
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            *FULL,
            *OPENS,
            f"-Duser.home={self.work}",
            "-cp",
            f"{CACHE}/rocketmq-classes:{CACHE}/rocketmq/*",
            "Rocketmq",
        ]

    def start(self):
        self.spawn(*self.java(), "server", self.names, self.port, self.work / "store")

    def ready(self):
        self.wait_port(self.names)
        self.wait_port(self.port)

    def command(self):
        number = next(self.numbers)
        return [*self.java(), "client", self.names, f"group{number}", ("json", "binary")[number % 2]]

    def open(self):
        # The pull that brings a message has waited for it since the message before.
        began = time.time_ns()
        client = super().open()
        client.pulls_since, client.asked_early = began, self.late
        return client

    def both(self, client, what, status="ok"):
        """A message is sent, and comes."""
        with self.call(
            "SEND_MESSAGE_V2",
            "orders",
            status,
            attrs={"messaging.operation.type": "send", "messaging.destination.name": "orders"},
        ) as sent:
            said = self.ask(client, what, self.secret("message"))
        with self.call("PULL_MESSAGE", "orders", start=client.pulls_since) as pulled:
            identity, offset = self.ask(client, "receive", "-").split()
            pulled["attrs"] = {"wirespan.rocketmq.queue_offset": offset, "messaging.destination.partition.id": 0}
            if what != "large":  # the id stands behind the message
                pulled["attrs"]["messaging.message.id"] = identity
            if client.asked_early:  # before the tracing
                pulled.update(operation="", target="", status="no-request")
            client.asked_early = False
        assert said in ("ok", f"{identity} {offset}"), said
        client.pulls_since = sent["end"]

    def warm(self, client):
        sent = self.ask(client, "send", "x")
        assert sent == self.ask(client, "receive", "-"), f"{sent}\n{self.logs()}"

    def use(self, client):
        for what, status in (("send", "ok"), ("large", "ok"), ("one-way", "one-way"), ("send", "ok")):
            self.both(client, what, status)
        with self.call("SEND_MESSAGE_V2", "orders", "server-error"):
            assert (said := self.ask(client, "wrong", self.secret("message"))) == "failed 1", said
