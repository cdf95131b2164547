"""A server that makes as many system calls as a request asks for: `GET /calls/A/B/C/name` makes A getppid, B openat
and C socket calls; if the name is `pause`, one more getppid after five seconds. Its own work makes none of these. A
thread for each connection.

service.py PORT
"""

import os
import socket
import sys
import threading
import time


def calls(a, b, c):
    for _ in range(a):
        os.getppid()
    for _ in range(b):
        os.close(os.open("/dev/null", os.O_RDONLY))
    for _ in range(c):
        socket.socket(socket.AF_INET, socket.SOCK_STREAM).close()
    try:
        os.open("/nothing/there", os.O_RDONLY)
    except FileNotFoundError:
        pass


def serve(connection):
    with connection:
        head = b""
        while b"\r\n\r\n" not in head:
            more = connection.recv(4096)
            if not more:
                return
            head += more
        path = head.split(b" ", 2)[1].decode()
        calls(*(int(part) for part in path.split("/")[2:5]))
        if path.endswith("/pause"):
            time.sleep(5)
            os.getppid()
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")


def main():
    with socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=64) as listener:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=(connection,), daemon=True).start()


main()
