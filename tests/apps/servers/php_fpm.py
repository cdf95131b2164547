"""PHP-FPM behind nginx: FastCGI requests with parameters, bodies, errors, and what PHP writes to its error stream."""

import shutil

from http_pages import Web


def program():
    return next((found for v in ("8.4", "8.3", "8.2", "8.1") if (found := shutil.which(f"php-fpm{v}"))), None)


class PhpFpm(Web):
    programs = ("nginx",)
    more_ports = (9000,)

    def missing(self):
        return super().missing() or (None if program() else "needs php-fpm")

    def start(self):
        conf = self.file(
            "fpm.conf",
            f"[global]\nerror_log={self.work}/fpm.log\ndaemonize=no\n[shop]\nlisten=127.0.0.1:9000\n"
            "user=nobody\ngroup=nogroup\npm=static\npm.max_children=3\ncatch_workers_output=yes\n",
        )
        self.file("index.php", "<?php header('X-Shop: 1'); echo str_repeat('page ', 20000);")
        self.file(
            "form.php", f"<?php setcookie('s', '{self.secret('set')}'); echo strlen(file_get_contents('php://input'));"
        )
        self.file("missing.php", "<?php http_response_code(404); echo 'nothing';")
        self.file("broken.php", f"<?php error_log('{self.secret('errors')}'); http_response_code(500);")
        self.spawn(program(), "-F", "-R", "-y", conf)
        folders = "".join(
            f"{kind}_temp_path {self.work}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        nginx = self.file(
            "nginx.conf",
            f"""
            daemon off; worker_processes 1; user root; pid {self.work}/pid; error_log {self.work}/nginx.log;
            events {{ worker_connections 256; }}
            http {{
                access_log off; {folders}
                upstream fpm {{ server 127.0.0.1:9000; keepalive 3; }}
                server {{
                    listen 127.0.0.1:8080;
                    location / {{
                        include /etc/nginx/fastcgi_params;
                        fastcgi_param SCRIPT_FILENAME {self.work}$fastcgi_script_name;
                        fastcgi_keep_conn on; fastcgi_pass fpm;
                    }}
                }}
            }}""",
        )
        self.spawn("nginx", "-p", self.work, "-c", nginx)

    def ready(self):
        self.wait_port(8080)
        self.wait_port(9000)

    def warm(self, connection):
        self.ask(connection, "GET", "/index.php")

    def request(self, connection, method, target, status, body=None, hops=()):
        path = target.split("?")[0]
        ended = "ok" if status < 400 else "client-error" if status < 500 else "server-error"
        with self.call(method, path, ended, attrs={"http.response.status_code": status}) as record:
            got, _ = self.ask(connection, method, target, body)
            assert got == status, f"{method} {target}: {got}, expected {status}"
            # Its port is that of the Host field, as the conventions have it.
            self.also_seen(record, end_port=0, protocol="fastcgi")

    def use(self, connection):
        self.request(connection, "GET", f"/index.php?token={self.secret('url')}", 200)
        self.request(connection, "POST", "/form.php", 200, body=f"password={self.secret('form')}" * 400)
        self.request(connection, "GET", "/missing.php", 404)
        self.request(connection, "GET", "/broken.php", 500)
        self.request(connection, "HEAD", "/index.php", 200)
