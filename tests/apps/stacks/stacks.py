"""A server that says in which functions it waits or runs: before it does, it writes its own stack to FILE.truth.

usage: stacks.py PORT      answers GET /WHAT/MILLISECONDS; FILE is this file
"""

import asyncio
import json
import socket
import sys
import threading
import time


def stack(path):
    """Writes the stack of the caller, innermost first, as far as it goes."""
    frames, frame = [], sys._getframe(1)
    while frame:
        file = frame.f_code.co_filename.rsplit("/", 1)[-1]
        name = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)  # until 3.10, code has a short name only
        frames.append(f"{name} ({file}:{frame.f_lineno})")
        frame = frame.f_back
    with open(__file__ + ".truth", "a") as out:
        print(json.dumps([path, frames]), file=out, flush=True)


def sleep(path, ms):
    return stack(path), time.sleep(ms / 1000)


class Shop:
    """Methods, nested functions, lambdas and generators have names of several parts."""

    def __init__(self):
        self.lock = threading.Lock()

    def lock_work(self, path, ms):
        self.lock.acquire()
        threading.Timer(ms / 1000, self.lock.release).start()
        return stack(path), self.lock.acquire(), self.lock.release()

    def deep(self, path, ms, levels=100):
        return self.deep(path, ms, levels - 1) if levels else sleep(path, ms)

    def generated(self, path, ms):
        def prices():
            yield from (sleep(path, ms) for _ in range(1))

        return [price for price in prices()]

    def called_from_c(self, path, ms):
        return sorted([1], key=lambda _: sleep(path, ms) and 0)

    def café(self, path, ms):
        return sleep(path, ms)

    def coroutine(self, path, ms):
        async def price():
            return sleep(path, ms)

        async def checkout():
            return await price()

        return asyncio.run(checkout())

    def spin_work(self, path, ms):
        stack(path)
        end, n = time.monotonic() + ms / 1000, 0
        while time.monotonic() < end:
            n += 1
        return n


SHOP = Shop()
WORK = {
    "sleep": sleep,
    "lock": SHOP.lock_work,
    "deep": SHOP.deep,
    "generated": SHOP.generated,
    "called": SHOP.called_from_c,
    "letters": SHOP.café,
    "coroutine": SHOP.coroutine,
    "recursion": lambda path, ms: SHOP.deep(path, ms, 10_000),
    "spin": SHOP.spin_work,
}


def handle(connection):
    with connection:
        request = b""
        while not request.endswith(b"\r\n\r\n") and (more := connection.recv(4096)):
            request += more
        if request:
            path = request.decode().split(" ")[1]
            what, ms = path.split("/")[1:3]
            WORK[what](path, int(ms))
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")


def main():
    sys.setrecursionlimit(20_000)
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=handle, args=(connection,)).start()


main()
