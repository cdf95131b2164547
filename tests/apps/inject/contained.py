#!/usr/bin/env python3
"""A service in namespaces of its own, whose threads make its calls. What the server behind it received is the truth.

contained.py back TRUTH               a server; prints its port; writes a line of JSON for each request
contained.py front PORT               a service: a new thread for each request calls that server; prints its port
contained.py drive PORT COUNT AT_ONCE asks the service, each request with a context of its own; then the service ends
"""

import hashlib
import http.client
import http.server
import json
import os
import sys
import threading


def trace_of(path):
    return hashlib.sha256(path.encode()).hexdigest()[:32]


def ask(port, path, headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path, headers=headers)
    body = connection.getresponse().read()
    connection.close()
    return body


def serve(answer):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = answer(self)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def back(truth):
    lock = threading.Lock()

    def answer(request):
        contexts = request.headers.get_all("traceparent") or []
        line = {"path": request.path, "contexts": contexts, "trace": trace_of(request.path)}
        with lock, open(truth, "a") as file:
            file.write(json.dumps(line) + "\n")
        return b"done"

    serve(answer)


def front(port):
    def answer(request):
        if request.path == "/end":
            threading.Timer(0.2, os._exit, (0,)).start()
            return b""
        got = []
        call = threading.Thread(target=lambda: got.append(ask(port, request.path, {})))
        call.start()
        call.join()
        return got[0]

    serve(answer)


def drive(port, count, at_once):
    def some(first):
        for n in range(first, count, at_once):
            path = f"/asked/{n}"
            ask(port, path, {"traceparent": f"00-{trace_of(path)}-b7ad6b7169203331-01"})

    threads = [threading.Thread(target=some, args=(n,)) for n in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ask(port, "/end", {})


if __name__ == "__main__":
    mode, *words = sys.argv[1:]
    if mode == "back":
        back(words[0])
    elif mode == "front":
        front(int(words[0]))
    else:
        drive(*map(int, words))
