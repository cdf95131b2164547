"""nginx: its own answers, a reverse proxy with kept connections, chunked answers, every class of status."""

from http_pages import Web


class Nginx(Web):
    programs = ("nginx",)
    more_ports = (8081,)

    def start(self):
        (self.work / "page").write_text("page " * 40_000)
        folders = "".join(
            f"{kind}_temp_path {self.work}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        conf = self.file(
            "nginx.conf",
            f"""
            daemon off; worker_processes 2; user root; pid {self.work}/pid; error_log {self.work}/nginx.log;
            events {{ worker_connections 256; }}
            http {{
                access_log off; {folders}
                upstream behind {{ server 127.0.0.1:8081; keepalive 16; }}
                server {{
                    listen 127.0.0.1:8080; root {self.work}; client_max_body_size 1m;
                    location = /hello {{ return 200 "hello"; }}
                    location = /moved {{ return 302 /hello?token={self.secret("location")}; }}
                    location = /private {{ return 401; }}
                    location = /broken {{ return 503 "{self.secret("answer")}"; }}
                    location = /empty {{ return 204; }}
                    location /behind/ {{
                        proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection "";
                    }}
                    location /nobody/ {{ proxy_pass http://127.0.0.1:8082; }}
                }}
                server {{
                    listen 127.0.0.1:8081; gzip on; gzip_proxied any; gzip_types *; gzip_min_length 1; root {self.work};
                    location /behind/ {{
                        add_header Set-Cookie "a={self.secret("set")}"; return 200 "{self.secret("body")}";
                    }}
                    location = /behind/page {{ alias {self.work}/page; }}
                    location = /behind/missing {{ return 404; }}
                }}
            }}""",
        )
        self.spawn("nginx", "-p", self.work, "-c", conf)

    def ready(self):
        self.wait_port(8080)
        self.wait_port(8081)

    def use(self, connection):
        self.request(connection, "GET", f"/hello?token={self.secret('url')}", 200)
        self.request(connection, "GET", "/page", 200)
        self.request(connection, "HEAD", "/page", 200)
        self.request(connection, "GET", "/moved", 302)
        self.request(connection, "GET", "/private", 401)
        self.request(connection, "GET", "/broken", 503)
        self.request(connection, "GET", "/empty", 204)
        self.request(connection, "GET", "/nothing", 404)
        self.request(connection, "POST", "/behind/form", 200, body=f"password={self.secret('form')}", hops=[8081])
        self.request(connection, "GET", f"/behind/page?key={self.secret('url')}", 200, hops=[8081])
        self.request(connection, "GET", "/behind/missing", 404, hops=[8081])
        self.request(connection, "GET", "/nobody/there", 502)
        # Last: it is answered before its body is read, and what is read after a rest of a body is not copied.
        self.request(connection, "POST", "/page", 405, body=self.secret("form") * 100)
