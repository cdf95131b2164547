#!/usr/bin/env python3
"""A service and the service that it calls, for the test of a proxy that is not traced.

usage: services.py called PORT
       services.py caller PORT NEW KEPT

`caller` serves `/new/N` with one call through the proxy on port NEW, which gives each request an X-Request-ID of its
own, and `/fan/N` with four calls at once through the proxy on port KEPT, which keeps the id of the caller. Two of the
four ask for the same path.
"""

import concurrent.futures
import http.client
import http.server
import socketserver
import sys
import time

POOL = concurrent.futures.ThreadPoolExecutor(64)


def get(port, path, headers):
    connection = http.client.HTTPConnection("127.0.0.1", int(port))
    connection.request("GET", path, headers=headers)
    connection.getresponse().read()
    connection.close()


class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        _, kind, number = self.path.split("/")
        if sys.argv[1] == "called":
            time.sleep(0.02)
        elif kind == "new":
            get(sys.argv[3], f"/leaf/{number}", {})
        else:
            paths = [f"/price/{number}", f"/stock/{number}", f"/twice/{number}", f"/twice/{number}"]
            headers = {"X-Request-ID": f"checkout-{number}"}
            list(POOL.map(lambda path: get(sys.argv[4], path, headers), paths))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 256


Server(("127.0.0.1", int(sys.argv[2])), Page).serve_forever()
