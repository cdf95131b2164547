#!/usr/bin/python3
"""A client, a front and a back, three processes: each request of the client makes the front ask the back.

Says at its end, as one JSON line, what the client and the front did: requests by name, connections and bytes.
"""

import http.client
import http.server
import json
import os
import subprocess
import sys
import threading

FRONT, BACK = 8081, 8082
BODY = b"x" * 300


class Back(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *words):
        pass


class Front(Back):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        back = http.client.HTTPConnection("127.0.0.1", BACK)
        back.request("GET", self.path.replace("/front/", "/back/"))
        back.getresponse().read()
        back.close()
        super().do_GET()


def serve(name):
    port, handler = (FRONT, Front) if name == "front" else (BACK, Back)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    print("ready", flush=True)
    server.serve_forever()


def start(name):
    service = {**os.environ, "OTEL_SERVICE_NAME": name}
    running = subprocess.Popen([sys.executable, sys.argv[0], name], env=service, stdout=subprocess.PIPE)
    running.stdout.readline()
    return running


class Counted(http.client.HTTPConnection):
    """A connection that knows how much came."""

    sent = received = 0

    def send(self, data):
        self.sent += len(data)
        super().send(data)


def ask(names, tally):
    connection = Counted("127.0.0.1", FRONT)
    for name in names:
        connection.request("GET", f"/front/{name}")
        answer = connection.getresponse()
        answer.read()
        tally["asked"].append(name)
    tally["sent"].append(connection.sent)
    connection.close()


def call():
    servers = [start("back"), start("front")]
    tally = {"asked": [], "sent": []}
    ask([f"one-{n}" for n in range(20)], tally)
    threads = [threading.Thread(target=ask, args=([f"many-{t}-{n}" for n in range(10)], tally)) for t in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for server in servers:
        server.terminate()
        server.wait()
    front = {"connections": len(tally["sent"]), "bytes": sum(tally["sent"])}
    print(
        json.dumps({"asked": tally["asked"], "front": front, "back": {"connections": len(tally["asked"])}}), flush=True
    )


if len(sys.argv) > 1:
    serve(sys.argv[1])
else:
    call()
