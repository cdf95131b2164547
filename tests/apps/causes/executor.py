"""A threaded HTTP server whose handlers have two calls made by a ThreadPoolExecutor of four. `executor.py BACK`."""

import concurrent.futures
import http.server

from back_end import call

POOL = concurrent.futures.ThreadPoolExecutor(4)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        number = self.path.rsplit("/", 1)[1]
        answers = [POOL.submit(call, number) for _ in range(2)]
        body = b"".join(a.result() for a in answers)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 64


server = Server(("127.0.0.1", 0), Handler)
print("listening", server.server_address[1], flush=True)
server.serve_forever()
