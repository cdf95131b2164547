"""HAProxy: requests handed on to a server that it reuses connections to, its own errors and redirections."""

import http.server
import threading

from http_pages import Web


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        if length := int(self.headers.get("Content-Length") or 0):
            self.rfile.read(length)
        status = int(self.path.split("/")[1])
        body = b"x" * 3000 if status == 200 else b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_DELETE = answer

    def log_message(self, *_):
        pass


class Haproxy(Web):
    programs = ("haproxy",)
    more_ports = (8081,)

    def start(self):
        behind = http.server.ThreadingHTTPServer(("127.0.0.1", 8081), Handler)
        threading.Thread(target=behind.serve_forever, daemon=True).start()
        conf = self.file(
            "haproxy.cfg",
            """
global
    nbthread 2
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    retries 0
frontend front
    bind 127.0.0.1:8080
    http-request deny deny_status 403 if { path /denied }
    http-request redirect location /200/elsewhere code 301 if { path /hello }
    use_backend nobody if { path_beg /nobody }
    default_backend behind
backend behind
    http-reuse always
    http-request set-header Host 127.0.0.1:8081
    server one 127.0.0.1:8081
backend nobody
    server none 127.0.0.1:8082
""",
        )
        self.spawn("haproxy", "-db", "-f", conf)

    def use(self, connection):
        self.request(connection, "GET", f"/200/a?token={self.secret('url')}", 200, hops=[8081])
        self.request(connection, "PUT", "/204/b", 204, body=self.secret("body") * 500, hops=[8081])
        self.request(connection, "DELETE", "/404/c", 404, hops=[8081])
        self.request(connection, "GET", "/500/d", 500, hops=[8081])
        self.request(connection, "GET", "/denied", 403)
        connection.close()
        connection.connect()
        self.here.port = self.end_port(connection)
        self.request(connection, "GET", "/hello", 301)
        self.request(connection, "GET", "/nobody/there", 503)
