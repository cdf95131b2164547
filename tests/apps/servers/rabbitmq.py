"""RabbitMQ, AMQP 0-9-1: declaring, publishing with confirms, getting, consuming, errors that close a channel."""

from stage import Server


class Rabbitmq(Server):
    protocol = "amqp"
    port = 5672
    programs = ("/usr/lib/rabbitmq/bin/rabbitmq-server",)
    modules = ("pika",)
    also = (
        "amqp channel.open",
        "amqp channel.close",
        "amqp connection.start",
        "amqp connection.tune",
        "amqp connection.open",
        "amqp connection.close",
    )

    def start(self):
        conf = self.file(
            "rabbitmq.conf",
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\ndefault_user = boss\ndefault_pass = "
            f"{self.secret('pass')}\nloopback_users = none\nlog.console = true\n",
        )
        env = {
            "HOME": self.work,
            "RABBITMQ_BASE": self.work,
            "RABBITMQ_CONFIG_FILE": conf,
            "RABBITMQ_MNESIA_BASE": self.work / "mnesia",
            "RABBITMQ_LOG_BASE": self.work,
            "RABBITMQ_NODENAME": "wirespan@localhost",
            "RABBITMQ_ENABLED_PLUGINS_FILE": self.work / "plugins",
            "RABBITMQ_PID_FILE": self.work / "pid",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+sbwt none +S 2:2 -start_epmd true",
            "RABBITMQ_LOGS": "-",
        }
        self.spawn("epmd", "-address", "127.0.0.1")
        self.spawn("/usr/lib/rabbitmq/bin/rabbitmq-server", env={k: str(v) for k, v in env.items()})

    def ready(self):
        self.wait(lambda: not self.open().close(), "a connection")

    def open(self):
        import pika

        credentials = pika.PlainCredentials("boss", self.secret("pass"))
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.port, credentials=credentials, heartbeat=0)
        )

    def end_port(self, connection):
        return connection._impl._transport._sock.getsockname()[1]

    def warm(self, connection):
        connection.kept = connection.channel()

    def greet(self, connection):
        connection.kept = connection.channel()

    def use(self, connection):
        import pika

        channel = connection.kept
        name = f"orders-{self.end_port(connection)}"
        with self.call("queue.declare", name):
            channel.queue_declare(name, auto_delete=True)
        with self.call("confirm.select"):
            channel.confirm_delivery()
        for i in range(3):
            with self.call("basic.publish", name):
                properties = pika.BasicProperties(headers={"token": self.secret("header")}, message_id=str(i))
                channel.basic_publish("", name, self.secret("message") * (1 + 3000 * i), properties, mandatory=True)
        with self.call("basic.get", name):
            method, _, body = channel.basic_get(name)
            assert body == self.secret("message").encode()
        with self.call("basic.ack", status="one-way"):
            channel.basic_ack(method.delivery_tag)
        with self.call("queue.purge", name):
            channel.queue_purge(name)
        with self.call("queue.declare", "nobody", "client-error"):
            try:
                connection.channel().queue_declare("nobody", passive=True)
                raise AssertionError("no error")
            except pika.exceptions.ChannelClosedByBroker:
                pass
