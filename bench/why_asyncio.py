"""A server of bench/why: as bench/why.c, in Python with asyncio. Each request runs a loop, then waits for a task that
runs for half of that. Prints its port.

why_asyncio.py LOOPS
"""

import asyncio
import sys

LOOPS = int(sys.argv[1])


def work(loops):
    total = 0
    for n in range(loops):
        total += n
    return total


async def write_log(lines):
    while True:
        written = await lines.get()
        work(LOOPS // 2)
        written.set_result(None)


async def main():
    lines = asyncio.Queue()

    async def handle(reader, writer):
        while await reader.read(4096):
            work(LOOPS)
            written = asyncio.get_running_loop().create_future()
            lines.put_nowait(written)
            await written
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.close()

    log = asyncio.create_task(write_log(lines))
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await log


asyncio.run(main())
