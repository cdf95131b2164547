"""ActiveMQ and its own client, OpenWire in both encodings: a login, sending with and without an answer, receiving, a
refused login.
"""

import itertools

from jms import Jms


class Activemq(Jms):
    protocol = "openwire"
    port = 61616
    scheme = "tcp"
    # Commands in which both ends describe themselves, and commands that open and close a session.
    also = tuple(
        f"openwire {name}"
        for name in (
            "WireFormatInfo",
            "BrokerInfo",
            "SessionInfo",
            "ConsumerInfo orders",
            "ProducerInfo orders",
            "RemoveInfo",
            "ShutdownInfo",
            "ConnectionControl",
            "ConnectionInfo",
            "ConnectionError",
            "ConsumerControl orders",
        )
    )
    encodings = itertools.cycle(["", "&wireFormat.tightEncodingEnabled=false"])

    def options(self):
        return "?wireFormat.maxInactivityDuration=0" + next(self.encodings)

    def use(self, client):
        for what, status in (("send", "ok"), ("large", "ok"), ("async", "one-way"), ("send", "ok")):
            with self.call(
                "ActiveMQTextMessage", "orders", status, attrs={"messaging.destination.name": "orders"}
            ) as record:
                assert self.ask(client, what) == "ok"
                assert self.ask(client, "receive") == "ok"
                self.also_seen(record, operation="MessageDispatch", status="one-way")
                self.also_seen(record, operation="MessageAck", status="one-way")
        with self.call("ConnectionInfo", status="client-error"):
            assert self.ask(client, "wrong") == "refused"
