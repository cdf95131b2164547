"""Memcached, text protocol: hits, misses, conditions, errors, several keys at once."""

from stage import Server


class Memcached(Server):
    protocol = "memcached"
    port = 11211
    programs = ("memcached",)
    modules = ("pymemcache",)

    def start(self):
        self.spawn("memcached", "-u", "root", "-l", "127.0.0.1", "-p", self.port, "-U", 0, "-m", 16, "-t", 2)

    def open(self):
        import pymemcache

        client = pymemcache.Client(("127.0.0.1", self.port), connect_timeout=5, timeout=10, default_noreply=False)
        client._connect()
        return client

    def end_port(self, client):
        return client.sock.getsockname()[1]

    def warm(self, client):
        client.get("nothing")

    def use(self, client):
        key = f"{self.secret('key')}{self.end_port(client)}"
        with self.call("set"):
            client.set(key, self.secret("value"))
        with self.call("get"):
            assert client.get(key) == self.secret("value").encode()
        with self.call("get"):
            client.get("nothing")
        with self.call("set"):
            client.set("large", self.secret("large") * 4000)
        with self.call("get"):
            assert len(client.get("large")) > 80_000
        with self.call("gets"):
            _, cas = client.gets(key)
        with self.call("cas"):
            client.cas(key, "other", cas)
        with self.call("add"):
            client.add(key, self.secret("value"))
        with self.call("set"):
            client.set("n", "5")
        with self.call("incr"):
            client.incr("n", 3)
        with self.call("incr", status="client-error"):
            try:
                client.incr("large", 1)
                raise AssertionError("no error")
            except Exception as error:
                assert "non-numeric" in str(error), error
        # Its client has closed the connection after the error.
        client._connect()
        self.here.port = self.end_port(client)
        with self.call("get"):
            client.get_many([key, "n", "nothing", "large"])
        with self.call("delete"):
            client.delete(key)
        with self.call("version"):
            client.version()
