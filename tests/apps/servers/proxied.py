"""The PROXY protocol, versions 1 and 2, from HAProxy to nginx: all spans of the connection name the true client."""

import itertools

from http_pages import Web

# What HAProxy listens on, and what nginx does.
FIRST, SECOND = (8080, 8081), (8082, 8083)


class Proxied(Web):
    programs = ("haproxy", "nginx")
    more_ports = (8081, 8082, 8083)
    forms = itertools.cycle([FIRST, SECOND])

    def start(self):
        servers = "\n".join(
            f"server {{ listen 127.0.0.1:{behind} proxy_protocol; location / {{ return 200 hello; }} "
            f"location /missing {{ return 404; }} }}"
            for _, behind in (FIRST, SECOND)
        )
        conf = self.file(
            "nginx.conf",
            f"daemon off; worker_processes 1; error_log stderr error; pid {self.work}/nginx.pid; "
            f"events {{ worker_connections 64; }}\n"
            f"http {{ access_log off; client_body_temp_path {self.work}; proxy_temp_path {self.work}; "
            f"fastcgi_temp_path {self.work};\n"
            f"uwsgi_temp_path {self.work}; scgi_temp_path {self.work}; {servers} }}\n",
        )
        self.spawn("nginx", "-c", conf, "-p", self.work)
        listeners = "\n".join(
            f"listen l{front}\n    bind 127.0.0.1:{front}\n    server one 127.0.0.1:{behind} {how}"
            for (front, behind), how in ((FIRST, "send-proxy"), (SECOND, "send-proxy-v2"))
        )
        head = (
            "defaults\n    mode tcp\n    timeout connect 5s\n    timeout client 60s\n    timeout server "
            "60s\n    retries 0\n"
        )
        self.spawn("haproxy", "-db", "-f", self.file("haproxy.cfg", head + listeners + "\n"))

    def ready(self):
        for port in (self.port, *self.more_ports):
            self.wait_port(port)

    def open(self):
        import http.client

        front, behind = next(self.forms)
        connection = http.client.HTTPConnection("127.0.0.1", front, timeout=30)
        connection.connect()
        connection.behind = behind
        return connection

    def greet(self, connection):
        self.opened("PROXY", f"127.0.0.1:{connection.port}", status="one-way", protocol="proxy", port=connection.behind)

    def secrets_of_heads(self):
        # Without a port, so that the spans of both hops have their own.
        return {**super().secrets_of_heads(), "Host": "shop"}

    def use(self, connection):
        told = {} if self.late else {"client.address": "127.0.0.1", "client.port": self.here.port}
        for target, status in (("/a", 200), ("/missing", 404), ("/b", 200)):
            ended = "ok" if status < 400 else "client-error"
            with self.call(
                "GET", target, ended, port=connection.port, attrs={"http.response.status_code": status}
            ) as record:
                got, _ = self.ask(connection, "GET", f"{target}?token={self.secret('url')}")
                assert got == status
                # Behind the PROXY header, the client is the address that the header names.
                self.also_seen(
                    record,
                    port=connection.behind,
                    end_port=told.get("client.port", 0),
                    attrs={**record["attrs"], **told},
                )
