"""Pulsar's broker (with ZooKeeper and a bookie) and its client in C++ from Python: sending, delivery, a subscription
that is taken.
"""

import itertools

from stage import CACHE, Server

OPENS = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.lang", "java.nio", "jdk.internal.misc")]


class Pulsar(Server):
    protocol = "pulsar"
    port = 6650
    programs = ("java",)
    modules = ("pulsar",)
    files = ("pulsar/pulsar-broker-3*.jar", "pulsar-classes/Pulsar.class")
    # Of the client's library: how it finds the broker and says goodbye; acknowledgements go together.
    also = tuple(
        f"pulsar {name}"
        for name in (
            "CONNECT",
            "PARTITIONED_METADATA",
            "LOOKUP",
            "PRODUCER",
            "SUBSCRIBE",
            "FLOW",
            "ACK",
            "ACTIVE_CONSUMER_CHANGE",
            "CLOSE_PRODUCER",
            "CLOSE_CONSUMER",
            "PING",
        )
    )
    LATE, FRESH, PARALLEL = 1, 1, 2
    topics = itertools.count()

    def start(self):
        java = [
            "java",
            "-Xmx256m",
            "-XX:MaxDirectMemorySize=256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            *OPENS,
        ]
        self.spawn(*java, "-cp", f"{CACHE}/pulsar-classes:{CACHE}/pulsar/*", "Pulsar", self.port, self.work)

    def ready(self):
        self.wait(lambda: (self.work / "ready").exists(), "a namespace")

    def open(self):
        import pulsar

        logger = pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(self.work / "client.log"))  # else it writes to stdout
        client = pulsar.Client(f"pulsar://127.0.0.1:{self.port}", operation_timeout_seconds=20, logger=logger)
        client.topic = f"persistent://public/default/orders{next(self.topics)}"
        client.consumer = client.subscribe(client.topic, "eaters")
        client.producer = client.create_producer(client.topic, batching_enabled=False)
        return client

    def one(self, client, value):
        client.producer.send(value, properties={"token": self.secret("property")})
        message = client.consumer.receive(20_000)
        client.consumer.acknowledge(message)
        assert message.data() == value

    def warm(self, client):
        self.one(client, b"x")

    def use(self, client):
        import pulsar

        # Of a producer that was made before the tracing, only its number is known.
        topic = "" if self.late else client.topic
        attrs = {} if self.late else {"messaging.destination.name": topic}
        for i in range(4):
            with self.call("SEND", topic, attrs={"messaging.operation.type": "send", **attrs}) as sent:
                self.one(client, self.secret("message").encode() * (1 + 700 * (i % 2)))
                self.also_seen(
                    sent, operation="MESSAGE", status="one-way", attrs={"messaging.operation.type": "receive", **attrs}
                )
        with self.call("SUBSCRIBE", client.topic, "client-error"):
            try:
                client.subscribe(client.topic, "eaters")
                raise AssertionError("no error")
            except pulsar.ConsumerBusy:
                pass
