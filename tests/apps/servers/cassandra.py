"""Cassandra (started from its published jars), CQL: queries, prepared statements, batches, errors."""

import itertools

from stage import CACHE, Server

OPENS = [
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.reflect",
    "java.base/java.math",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/sun.nio.ch",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.util.jar",
    "java.management/java.lang.management",
    "java.rmi/sun.rmi.transport",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.transport.tcp",
    "java.rmi/sun.rmi.server",
    "jdk.management.jfr/jdk.management.jfr",
    "jdk.management/com.sun.management.internal",
    "java.logging/java.util.logging",
    "java.sql/java.sql",
]


class Cassandra(Server):
    protocol = "cassandra"
    port = 9042
    programs = ("java",)
    modules = ("cassandra.cluster", "lz4")
    files = ("cassandra/cassandra-all-*.jar",)
    also = (
        "cassandra OPTIONS",
        "cassandra STARTUP",
        "cassandra REGISTER",
        "cassandra SELECT system.local",
        "cassandra SELECT system.peers",
        "cassandra SELECT system.peers_v2",
    )
    LATE, FRESH, PARALLEL = 1, 1, 2
    # Version of the protocol, and whether LZ4 packs it.
    forms = itertools.cycle([(4, True), (5, True), (4, False), (5, False)])

    def start(self):
        conf = self.file(
            "conf/cassandra.yaml",
            f"""
cluster_name: wirespan
num_tokens: 1
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
commitlog_sync: periodic
commitlog_sync_period: 10000ms
commitlog_segment_size: 1MiB
data_file_directories: [{self.work}/data]
commitlog_directory: {self.work}/commitlog
saved_caches_directory: {self.work}/caches
hints_directory: {self.work}/hints
cdc_raw_directory: {self.work}/cdc
listen_address: 127.0.0.1
rpc_address: 127.0.0.1
native_transport_port: {self.port}
endpoint_snitch: SimpleSnitch
memtable_heap_space: 32MiB
memtable_offheap_space: 32MiB
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "127.0.0.1:7000"
""",
        )
        opens = [f"--add-{kind}={package}=ALL-UNNAMED" for package in OPENS for kind in ("opens", "exports")]
        self.spawn(
            "java",
            "-Xmx512m",
            "-Xms512m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            *opens,
            "-Djdk.attach.allowAttachSelf=true",
            f"-Dcassandra.config=file://{conf}",
            f"-Dcassandra.storagedir={self.work}",
            "-Dcassandra.skip_wait_for_gossip_to_settle=0",
            "-Dcassandra.ring_delay_ms=0",
            "-Dcassandra.superuser_setup_delay_ms=0",
            "-cp",
            f"{conf.parent}:{CACHE}/cassandra/*",
            "org.apache.cassandra.service.CassandraDaemon",
        )

    def ready(self):
        self.wait_port(self.port)

    def open(self):
        from cassandra.cluster import Cluster

        version, compression = next(self.forms)
        cluster = Cluster(
            ["127.0.0.1"],
            self.port,
            schema_metadata_enabled=False,
            token_metadata_enabled=False,
            protocol_version=version,
            compression=compression,
            idle_heartbeat_interval=0,
        )
        session = cluster.connect()
        return session

    def close(self, session):
        session.cluster.shutdown()

    def prepare(self):
        session = self.open()
        session.execute("CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        session.execute("CREATE TABLE shop.orders (id int PRIMARY KEY, name text)")
        self.close(session)

    def warm(self, session):
        session.execute("SELECT key FROM system.local")

    def use(self, session):
        from cassandra import InvalidRequest
        from cassandra.query import BatchStatement

        name = self.secret("name")
        with self.call("INSERT", "shop.orders"):
            session.execute(f"INSERT INTO shop.orders (id, name) VALUES (1, '{name}')")
        with self.call("SELECT", "shop.orders"):
            assert session.execute("SELECT name FROM shop.orders WHERE id = 1").one().name
        with self.call("PREPARE", "shop.orders"):
            statement = session.prepare("UPDATE shop.orders SET name = ? WHERE id = ?")
        for i in range(3):
            with self.call("UPDATE", "shop.orders"):
                session.execute(statement, (name * (1 + 500 * i), i))
        with self.call("BATCH", "shop.orders"):
            batch = BatchStatement()
            batch.add(statement, (name, 5))
            batch.add(statement, (name, 6))
            session.execute(batch)
        with self.call("SELECT", "shop.nothing", "client-error"):
            try:
                session.execute(f"SELECT * FROM shop.nothing WHERE name = '{name}'")
                raise AssertionError("no error")
            except InvalidRequest:
                pass
