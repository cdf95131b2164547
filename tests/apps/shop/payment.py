"""Payments of the shop: HTTPS (OpenSSL inside Python), kept in PostgreSQL; one blocking thread per connection, standard
library only.

POST /payments/ORDER: a transaction of two statements. Configured by the environment: LISTEN, POSTGRES (host:port),
CERTIFICATE, KEY and GROUND_TRUTH_DIR. PostgreSQL is spoken by hand, in its simple protocol, each thread on its own
connection.
"""

import os
import socket
import ssl
import struct
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from truth import Truth, address, text

truth = Truth("payment")
READY_SECONDS = 60


class Database:
    def __init__(self, current=None):
        self.socket = socket.create_connection(address("POSTGRES"), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")
        parameters = b"user\0shop\0database\0postgres\0\0"
        start = time.time_ns()
        self.socket.sendall(struct.pack(">II", len(parameters) + 8, 196608) + parameters)
        self.answer()
        if current:
            self.note(current, start, "STARTUP", "")

    def answer(self):
        """Waits until the server is ready for the next query; raises the server's error."""
        error = None
        while True:
            head = self.file.read(5)
            if len(head) < 5:
                raise OSError("PostgreSQL went away")
            kind, body = head[:1], self.file.read(struct.unpack(">I", head[1:])[0] - 4)
            if kind == b"E":
                error = body.replace(b"\0", b" ").decode()
            if kind == b"Z":
                if error:
                    raise ValueError(error)
                return

    def query(self, sql):
        body = sql.encode() + b"\0"
        self.socket.sendall(b"Q" + struct.pack(">I", len(body) + 4) + body)
        self.answer()

    def traced(self, current, operation, sql):
        """A query for a request, and its record."""
        start = time.time_ns()
        self.query(sql)
        self.note(current, start, operation, "payments")

    def note(self, current, start, operation, target):
        truth.write(
            kind="client",
            id=truth.next_id(),
            **{"in": current},
            start=start,
            end=time.time_ns(),
            protocol="postgresql",
            local=text(self.socket.getsockname()),
            peer=text(self.socket.getpeername()),
            operation=operation,
            target=target,
            status=0,
        )

    def close(self):
        self.socket.close()


def prepare():
    """Makes the table; the server may still be starting."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            database = Database()
            break
        except (OSError, ValueError) as error:
            if time.monotonic() > deadline:
                sys.exit(f"PostgreSQL does not answer: {error}")
            time.sleep(0.05)
    database.query(
        "CREATE TABLE IF NOT EXISTS payments (orders bigint, item_count int, paid_at timestamptz DEFAULT now())"
    )
    database.close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    # One write per answer: one record of TLS.
    wbufsize = -1

    def setup(self):
        super().setup()
        self.database = None

    def finish(self):
        super().finish()
        if self.database:
            self.database.close()

    def parse_request(self):
        self.start_ns = time.time_ns()
        return super().parse_request()

    def do_POST(self):
        record = truth.next_id()
        length = int(self.headers.get("Content-Length") or 0)
        items = int(self.rfile.read(length) or 0)
        order = int(self.path.rsplit("/", 1)[1])
        if self.database is None:
            self.database = Database(record)
        self.database.traced(record, "INSERT", f"INSERT INTO payments (orders, item_count) VALUES ({order}, {items})")
        self.database.traced(record, "SELECT", f"SELECT count(*) FROM payments WHERE orders = {order}")
        body = b'{"paid": true}'
        self.send_response(201)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
        truth.write(
            kind="server",
            id=record,
            local=text(self.connection.getsockname()),
            peer=text(self.client_address),
            start=self.start_ns,
            end=time.time_ns(),
            protocol="http",
            operation="POST",
            target=self.path,
            status=201,
        )

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True

    def __init__(self, *args):
        super().__init__(*args)
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(os.environ["CERTIFICATE"], os.environ["KEY"])

    def process_request_thread(self, request, client_address):
        # The handshake runs on the connection's own thread, so that a slow client delays no other one.
        try:
            request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            request = self.tls.wrap_socket(request, server_side=True)
        except OSError:
            request.close()
            return
        super().process_request_thread(request, client_address)

    def handle_error(self, request, client_address):
        # A connection that its client closed is no error.
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


if __name__ == "__main__":
    prepare()
    Server(address("LISTEN"), Handler).serve_forever()
