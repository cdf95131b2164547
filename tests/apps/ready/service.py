"""A service of asyncio whose requests await, compute, and are kept from running by other tasks of their loop. Each says
for how long: one JSON line for each request on standard output, times in seconds.

usage: service.py COUNT streams|tasks [uvloop]

`streams` has one task for each connection, `tasks` one for each request, made by the protocol that has read it. Each
request of /mix/N sleeps 40 ms, computes 40 ms, waits 30 ms for a lock, lets a task go first that keeps the loop for 100
ms, and waits for a future whose task keeps the loop for 50 ms after it has settled it.
"""

import asyncio
import http.client
import json
import sys
import threading
import time

COUNT, HOW = int(sys.argv[1]), sys.argv[2]
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone"


async def keep(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


async def settle(future):
    future.set_result(time.monotonic())
    await keep(0.05)


async def timed(awaitable):
    began = time.monotonic()
    await awaitable
    return time.monotonic() - began


async def work(path):
    """Returns what the request says of itself."""
    loop, began = asyncio.get_running_loop(), time.monotonic()
    awaited = await timed(asyncio.sleep(0.04))
    ran = -time.thread_time()
    while time.thread_time() + ran < 0.04:
        pass
    ran += time.thread_time()
    lock = asyncio.Lock()
    await lock.acquire()
    loop.call_later(0.03, lock.release)
    awaited += await timed(lock.acquire())
    others = [loop.create_task(keep(0.1))]
    kept = await timed(asyncio.sleep(0))
    future = loop.create_future()
    others.append(loop.create_task(settle(future)))
    asked = time.monotonic()
    settled = await future
    awaited, kept = awaited + settled - asked, kept + time.monotonic() - settled
    return {"path": path, "ran": ran, "awaited": awaited, "kept": kept, "took": time.monotonic() - began}


def path_of(request):
    return request.split(b" ", 2)[1].decode()


async def serve_connection(reader, writer):
    try:
        while True:
            told = await work(path_of(await reader.readuntil(b"\r\n\r\n")))
            writer.write(ANSWER)
            await writer.drain()
            print(json.dumps(told), flush=True)
    except asyncio.IncompleteReadError:
        writer.close()


class Protocol(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.task = transport, None

    def data_received(self, data):
        self.task = asyncio.get_running_loop().create_task(self.serve(path_of(data)))

    async def serve(self, path):
        told = await work(path)
        self.transport.write(ANSWER)
        print(json.dumps(told), flush=True)


def ask(port):
    kept = http.client.HTTPConnection("127.0.0.1", port)
    for n in range(COUNT):
        client = kept if n % 2 else http.client.HTTPConnection("127.0.0.1", port)
        client.request("GET", f"/mix/{n}")
        client.getresponse().read()
        if client is not kept:
            client.close()
        time.sleep(0.02)


async def main():
    loop = asyncio.get_running_loop()
    if HOW == "streams":
        server = await asyncio.start_server(serve_connection, "127.0.0.1", 0)
    else:
        server = await loop.create_server(Protocol, "127.0.0.1", 0)
    time.sleep(1)  # until the program is probed
    client = threading.Thread(target=ask, args=(server.sockets[0].getsockname()[1],))
    client.start()
    while client.is_alive():
        await asyncio.sleep(0.05)


if sys.argv[3:] == ["uvloop"]:
    import uvloop

    uvloop.run(main())
else:
    asyncio.run(main())
