"""The shop's front: HTTP/1.1, one blocking thread per connection, standard library only.

Calls catalog and cart over keep-alive HTTP and Redis over its own connection, all from the thread that read the
request. Configured by the environment: LISTEN, CATALOG, CART, REDIS (host:port) and GROUND_TRUTH_DIR; PAYMENT (with
PAYMENT_CERTIFICATE) and SHIPPING if the shop has them.
"""

import http.client
import json
import os
import socket
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from truth import Truth, address, text


truth = Truth("storefront")
local = threading.local()


def connection_to(name):
    certificate = os.environ.get(f"{name}_CERTIFICATE")
    if certificate:
        return http.client.HTTPSConnection(
            *address(name), timeout=30, context=ssl.create_default_context(cafile=certificate)
        )
    return http.client.HTTPConnection(*address(name), timeout=30)


class Upstreams:
    """The connections of one thread, and the id of the request for which it works."""

    def __init__(self):
        self.current = None
        self.http = {}
        self.redis_socket = None
        self.redis_file = None

    def call(self, name, method, path, body=None):
        """One HTTP call: status and parsed body."""
        connection = self.http.get(name)
        if connection is None:
            connection = connection_to(name)
            start = time.time_ns()
            connection.connect()
            self.http[name] = connection
            if isinstance(connection, http.client.HTTPSConnection):
                # The handshake is an exchange of its own, made for the request that needs the connection.
                truth.write(
                    kind="client",
                    id=truth.next_id(),
                    **{"in": self.current},
                    local=text(connection.sock.getsockname()),
                    peer=text(connection.sock.getpeername()),
                    start=start,
                    end=time.time_ns(),
                    protocol="tls",
                    operation="handshake",
                    target="",
                    status=0,
                )
        ends = {"local": text(connection.sock.getsockname()), "peer": text(connection.sock.getpeername())}
        start = time.time_ns()
        headers = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        raw = response.read()
        truth.write(
            kind="client",
            id=truth.next_id(),
            **{"in": self.current},
            **ends,
            start=start,
            end=time.time_ns(),
            protocol="http",
            operation=method,
            target=path,
            status=response.status,
        )
        if response.will_close:
            del self.http[name]
        return response.status, json.loads(raw) if raw else None

    def redis(self, *words):
        """One Redis command; answers of type integer, simple and bulk string."""
        if self.redis_socket is None:
            self.redis_socket = socket.create_connection(address("REDIS"), timeout=30)
            self.redis_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.redis_file = self.redis_socket.makefile("rb")
        request = b"*%d\r\n" % len(words)
        for word in words:
            word = str(word).encode()
            request += b"$%d\r\n%s\r\n" % (len(word), word)
        start = time.time_ns()
        self.redis_socket.sendall(request)
        line = self.redis_file.readline()
        kind, value = line[:1], line[1:].strip()
        if kind == b"$" and value != b"-1":
            value = self.redis_file.read(int(value) + 2)[:-2]
        truth.write(
            kind="client",
            id=truth.next_id(),
            **{"in": self.current},
            start=start,
            end=time.time_ns(),
            protocol="redis",
            local=text(self.redis_socket.getsockname()),
            peer=text(self.redis_socket.getpeername()),
            operation=words[0],
            target="",
            status=1 if kind == b"-" else 0,
        )
        return value.decode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        self.up = local.up = Upstreams()

    def finish(self):
        super().finish()
        for connection in self.up.http.values():
            connection.close()
        if self.up.redis_socket:
            self.up.redis_socket.close()

    def parse_request(self):
        self.start_ns = time.time_ns()  # the request line is read, the headers are not
        return super().parse_request()

    def serve(self):
        record = truth.next_id()
        self.up.current = record
        length = int(self.headers.get("Content-Length") or 0)
        if length:
            self.rfile.read(length)
        path = self.path.split("?")[0]
        try:
            status, answer = self.route(path)
        except (OSError, http.client.HTTPException, ValueError) as error:
            status, answer = 502, {"error": str(error)}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:  # HTTP/1.0: without this header, nginx would keep the connection for the next request
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        truth.write(
            kind="server",
            id=record,
            local=text(self.connection.getsockname()),
            peer=text(self.client_address),
            start=self.start_ns,
            end=time.time_ns(),
            protocol="http",
            operation=self.command,
            target=path,
            status=status,
            request_id=self.headers.get("X-Request-ID"),
        )

    do_GET = do_POST = serve

    def route(self, path):
        words = path.strip("/").split("/")
        if words[0] == "legacy":
            words = words[1:]
        match (self.command, words):
            case ("GET", ["home"]):
                return self.home()
            case ("GET", ["product", item]):
                return self.product(item)
            case ("GET", ["cart", user]):
                return self.cart(user)
            case ("POST", ["cart", user, item]):
                return self.add(user, item)
            case ("POST", ["checkout", user]):
                return self.checkout(user)
        return 404, {"error": "no such page"}

    def home(self):
        """Repeated calls below one call: catalog asks pricing for each item of its list."""
        _, items = self.up.call("CATALOG", "GET", "/items")
        return 200, {"banner": self.up.redis("GET", "banner"), "items": items}

    def product(self, item):
        """Nested calls; 404 and 500 come up from below unchanged."""
        status, answer = self.up.call("CATALOG", "GET", f"/items/{item}")
        if status != 200:
            return status, answer
        return 200, {**answer, "views": self.up.redis("INCR", f"views:{item}")}

    def cart(self, user):
        """One call whose answer decides how many follow, to the same service."""
        status, items = self.up.call("CART", "GET", f"/carts/{user}")
        if status != 200:
            return status, items
        return 200, [self.up.call("CATALOG", "GET", f"/items/{item}")[1] for item in sorted(items)[:3]]

    def add(self, user, item):
        status, answer = self.up.call("CATALOG", "GET", f"/items/{item}")
        if status != 200:
            return status, answer
        return self.up.call("CART", "POST", f"/carts/{user}", body=json.dumps({"item": item, "count": 1}))

    def checkout(self, user):
        """The longest path: cart, catalog for each item, Redis, cart again."""
        status, items = self.cart(user)
        if status != 200:
            return status, items
        if not items:
            return 409, {"error": "the cart is empty"}
        order = self.up.redis("INCR", "orders")
        self.up.redis("SET", f"order:{order}", user)
        if "PAYMENT" in os.environ:
            status, _ = self.up.call("PAYMENT", "POST", f"/payments/{order}", body=str(len(items)))
            if status != 201:
                return 502, {"error": "not paid"}
        if "SHIPPING" in os.environ:
            self.ship(order, len(items))
        status, _ = self.up.call("CART", "DELETE", f"/carts/{user}")
        return (201 if status == 204 else status), {"order": order, "items": len(items)}

    def ship(self, order, items):
        """Orders are taken whether or not they can be shipped yet."""
        try:
            self.up.call("SHIPPING", "POST", f"/shipments/{order}", body=str(items))
        except OSError:
            self.up.http.pop("SHIPPING", None)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True


if __name__ == "__main__":
    Server(address("LISTEN"), Handler).serve_forever()
