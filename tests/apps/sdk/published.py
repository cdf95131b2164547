#!/usr/bin/env python3
"""Services that publish what they are, and are asked once they have: a path for each case.

usage: published.py            asks all of them
       published.py PORT CASE  a service

`published`: with a name. `changed`: it has changed it. `declared`: the environment has another name. `wrong`: of a
version that nobody knows. `forked`: the child of one that publishes, which does not.
"""

import http.client
import http.server
import os
import socket
import subprocess
import sys
import time

from publish import Context


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def serve(port, case):
    server = http.server.HTTPServer(("127.0.0.1", port), Page)
    number = {"changed": 2, "declared": 3}.get(case, 1)
    version = 7 if case == "wrong" else 2
    context = Context({"service.name": "cart", "service.instance.id": f"i-{number}"}, version=version)
    print(flush=True)
    if case == "forked" and os.fork():
        server.socket.close()
        os.wait()
        return
    if case == "changed":
        server.handle_request()  # with the name that it had before
        changed = {"service.name": "basket", "service.instance.id": "i-2", "deployment.environment.name": "test"}
        context.change(changed)
    server.serve_forever()


def ask(port, path):
    client = http.client.HTTPConnection("127.0.0.1", port)
    client.request("GET", path)
    client.getresponse().read()
    client.close()


def main():
    for case in ("published", "changed", "declared", "wrong", "forked"):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        environment = dict(os.environ, **({"OTEL_SERVICE_NAME": "mine"} if case == "declared" else {}))
        service = subprocess.Popen(
            [sys.executable, __file__, str(port), case], stdout=subprocess.PIPE, env=environment, start_new_session=True
        )
        service.stdout.readline()
        ask(port, "/before")
        time.sleep(2.5)
        ask(port, f"/{case}")
        time.sleep(0.2)
        os.killpg(service.pid, 9)
        service.wait()


if len(sys.argv) > 2:
    serve(int(sys.argv[1]), sys.argv[2])
else:
    main()
