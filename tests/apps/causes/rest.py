"""An HTTP server of one thread, which ends each connection as PHP-FPM does: it answers before it has read the whole
request, shuts the socket down for sending, and reads the rest. `rest.py BACK`.
"""

import http.client
import socket
import sys

BACK = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
ENOUGH = 20  # bytes that hold the path, and not the end of the head

server = socket.create_server(("127.0.0.1", 0), backlog=64)
print("listening", server.getsockname()[1], flush=True)
while True:
    user, _ = server.accept()
    number = user.recv(ENOUGH).decode().split()[1].rsplit("/", 1)[1]
    BACK.request("GET", f"/u/{number}")
    body = BACK.getresponse().read()
    head = f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    user.sendall(head.encode() + body)
    user.shutdown(socket.SHUT_WR)
    while user.recv(64):
        pass
    user.close()
