"""PostgreSQL: simple and prepared statements, errors with values in them, transactions, COPY."""

import os
import pathlib
import shutil
import subprocess

from stage import Server

# Debian keeps the server's programs out of PATH.
BINARIES = max(
    pathlib.Path("/usr/lib/postgresql").glob("*/bin"),
    default=pathlib.Path("/usr/lib/postgresql/bin"),
    key=lambda p: float(p.parent.name),
)


class Postgresql(Server):
    protocol = "postgresql"
    port = 5432
    modules = ("psycopg",)
    also = ("postgresql TERMINATE",)

    def missing(self):
        return super().missing() or (None if (BINARIES / "initdb").exists() else "needs the server of PostgreSQL")

    def start(self):
        data = self.work / "data"
        data.mkdir()
        shutil.chown(data, "postgres")
        password = self.file("password", self.secret("pass"))
        password.chmod(0o644)
        subprocess.run(
            [
                BINARIES / "initdb",
                "-D",
                data,
                "-U",
                "boss",
                "-A",
                "scram-sha-256",
                f"--pwfile={password}",
                "-N",
                "--no-instructions",
                "-E",
                "UTF8",
                "--locale=C",
            ],
            user="postgres",
            check=True,
            stdout=subprocess.DEVNULL,
            cwd="/",
            env={**os.environ, "HOME": str(data)},
        )
        options = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "shared_buffers": "16MB",
            "logging_collector": "off",
            "autovacuum": "off",
        }
        self.spawn(
            BINARIES / "postgres", "-D", data, *(f"-c{k}={v}" for k, v in options.items()), user="postgres", cwd="/"
        )

    def ready(self):
        self.wait(lambda: not self.connect().close(), "a connection")

    def connect(self):
        import psycopg

        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user="boss",
            dbname="postgres",
            password=self.secret("pass"),
            autocommit=True,
            sslmode="disable",
            gssencmode="disable",
        )

    open = connect

    def prepare(self):
        with self.connect() as c:
            c.execute("CREATE TABLE customers (id int PRIMARY KEY, name text, card text UNIQUE)")
            c.execute("INSERT INTO customers SELECT i, 'name' || i, 'card' || i FROM generate_series(1, 500) i")

    def end_port(self, c):
        import socket

        with socket.socket(fileno=os.dup(c.fileno())) as s:
            return s.getsockname()[1]

    def warm(self, c):
        c.execute("SELECT 1").fetchone()

    def greet(self, c):
        self.opened("STARTUP")

    def fails(self, error, do):
        import psycopg

        try:
            do()
        except getattr(psycopg.errors, error):
            return
        raise AssertionError(f"no {error}")

    def use(self, c):
        import psycopg

        card = self.secret("card")
        db = {"db.system.name": "postgresql"}
        # The simple protocol: psycopg uses it for what has no parameters and may hold several statements.
        with psycopg.ClientCursor(c) as simple:
            with self.call("SELECT", "customers", attrs=db):
                simple.execute(f"SELECT * FROM customers WHERE card = '{card}'")
            with self.call("SELECT", "customers", attrs=db):
                assert len(simple.execute("SELECT id, name, repeat(card, 20) FROM customers").fetchall()) == 500
            with self.call("SELECT", "nothing", "client-error", attrs={"db.response.status_code": "42P01"}):
                self.fails("UndefinedTable", lambda: simple.execute(f"SELECT '{card}' FROM nothing"))
            with self.call("SELECT", "", "client-error", attrs={"db.response.status_code": "22P02"}):
                self.fails("InvalidTextRepresentation", lambda: simple.execute(f"SELECT '{card}'::int"))
            with self.call("UPDATE", "customers", "client-error", attrs={"db.response.status_code": "23505"}):
                self.fails(
                    "UniqueViolation", lambda: simple.execute("UPDATE customers SET card = 'card3' WHERE id = 2")
                )
        # The extended protocol.
        with self.call("SELECT", "customers", attrs=db):
            assert c.execute("SELECT name FROM customers WHERE id = %s", (7,)).fetchone() == ("name7",)
        with self.call("UPDATE", "customers", attrs=db):
            c.execute("UPDATE customers SET name = %s WHERE id = %s", (self.secret("name"), 9))
        with self.call("INSERT", "customers", "client-error", attrs={"db.response.status_code": "23505"}):
            self.fails(
                "UniqueViolation",
                lambda: c.execute("INSERT INTO customers VALUES (%s, %s, %s)", (1, self.secret("x"), "y")),
            )
        # Prepared: parsed once, then only bound.
        for i in range(3):
            with self.call("DELETE", "customers", attrs=db) as record:
                c.execute("DELETE FROM customers WHERE card = %s", (card,), prepare=True)
                if i == 0:
                    self.also_seen(record, operation="PREPARE")
        with self.call("BEGIN", attrs=db):
            transaction = c.transaction()
            transaction.__enter__()
        with self.call("SELECT", "customers", attrs=db):
            c.execute("SELECT count(*) FROM customers WHERE name > %s", ("a",)).fetchone()
        with self.call("COMMIT", attrs=db):
            transaction.__exit__(None, None, None)
        with self.call("COPY", "customers", attrs=db):
            with c.cursor() as cursor, cursor.copy("COPY customers TO STDOUT") as copy:
                assert sum(1 for _ in copy.rows()) >= 500
