"""MongoDB's protocol (a server in memory: MongoDB itself is in no package registry): documents, cursors, errors."""

from stage import CACHE, Server


class Mongodb(Server):
    protocol = "mongodb"
    port = 27017
    programs = ("java",)
    modules = ("pymongo",)
    files = ("mongo/mongo-java-server-1*.jar", "mongo-classes/Mongo.class")
    also = ("mongodb hello", "mongodb ismaster", "mongodb isMaster", "mongodb endSessions")

    def start(self):
        self.spawn("java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{CACHE}/mongo-classes:{CACHE}/mongo/*", "Mongo", str(self.port))

    def open(self):
        import pymongo

        return pymongo.MongoClient("127.0.0.1", self.port, maxPoolSize=1, minPoolSize=1, serverSelectionTimeoutMS=20_000, heartbeatFrequencyMS=600_000, retryWrites=False)

    def warm(self, client):
        client.admin.command("ping")

    def use(self, client):
        import pymongo.errors

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
