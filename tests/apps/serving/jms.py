"""ActiveMQ and a client of its queue `orders` in Java, by one protocol or another: `Activemq.java` says what a client
can be told.
"""

import os

from stage import CACHE, Client

JAVA = [
    "java",
    "-Xmx192m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-cp",
    f"{CACHE}/activemq-classes:{CACHE}/activemq/*",
    "Activemq",
]


class Jms(Client):
    programs = ("java",)
    files = ("activemq/activemq-broker-*.jar", "activemq/qpid-jms-client-*.jar", "activemq-classes/Activemq.class")
    LATE, FRESH, PARALLEL = (
        0,
        2,
        0,
    )  # a client is a process; of a connection that is joined later the destination is not known
    scheme = ""

    def start(self):
        os.environ["PASS"] = self.secret("pass")
        self.spawn(*JAVA, "server", self.scheme, self.port)

    def options(self):
        return ""

    def command(self):
        return [*JAVA, "client", self.scheme, self.port, self.options()]

    def ask(self, client, what):
        return super().ask(client, what, self.secret("message"))
