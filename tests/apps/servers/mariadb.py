"""MariaDB: text and prepared statements, errors with values in them, transactions, several statements in one."""

import subprocess

from stage import Server


class Mariadb(Server):
    protocol = "mysql"
    port = 3306
    programs = ("mariadbd", "mariadb-install-db")
    modules = ("mysql.connector",)
    also = ("mysql SET", "mysql QUIT", "mysql STMT RESET", "mysql STMT CLOSE")

    def start(self):
        data = self.work / "data"
        common = ["--no-defaults", "--user=root", f"--datadir={data}"]
        subprocess.run(
            ["mariadb-install-db", *common, "--skip-test-db", "--auth-root-authentication-method=normal"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        grants = self.file(
            "init.sql",
            f"CREATE DATABASE shop;\nCREATE USER boss@'%' IDENTIFIED BY '{self.secret('pass')}';\n"
            "GRANT ALL ON *.* TO boss@'%';\n",
        )
        self.spawn(
            "mariadbd",
            *common,
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            f"--socket={self.work}/socket",
            f"--init-file={grants}",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-buffer-pool-size=32M",
            "--innodb-log-file-size=8M",
            "--skip-name-resolve",
        )

    def ready(self):
        self.wait(lambda: not self.open().close(), "a connection")

    def open(self):
        import mysql.connector

        return mysql.connector.connect(
            host="127.0.0.1",
            port=self.port,
            user="boss",
            password=self.secret("pass"),
            database="shop",
            use_pure=True,
            ssl_disabled=True,
            autocommit=True,
        )

    def prepare(self):
        with self.open() as c:
            cursor = c.cursor()
            cursor.execute("CREATE TABLE customers (id int PRIMARY KEY, name text, card varchar(100) UNIQUE)")
            cursor.executemany(
                "INSERT INTO customers VALUES (%s, %s, %s)", [(i, f"name{i}", f"card{i}") for i in range(1, 501)]
            )

    def end_port(self, c):
        return c._socket.sock.getsockname()[1]

    def warm(self, c):
        c.ping()

    def greet(self, c):
        self.opened("LOGIN")

    def fails(self, errno, do):
        import mysql.connector

        try:
            do()
        except mysql.connector.Error as error:
            assert error.errno == errno, error
            return
        raise AssertionError(f"no error {errno}")

    def use(self, c):
        with self.call("PING"):  # whether the connection lives
            cursor = c.cursor()
        card = self.secret("card")
        with self.call("SELECT", "customers"):
            cursor.execute(f"SELECT * FROM customers WHERE card = '{card}'")
            cursor.fetchall()
        with self.call("SELECT", "customers"):
            cursor.execute("SELECT id, name, repeat(card, 20) FROM customers")
            assert len(cursor.fetchall()) == 500
        with self.call("SELECT", "nothing", "client-error"):
            self.fails(1146, lambda: cursor.execute(f"SELECT '{card}' FROM nothing"))
        with self.call("INSERT", "customers", "client-error") as first:
            self.fails(1062, lambda: cursor.execute("INSERT INTO customers VALUES (%s, %s, %s)", (9999, card, "card3")))
            # Before its first parameters are written into a statement, the library looks how to escape them.
            self.also_seen(first, operation="PING", target="", status="ok")
            self.also_seen(first, operation="SELECT", target="", status="ok")
        with self.call("UPDATE", "customers"):
            cursor.execute("UPDATE customers SET name = %s WHERE id = 5", (self.secret("name"),))
        with self.call("PING"):
            c.ping()
        with self.call("COMMIT"):
            c.commit()
        with self.call("PING"):
            prepared = c.cursor(prepared=True)
        for i in range(3):
            if i == 0:
                with self.call("PREPARE", "customers") as first:
                    prepared.execute("SELECT name FROM customers WHERE id = ?", (7,))
                    prepared.fetchall()
                    self.also_seen(first, operation="SELECT")
            else:
                with self.call("SELECT", "customers"):
                    prepared.execute("SELECT name FROM customers WHERE id = ?", (7,))
                    prepared.fetchall()
        prepared.close()
