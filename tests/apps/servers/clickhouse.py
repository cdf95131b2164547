"""ClickHouse, native protocol: inserting blocks, selecting, errors with values in them."""

from stage import Server


class Clickhouse(Server):
    protocol = "clickhouse"
    port = 9000
    programs = ("clickhouse-server",)
    modules = ("clickhouse_driver",)
    also = ("clickhouse PING",)  # its library asks before each query whether the connection lives

    def start(self):
        users = self.file(
            "users.xml",
            f"<yandex><profiles><default><max_threads>2</max_threads></default></profiles><quotas><default/>"
            f"</quotas><users><default><password>{self.secret('pass')}</password>"
            "<networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></default>"
            "</users></yandex>",
        )
        conf = self.file(
            "config.xml",
            f"<yandex><logger><level>error</level><console>1</console><log>{self.work}/server.log</log>"
            f"<errorlog>{self.work}/error.log</errorlog></logger><tcp_port>{self.port}</tcp_port><listen_host>"
            "127.0.0.1</listen_host>"
            f"<path>{self.work}/data/</path><tmp_path>{self.work}/tmp/</tmp_path><users_config>"
            f"{users}</users_config><default_profile>default</default_profile>"
            "<default_database>default</default_database><mark_cache_size>5368709</mark_cache_size><http_port>"
            "8123</http_port></yandex>",
        )
        self.spawn("clickhouse-server", f"--config-file={conf}")

    def open(self):
        import clickhouse_driver

        client = clickhouse_driver.Client("127.0.0.1", self.port, password=self.secret("pass"), compression=False)
        client.connection.connect()
        return client

    def close(self, client):
        client.disconnect()

    def ready(self):
        self.wait(lambda: not self.close(self.open()), "a connection")

    def prepare(self):
        self.open().execute("CREATE TABLE customers (id UInt32, name String) ENGINE = Memory")

    def end_port(self, client):
        return client.connection.socket.getsockname()[1]

    def warm(self, client):
        client.execute("SELECT 1")

    def greet(self, client):
        self.opened("HELLO")

    def use(self, client):
        import clickhouse_driver

        with self.call("SELECT"):
            client.execute("SELECT 1")
        with self.call("INSERT", "customers"):
            client.execute("INSERT INTO customers VALUES", [(i, self.secret("name")) for i in range(1000)])
        with self.call("SELECT", "customers"):
            client.execute(f"SELECT count() FROM customers WHERE name = '{self.secret('literal')}'")
        with self.call("SELECT", "customers"):
            assert len(client.execute("SELECT * FROM customers LIMIT 1000")) == 1000
        with self.call("SELECT", "nothing", "client-error"):
            try:
                client.execute(f"SELECT '{self.secret('literal')}' FROM nothing")
                raise AssertionError("no error")
            except clickhouse_driver.errors.ServerException as error:
                assert error.code == 60, error
