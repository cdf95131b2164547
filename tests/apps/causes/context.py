"""An HTTP server on asyncio whose calls threads make, as anyio has it: FastAPI's plain functions run so.

`context.py BACK`. Each thread has a queue of its own, and runs each job in a copy of the context of the task that gave
it.
"""

import asyncio
import contextvars
import queue
import threading

from back_end import call

IDLE = []


def work(loop, jobs):
    while True:
        context, number, future = jobs.get()
        answer = context.run(call, number)
        loop.call_soon_threadsafe(report, jobs, future, answer)


def report(jobs, future, answer):
    IDLE.append(jobs)
    future.set_result(answer)


async def in_thread(number):
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    if not IDLE:
        IDLE.append(queue.Queue())
        threading.Thread(target=work, args=(loop, IDLE[-1]), daemon=True).start()
    IDLE.pop().put_nowait((contextvars.copy_context(), number, future))
    return await future


class Connection(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        number = data.split()[1].rsplit(b"/", 1)[1].decode()
        self.task = asyncio.get_running_loop().create_task(self.serve(number))

    async def serve(self, number):
        for _ in range(2):
            await in_thread(number)
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


async def main():
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0)
    print("listening", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
