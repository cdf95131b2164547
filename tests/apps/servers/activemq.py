"""ActiveMQ and its client in Java, OpenWire in both encodings: a login, sending with and without an answer, receiving, a refused login."""

import itertools
import os

from stage import CACHE, Client

JAVA = ["java", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{CACHE}/activemq-classes:{CACHE}/activemq/*", "Activemq"]


class Activemq(Client):
    protocol = "openwire"
    port = 61616
    programs = ("java",)
    files = ("activemq/activemq-broker-*.jar", "activemq-classes/Activemq.class")
    # What both ends say of themselves, and how a session is made and taken down.
    also = tuple(
        f"openwire {name}"
        for name in (
            "WireFormatInfo", "BrokerInfo", "SessionInfo", "ConsumerInfo orders", "ProducerInfo orders", "RemoveInfo", "ShutdownInfo", "ConnectionControl", "ConnectionInfo",
            "ConnectionError", "ConsumerControl orders",
        )
    )
    LATE, FRESH, PARALLEL = 0, 2, 0  # a client is a process; of a connection that is joined later the destination is not known
    encodings = itertools.cycle(["", "&wireFormat.tightEncodingEnabled=false"])

    def start(self):
        os.environ["PASS"] = self.secret("pass")
        self.spawn(*JAVA, "server", str(self.port))

    def command(self):
        return [*JAVA, "client", self.port, next(self.encodings)]

    def ask(self, client, what):
        return super().ask(client, what, self.secret("message"))

    def use(self, client):
        for what, status in (("send", "ok"), ("large", "ok"), ("async", "one-way"), ("send", "ok")):
            with self.call("ActiveMQTextMessage", "orders", status, attrs={"messaging.destination.name": "orders"}) as record:
                assert self.ask(client, what) == "ok"
                assert self.ask(client, "receive") == "ok"
                self.also_seen(record, operation="MessageDispatch", status="one-way")
                self.also_seen(record, operation="MessageAck", status="one-way")
        with self.call("ConnectionInfo", status="client-error"):
            assert self.ask(client, "wrong") == "refused"
