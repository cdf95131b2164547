"""ActiveMQ and its client in Java, OpenWire in both encodings: a login, sending with and without an answer, receiving, a refused login."""

import itertools
import os
import subprocess

from stage import CACHE, Server

JAVA = ["java", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{CACHE}/activemq-classes:{CACHE}/activemq/*", "Activemq"]


class Activemq(Server):
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

    def open(self):
        command = [*JAVA, "client", str(self.port), next(self.encodings)]
        client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(self.work / "client.log", "ab"), text=True, cwd=self.work)
        self.children.append(client)
        line = client.stdout.readline()
        assert line == "ready\n", f"{line}\n{self.logs()}"
        return client

    def close(self, client):
        client.stdin.close()
        client.wait(20)

    def ask(self, client, what):
        client.stdin.write(f"{what} {self.secret('message')}\n")
        client.stdin.flush()
        return client.stdout.readline().strip()

    def use(self, client):
        for what, status in (("send", "ok"), ("large", "ok"), ("async", "one-way"), ("send", "ok")):
            with self.call("ActiveMQTextMessage", "orders", status, attrs={"messaging.destination.name": "orders"}) as record:
                assert self.ask(client, what) == "ok"
                assert self.ask(client, "receive") == "ok"
                self.also_seen(record, operation="MessageDispatch", status="one-way")
                self.also_seen(record, operation="MessageAck", status="one-way")
        with self.call("ConnectionInfo", status="client-error"):
            assert self.ask(client, "wrong") == "refused"
