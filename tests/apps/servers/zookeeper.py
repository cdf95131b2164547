"""ZooKeeper (from Kafka's published jars): making, reading, changing and deleting nodes, errors, watches, several at
once.
"""

from stage import CACHE, Server


class Zookeeper(Server):
    protocol = "zookeeper"
    port = 2181
    programs = ("java",)
    modules = ("kazoo.client",)
    files = ("kafka/zookeeper-3*.jar",)
    also = ("zookeeper ping", "zookeeper closeSession")

    def start(self):
        conf = self.file(
            "zoo.cfg",
            f"dataDir={self.work}/data\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            "admin.enableServer=false\nmaxClientCnxns=0\n",
        )
        java = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{CACHE}/kafka/*"]
        self.spawn(*java, "org.apache.zookeeper.server.quorum.QuorumPeerMain", conf)

    def open(self):
        from kazoo.client import KazooClient

        client = KazooClient(
            f"127.0.0.1:{self.port}", timeout=60, auth_data=[("digest", f"boss:{self.secret('pass')}")]
        )
        client.start(30)
        return client

    def ready(self):
        self.wait_port(self.port)
        self.wait(lambda: not self.close(self.open()), "a session")

    def close(self, client):
        client.stop()
        client.close()

    def end_port(self, client):
        return client._connection._socket.getsockname()[1]

    def warm(self, client):
        client.exists("/zookeeper")

    def greet(self, client):
        self.opened("connect")
        self.opened("auth")

    def use(self, client):
        from kazoo import exceptions

        path = f"/orders{self.end_port(client)}"
        value = self.secret("value").encode()
        with self.call("create", path):
            client.create(path, value)
        with self.call("getData", path):
            assert client.get(path)[0] == value
        with self.call("setData", path):
            client.set(path, value * 3000)
        with self.call("getData", path):
            client.get(path)
        with self.call("getChildren2", path):
            client.get_children(path, include_data=True)
        with self.call("exists", "/nobody"):  # the server answers that the node does not exist
            assert client.exists("/nobody") is None
        with self.call("create", path, "client-error"):
            try:
                client.create(path, value)
                raise AssertionError("no error")
            except exceptions.NodeExistsError:
                pass
        with self.call("multi"):
            transaction = client.transaction()
            transaction.create(f"{path}/a", value)
            transaction.delete(f"{path}/a")
            assert transaction.commit() is not None
        with self.call("delete", path):
            client.delete(path)
        with self.call("delete", path, "client-error"):
            try:
                client.delete(path)
                raise AssertionError("no error")
            except exceptions.NoNodeError:
                pass
