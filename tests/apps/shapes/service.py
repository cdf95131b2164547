"""A service of a shape, in Python; README.md has the environment.

HOW says who makes the calls. One blocking thread per caller's connection reads and answers, and `thread` itself makes
them, `pool` gives each to a ThreadPoolExecutor and waits, `fanout` gives it all at once; `gevent` is `thread` with
greenlets, `gevent-fanout` spawns one for each call; `asyncio` and `asyncio-fanout` do all in one event loop, `uvloop`
and `uvloop-fanout` do it in that of libuv. `asyncio-lazy` gives each call to one of WORKERS tasks by an asyncio.Queue;
the first request makes these tasks. `httpx-fanout` makes all calls at once by httpx.
"""

import os
import sys

HOW = os.environ["HOW"]
if HOW.startswith("gevent"):
    import gevent
    import gevent.monkey

    gevent.monkey.patch_all()

import asyncio
import concurrent.futures
import json
import secrets
import socket
import threading
import time

SERVICE = os.environ["SERVICE"]
WORKERS = int(os.environ.get("WORKERS", "8"))
truth = os.open(
    os.path.join(os.environ["GROUND_TRUTH_DIR"], f"{SERVICE}.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
)


def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


LISTEN = address(os.environ["LISTEN"])
UPSTREAMS = [address(a) for a in os.environ.get("CALLS", "").split(",") if a]


def note(kind, path, start, status, **more):
    """One line in one write: nothing is lost when the process is ended."""
    record = {
        "service": SERVICE,
        "kind": kind,
        "target": path,
        "start": start,
        "end": time.time_ns(),
        "status": status,
        **more,
    }
    os.write(truth, (json.dumps(record) + "\n").encode())


def calls(path):
    """The calls that a request causes, as upstream and load; its path alone decides."""
    load = int(path.split("/")[2])
    return [(u, (load + i + 1) % 4) for u in range(len(UPSTREAMS)) for i in range(1 + (load >> u & 1))]


def new_path(load):
    return f"/work/{load}/{secrets.token_hex(6)}"


def length_of(head):
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            return int(line[15:])
    return 0


def answer(good):
    return b"HTTP/1.1 %s\r\nContent-Length: 2\r\n\r\nok" % (b"200 OK" if good else b"502 Bad Gateway")


# --- blocking ---------------------------------------------------------------------------------------------------------


class Connection:
    def __init__(self, sock):
        self.sock = sock
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""

    def read(self):
        """One message's head; its body is thrown away. Nothing at the end of the connection."""
        while b"\r\n\r\n" not in self.rest:
            got = self.sock.recv(4096)
            if not got:
                return None
            self.rest += got
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        length = length_of(head)
        while len(self.rest) < length:
            self.rest += self.sock.recv(4096)
        self.rest = self.rest[length:]
        return head


def call(connections, upstream, load, inside):
    path, start = new_path(load), time.time_ns()
    if upstream not in connections:
        connections[upstream] = Connection(socket.create_connection(UPSTREAMS[upstream]))
    connection = connections[upstream]
    connection.sock.sendall(f"GET {path} HTTP/1.1\r\nHost: shapes\r\n\r\n".encode())
    head = connection.read()
    status = int(head.split(b" ")[1])
    note("client", path, start, status, port=UPSTREAMS[upstream][1], **{"in": inside})
    return status == 200


local = threading.local()


def call_in_worker(upstream, load, inside):
    if not hasattr(local, "connections"):
        local.connections = {}
    return call(local.connections, upstream, load, inside)


def call_alone(upstream, load, inside):
    connections = {}
    try:
        return call(connections, upstream, load, inside)
    finally:
        for connection in connections.values():
            connection.sock.close()


class Blocking:
    def __init__(self):
        self.executor = concurrent.futures.ThreadPoolExecutor(WORKERS) if HOW in ("pool", "fanout") else None

    def work(self, path, connections):
        todo = [(u, load, path) for u, load in calls(path)]
        if HOW == "pool":
            return all([self.executor.submit(call_in_worker, *one).result() for one in todo])
        if HOW == "fanout":
            return all([f.result() for f in [self.executor.submit(call_in_worker, *one) for one in todo]])
        if HOW == "gevent-fanout":
            return all([g.get() for g in [gevent.spawn(call_alone, *one) for one in todo]])
        return all([call(connections, *one) for one in todo])

    def serve(self, sock):
        connection, connections = Connection(sock), {}
        while head := connection.read():
            start, path = time.time_ns(), head.split(b" ")[1].decode()
            good = self.work(path, connections)
            note("server", path, start, 200 if good else 502, port=LISTEN[1])
            sock.sendall(answer(good))
        for each in connections.values():
            each.sock.close()
        sock.close()

    def run(self):
        listener = socket.create_server(LISTEN, backlog=1024)
        while True:
            sock, _ = listener.accept()
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()


# --- one event loop ---------------------------------------------------------------------------------------------------


class Loop:
    def __init__(self):
        self.idle = [[] for _ in UPSTREAMS]  # idle connections; the one used last is taken first

    async def read(self, reader):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        await reader.readexactly(length_of(head))
        return head

    async def call(self, upstream, load, inside):
        path, start = new_path(load), time.time_ns()
        pair = self.idle[upstream].pop() if self.idle[upstream] else await asyncio.open_connection(*UPSTREAMS[upstream])
        reader, writer = pair
        writer.write(f"GET {path} HTTP/1.1\r\nHost: shapes\r\n\r\n".encode())
        head = await self.read(reader)
        self.idle[upstream].append(pair)
        status = int(head.split(b" ")[1])
        note("client", path, start, status, port=UPSTREAMS[upstream][1], **{"in": inside})
        return status == 200

    async def serve(self, reader, writer):
        while head := await self.read(reader):
            start, path = time.time_ns(), head.split(b" ")[1].decode()
            todo = [self.call(u, load, path) for u, load in calls(path)]
            if HOW.endswith("fanout"):
                good = all(await asyncio.gather(*todo))
            else:
                good = all([await one for one in todo])
            note("server", path, start, 200 if good else 502, port=LISTEN[1])
            writer.write(answer(good))
        writer.close()

    async def run(self):
        server = await asyncio.start_server(self.serve, *LISTEN, backlog=1024)
        await server.serve_forever()


class LazyWorkers(Loop):
    """Tasks that the first request makes, and that then make the calls of all."""

    queue = None

    async def worker(self):
        while True:
            done, one = await self.queue.get()
            done.set_result(await super().call(*one))

    async def call(self, *one):
        if not self.queue:
            self.queue = asyncio.Queue()
            self.workers = [asyncio.create_task(self.worker()) for _ in range(WORKERS)]
        done = asyncio.get_running_loop().create_future()
        self.queue.put_nowait((done, one))
        return await done


class Httpx(Loop):
    """One client of httpx for all tasks. Its pool passes connections from task to task under a lock."""

    async def call(self, upstream, load, inside):
        path, start = new_path(load), time.time_ns()
        host, port = UPSTREAMS[upstream]
        answer = await self.client.get(f"http://{host}:{port}{path}")
        note("client", path, start, answer.status_code, port=port, **{"in": inside})
        return answer.status_code == 200

    async def run(self):
        import httpx

        self.client = httpx.AsyncClient(trust_env=False, timeout=60)
        await super().run()


LOOPS = {"asyncio-lazy": LazyWorkers, "httpx-fanout": Httpx}
BLOCKING = ("thread", "pool", "fanout", "gevent", "gevent-fanout")

if __name__ == "__main__":
    if HOW in ("uvloop", "uvloop-fanout"):
        import uvloop

        uvloop.run(Loop().run())
    elif HOW in ("asyncio", "asyncio-fanout", *LOOPS):
        asyncio.run(LOOPS.get(HOW, Loop)().run())
    elif HOW in BLOCKING:
        Blocking().run()
    else:
        sys.exit(f"service.py: unknown HOW: {HOW}")
