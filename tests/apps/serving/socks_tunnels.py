"""What the SOCKS servers' clients do: `Socks` has a web server behind the proxy, and asks it through tunnels that curl
makes.
"""

import http.server
import os
import socket
import subprocess
import threading

from stage import Server

WEB, NOBODY, FORBIDDEN = 8081, 8085, 8086


class Behind(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Behind6(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6


class Socks(Server):
    protocol = "socks"
    port = 1080
    more_ports = (WEB,)
    NOBODY = NOBODY
    # Of a connection that is joined later, only the content of the tunnel is seen, as the handshake is over.
    LATE = 0

    def start(self):
        for kind, address in ((http.server.ThreadingHTTPServer, "127.0.0.1"), (Behind6, "::1")):
            threading.Thread(target=kind((address, WEB), Behind).serve_forever, daemon=True).start()

    def open(self):
        return None

    def close(self, connection):
        pass

    def curl(self, how, *urls, **more):
        """`how`: the option that names the kind of proxy, and others."""
        kind, *others = how
        # No port in what is asked for: the spans of both hops have their own. No other proxy, whatever the machine
        # uses.
        command = [
            "curl",
            "-sS",
            "--max-time",
            "20",
            kind,
            f"127.0.0.1:{self.port}",
            *others,
            "-H",
            "Host: shop",
            *urls,
        ]
        return subprocess.run(command, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, **more)

    def granted(self, *steps, how, host="127.0.0.1"):
        """Two requests through a tunnel."""
        target = f"{host}:{WEB}"

        def two():
            done = self.curl(how, *(f"http://{target}{path}?token={self.secret('url')}" for path in ("/a", "/b")))
            assert not done.returncode, done.stderr

        first = self.steps(*(f"{step} ok" for step in steps), doing=two, target=target)
        for path in ("/a", "/b"):
            answered = {"http.response.status_code": 200}
            request = {"protocol": "http", "operation": "GET", "target": path}
            self.also_seen(first, **request, attrs={**answered, "wirespan.socks.target": target})
            self.also_seen(first, **request, attrs=answered, port=WEB)

    def refused(self, *steps, how, host="127.0.0.1", port=NOBODY):
        target = f"{host}:{port}"

        def one():
            done = self.curl(how, f"http://{target}/")
            assert done.returncode, "somebody is there"

        self.steps(*steps, doing=one, target=target)

    def steps(self, *steps, doing, target=f"127.0.0.1:{NOBODY}"):
        """Records the steps of one handshake, each an operation and its status."""
        first = None
        for step in steps:
            operation, status = step.split()
            named = {"target": target, "attrs": {"wirespan.socks.target": target}} if operation == "CONNECT" else {}
            if first is None:
                with self.call(operation, status=status, **named) as first:
                    doing()
            else:
                self.also_seen(first, **{"target": "", "attrs": {}, "operation": operation, "status": status, **named})
        return first
