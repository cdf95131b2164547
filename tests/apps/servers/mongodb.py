"""MongoDB's protocol (a server in memory: MongoDB itself is in no package registry): documents, cursors, errors; plain,
and compressed by a relay.
"""

import contextlib
import itertools
import socket
import struct
import threading
import zlib

from stage import CACHE, Server

PLAIN, PACKED = 27017, 27018
COMPRESSED, REPLY, MSG = 2012, 1, 2013


def packers():
    """By their numbers in `OP_COMPRESSED`."""
    import zstandard

    return {
        2: (zlib.compress, zlib.decompress),
        3: (zstandard.ZstdCompressor().compress, zstandard.ZstdDecompressor().decompress),
    }


def message(stream):
    """Length, ids and operation, and the body."""
    head = stream.read(16)
    return (head, stream.read(struct.unpack_from("<i", head)[0] - 16)) if len(head) == 16 else (b"", b"")


def with_head(head, operation, body):
    return struct.pack("<i", 16 + len(body)) + head[4:12] + struct.pack("<i", operation) + body


class Relay:
    """Unpacks what it gets for the server, which cannot, and packs the answers as the client packed its request."""

    def __init__(self):
        listener = socket.create_server(("127.0.0.1", PACKED))
        self.packers = packers()
        threading.Thread(target=self.accept, args=(listener,), daemon=True).start()

    def accept(self, listener):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with (
            client,
            socket.create_connection(("127.0.0.1", PLAIN)) as server,
            client.makefile("rb") as asked,
            server.makefile("rb") as said,
        ):
            while True:
                head, body = message(asked)
                if not head:
                    return
                operation, packer = struct.unpack_from("<i", head, 12)[0], None
                if operation == COMPRESSED:
                    operation, _, packer = struct.unpack_from("<iiB", body)
                    body = self.packers[packer][1](body[9:])
                server.sendall(with_head(head, operation, body))
                wanted = [name for name in ("zlib", "zstd") if name.encode() in body]
                head, body = message(said)
                operation = struct.unpack_from("<i", head, 12)[0]
                body = self.offering(operation, body, wanted)
                if packer:
                    body = struct.pack("<iiB", operation, len(body), packer) + self.packers[packer][0](body)
                    operation = COMPRESSED
                client.sendall(with_head(head, operation, body))

    def offering(self, operation, body, wanted):
        """An answer to `hello` says which of those that the client offers may be used."""
        import bson

        start = {REPLY: 20, MSG: 5}[operation]
        answer = bson.decode(body[start:])
        if "maxWireVersion" not in answer:
            return body
        return body[:start] + bson.encode({**answer, "compression": wanted})


class Mongodb(Server):
    protocol = "mongodb"
    port = PLAIN
    more_ports = (PACKED,)
    programs = ("java",)
    modules = ("pymongo", "zstandard")
    files = ("mongo/mongo-java-server-1*.jar", "mongo-classes/Mongo.class")
    also = ("mongodb hello", "mongodb ismaster", "mongodb isMaster", "mongodb endSessions")
    LATE, FRESH, PARALLEL = 3, 3, 3
    forms = itertools.cycle([None, "zlib", "zstd"])

    def start(self):
        self.spawn(
            "java",
            "-Xmx128m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            f"{CACHE}/mongo-classes:{CACHE}/mongo/*",
            "Mongo",
            str(self.port),
        )
        Relay()

    def open(self):
        import pymongo

        packed = next(self.forms)
        more = {"compressors": packed} if packed else {}
        client = pymongo.MongoClient(
            "127.0.0.1",
            PACKED if packed else PLAIN,
            maxPoolSize=1,
            minPoolSize=1,
            serverSelectionTimeoutMS=20_000,
            heartbeatFrequencyMS=600_000,
            retryWrites=False,
            **more,
        )
        self.packed[id(client)] = packed
        return client

    packed = {}

    def warm(self, client):
        client.admin.command("ping")

    @contextlib.contextmanager
    def call(self, *what, **more):
        """Behind the relay, the server sees the same as it is without compression."""
        if not self.here.packed:
            with super().call(*what, **more) as record:
                yield record
            return
        with super().call(
            *what, port=PACKED, attrs={"wirespan.mongodb.compressor": self.here.packed}, **more
        ) as record:
            yield record
        self.also_seen(record, port=PLAIN, attrs={})

    def also_seen(self, record, **changed):
        super().also_seen(record, **changed)
        if record["port"] == PACKED and "port" not in changed:
            super().also_seen(record, **changed, port=PLAIN, attrs={})

    def use(self, client):
        import pymongo.errors

        self.here.packed = self.packed[id(client)]
        orders = client.shop.orders
        value = self.secret("value")
        with self.call("insert", "orders"):
            key = orders.insert_one({"name": value, "card": value}).inserted_id
        with self.call("insert", "orders"):
            orders.insert_many([{"name": value, "n": i} for i in range(300)])
        with self.call("find", "orders"):
            assert orders.find_one({"_id": key})["card"] == value
        with self.call("find", "orders") as first:
            assert len(list(orders.find({"name": value}).batch_size(200).limit(300))) == 300
            self.also_seen(first, operation="getMore")
        with self.call("update", "orders"):
            orders.update_one({"_id": key}, {"$set": {"card": value + "2"}})
        with self.call("aggregate", "orders"):
            list(orders.aggregate([{"$match": {"name": value}}, {"$group": {"_id": None, "n": {"$sum": 1}}}]))
        with self.call("insert", "orders", "client-error"):
            try:
                orders.insert_one({"_id": key, "card": value})
                raise AssertionError("no error")
            except pymongo.errors.DuplicateKeyError:
                pass
        with self.call("delete", "orders"):
            orders.delete_many({"_id": key})
        with self.call("nothing", "shop", "client-error"):
            try:
                client.shop.command("nothing", value)
                raise AssertionError("no error")
            except pymongo.errors.OperationFailure:
                pass
