"""Kafka (KRaft, started from its published jars): make a topic, produce, fetch with offsets, an unknown topic."""

import time

from stage import CACHE, Server


class Kafka(Server):
    protocol = "kafka"
    port = 9092
    programs = ("java",)
    modules = ("kafka",)
    files = ("kafka/kafka_2.13-*.jar",)
    # Requests of the client library, and of its polling; and what the client does for a record, which is no exchange.
    also = ("kafka ApiVersions", "kafka Metadata", "kafka Fetch", "kafka process")
    PARALLEL = 2

    def start(self):
        cluster = "wirespanwirespanwirespA"
        data = self.work / "data"
        conf = self.file(
            "server.properties",
            f"""
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:9093
advertised.listeners=PLAINTEXT://127.0.0.1:{self.port}
controller.listener.names=CONTROLLER
log.dirs={data}
num.network.threads=2
num.io.threads=2
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
""",
        )
        self.file("data/meta.properties", f"version=1\ncluster.id={cluster}\nnode.id=1\n")
        java = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{CACHE}/kafka/*"]
        self.spawn(*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", conf, "--ignore-formatted").wait()
        self.spawn(*java, "kafka.Kafka", conf)

    def ready(self):
        from kafka.admin import KafkaAdminClient

        self.wait(
            lambda: KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{self.port}").list_topics() is not None,
            "a list of topics",
        )

    def prepare(self):
        from kafka.admin import KafkaAdminClient, NewTopic

        admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{self.port}")
        admin.create_topics([NewTopic("orders", 1, 1)])
        admin.close()
        self.wait(lambda: self.produce(self.open(), b"first") == 0, "the first record")

    def produce(self, pair, value):
        return (
            pair[0]
            .send("orders", value=value, key=b"k", headers=[("token", self.secret("header").encode())])
            .get(20)
            .offset
        )

    def open(self):
        """A producer and a consumer: each makes its own connections."""
        from kafka import KafkaConsumer, KafkaProducer, TopicPartition

        common = {"bootstrap_servers": f"127.0.0.1:{self.port}", "connections_max_idle_ms": 600_000}
        producer = KafkaProducer(**common, acks=1, linger_ms=0)
        producer.partitions_for("orders")
        consumer = KafkaConsumer(**common, enable_auto_commit=False, group_id=None, fetch_max_wait_ms=200)
        consumer.assign([TopicPartition("orders", 0)])
        return producer, consumer

    def close(self, pair):
        for client in pair:
            client.close()

    def warm(self, pair):
        self.produce(pair, b"warm")
        pair[1].poll(100)

    def use(self, pair):
        from kafka import TopicPartition

        producer, consumer = pair
        where = TopicPartition("orders", 0)
        for i in range(3):
            with self.call("Produce", "orders"):
                offset = self.produce(pair, self.secret("message").encode() * (1 + 3000 * i))
        with self.call("ListOffsets", "orders"):
            assert consumer.end_offsets([where])[where] > offset
        consumer.seek(where, offset)
        with self.call("Fetch", "orders", attrs={"kafka.offset": offset}):
            deadline = time.monotonic() + 20
            while not (got := consumer.poll(500, max_records=1).get(where)):
                assert time.monotonic() < deadline, "nothing was fetched"
            assert got[0].offset == offset
