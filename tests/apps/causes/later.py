"""An HTTP server on asyncio that calls after its answer. `later.py HOW BACK`.

HOW is `same`: the task that has answered goes on to call, as background tasks of Starlette do; `child`: it makes a task
that nobody awaits; `locked`: as `same`, and all tasks want one lock; `timer`: it asks the loop for a callback, which
makes a task. With `chained`, one task serves the connection, and waits for each request by a chain of two futures; it
makes a task that nobody awaits. The next request of the connection comes before the calls.
"""

import asyncio
import sys

HOW, BACK = sys.argv[1], int(sys.argv[2])
FREE, JOBS = [], set()
LOCK = asyncio.Lock()


async def call(number):
    reader, writer = FREE.pop() if FREE else await asyncio.open_connection("127.0.0.1", BACK)
    writer.write(f"GET /u/{number} HTTP/1.1\r\nHost: t\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(2)
    FREE.append((reader, writer))


async def job(number):
    await asyncio.sleep(0.005)
    for _ in range(2):
        if HOW == "locked":
            async with LOCK:
                await asyncio.sleep(0.001)
        await call(number)


def start(coroutine):
    """A task that nobody awaits. The loop alone would not keep it from being collected."""
    task = asyncio.get_running_loop().create_task(coroutine)
    JOBS.add(task)
    task.add_done_callback(JOBS.discard)


class Connection(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
        if HOW == "chained":
            start(self.serve_all())

    def data_received(self, data):
        number = data.split()[1].rsplit(b"/", 1)[1].decode()
        if HOW == "chained":
            self.read.set_result(number)
        else:
            start(self.serve(number))

    def next_request(self):
        self.read, passed = (asyncio.get_running_loop().create_future() for _ in range(2))
        self.read.add_done_callback(lambda read: passed.set_result(read.result()))
        return passed

    async def serve_all(self):
        waits = self.next_request()
        while True:
            number = await waits
            waits = self.next_request()
            await self.serve(number)

    async def serve(self, number):
        await asyncio.sleep(0)
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        if HOW in ("same", "locked"):
            await job(number)
        elif HOW == "timer":
            asyncio.get_running_loop().call_later(0.001, lambda: start(job(number)))
        else:
            start(job(number))


async def main():
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0)
    print("listening", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
