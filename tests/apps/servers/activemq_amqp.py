"""ActiveMQ and Qpid's client, AMQP 1.0: a login, sending with and without an answer, receiving, a refused login."""

import itertools

from jms import Jms


class ActivemqAmqp(Jms):
    protocol = "amqp"  # network.protocol.name of its spans, as for AMQP 0-9-1
    parser = "amqp1"
    port = 5672
    scheme = "amqp"
    # How a connection, its session and its links are made and taken down.
    also = tuple(
        f"amqp {name}"
        for name in ("sasl.mechanisms", "sasl.init", "open", "begin", "attach queue://orders", "detach", "end", "close")
    )
    forms = itertools.cycle([False, True])

    def options(self):
        self.here.settled = next(self.forms)
        return "?jms.presettlePolicy.presettleProducers=true" if self.here.settled else ""

    def use(self, client):
        for what in ("send", "large", "async", "send"):
            named = {"messaging.destination.name": "queue://orders"}
            status = "one-way" if self.here.settled else "ok"
            with self.call(
                "transfer", "queue://orders", status, attrs={**named, "messaging.operation.type": "send"}
            ) as record:
                assert self.ask(client, what) == "ok"
                assert self.ask(client, "receive") == "ok"
                self.also_seen(record, status="ok", attrs={**named, "messaging.operation.type": "process"})
        with self.call("sasl.init", status="client-error"):
            assert self.ask(client, "wrong") == "refused"
