"""Redis: commands, errors, transactions, pipelines."""

from stage import Server


class Redis(Server):
    protocol = "redis"
    port = 6379
    programs = ("redis-server",)
    modules = ("redis",)

    def start(self):
        self.spawn(
            "redis-server",
            "--port",
            self.port,
            "--save",
            "",
            "--appendonly",
            "no",
            "--dir",
            self.work,
            "--requirepass",
            self.secret("pass"),
        )

    def open(self):
        import redis

        pool = redis.ConnectionPool(port=self.port, password=self.secret("pass"), lib_name=None, lib_version=None)
        pool.release(pool.get_connection())
        return redis.Redis(connection_pool=pool)

    def end_port(self, client):
        return client.connection_pool._available_connections[0]._sock.getsockname()[1]

    def close(self, client):
        client.connection_pool.disconnect()

    def warm(self, client):
        client.ping()

    def greet(self, client):
        self.opened("AUTH")

    def use(self, client):
        import redis

        with self.call("SET"):
            client.set(self.secret("key"), self.secret("value"))
        with self.call("GET"):
            assert client.get(self.secret("key")) == self.secret("value").encode()
        with self.call("SET"):
            client.set("large", self.secret("large") * 4000)
        with self.call("GET"):
            assert len(client.get("large")) > 80_000
        with self.call("LPUSH", status="client-error", attrs={"db.response.status_code": "WRONGTYPE"}):
            try:
                client.lpush(self.secret("key"), self.secret("element"))
                raise AssertionError("no error")
            except redis.ResponseError:
                pass
        with self.call("EVAL", status="client-error"):
            try:
                client.eval(f"return redis.error_reply('MINE {self.secret('text')}')", 0)
                raise AssertionError("no error")
            except redis.ResponseError:
                pass
        with self.call("MULTI") as first:
            client.pipeline().set("a", self.secret("a")).incr("n").execute()
            for operation in ("SET", "INCRBY", "EXEC"):
                self.also_seen(first, operation=operation)
        # Fewer bytes than are copied of a call: of the first long pipeline of a connection only the beginning is seen.
        with self.call("HSET") as first:
            pipe = client.pipeline(transaction=False)
            for i in range(6):
                pipe.hset("h", f"f{i}", self.secret("value"))
            pipe.execute()
            for _ in range(5):
                self.also_seen(first)
