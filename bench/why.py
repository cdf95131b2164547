"""A server of bench/why: as bench/why.c, in Python. Each request runs 20 functions deep, then waits for a thread that
runs for half of that. Prints its port.

why.py LOOPS
"""

import queue
import socket
import sys
import threading

LOOPS = int(sys.argv[1])
DEPTH = 20


def work(depth, loops):
    if depth > 1:
        return work(depth - 1, loops)
    total = 0
    for n in range(loops):
        total += n
    return total


def write_log(lines):
    while True:
        written = lines.get()
        work(1, LOOPS // 2)
        written.release()


def handle(connection, lines):
    written = threading.Semaphore(0)
    with connection:
        while connection.recv(4096):
            work(DEPTH, LOOPS)
            lines.put(written)
            written.acquire()
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


def main():
    lines = queue.SimpleQueue()
    threading.Thread(target=write_log, args=(lines,), daemon=True).start()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            threading.Thread(target=handle, args=(listener.accept()[0], lines), daemon=True).start()


main()
