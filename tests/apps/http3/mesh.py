#!/usr/bin/env python3
"""HTTP/3 between two services that also have other work: a front end, a server of HTTP/3, and a back end of HTTP/1.

usage: mesh.py REQUESTS      starts the services, and makes so many requests of each kind, a few at a time

- `/web/N` at the front end: a request of HTTP/3 for `/h3/N` on a connection of its own, then `/from/web/N` at the back
  end
- `/kept/N` at the front end: a request of HTTP/3 on a connection that is kept, then `/from/kept/N` at the back end
- `/plain/N` at the server of HTTP/3, by HTTP/1: `/from/plain/N` at the back end, at the same time as the above
- each request of HTTP/3: `/from/h3/N` at the back end

So a call to the back end names the request that it was made for. Prints the number of QUIC connections that each end
has counted.
"""

import asyncio
import concurrent.futures
import http.client
import os
import pathlib
import socket
import ssl
import subprocess
import sys
import tempfile

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serving"))
import services

AT_ONCE = 4
connections = 0


async def http1(port, handle):
    """Serves HTTP/1, one request after another on each connection."""

    async def client(reader, writer):
        while head := await reader.readline():
            path = head.split(b" ")[1].decode()
            while (await reader.readline()).strip():
                pass
            body = (await handle(path)).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            await writer.drain()
        writer.close()

    await asyncio.start_server(client, "127.0.0.1", port)


async def ask(port, path):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: back\r\nConnection: close\r\n\r\n".encode())
    await writer.drain()
    await reader.readuntil(b"\r\n\r\n")
    writer.close()


class Serves(QuicConnectionProtocol):
    """The server's end: asks the back end before it answers."""

    back = 0

    def __init__(self, *args, **kwargs):
        global connections
        super().__init__(*args, **kwargs)
        connections += 1
        self.http = None
        self.tasks = set()

    def quic_event_received(self, event):
        if isinstance(event, ProtocolNegotiated):
            self.http = H3Connection(self._quic)
        for told in self.http.handle_event(event) if self.http else ():
            if isinstance(told, HeadersReceived):
                task = asyncio.ensure_future(self.answer(told.stream_id, dict(told.headers)[b":path"].decode()))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)

    async def answer(self, stream, path):
        await ask(self.back, f"/from{path}")
        self.http.send_headers(stream, [(b":status", b"200")])
        self.http.send_data(stream, b"x" * 20_000, True)
        self.transmit()


class Asks(QuicConnectionProtocol):
    """The client's end."""

    def __init__(self, *args, **kwargs):
        global connections
        super().__init__(*args, **kwargs)
        connections += 1
        self.http = H3Connection(self._quic)
        self.waiting = {}

    def quic_event_received(self, event):
        for told in self.http.handle_event(event):
            if isinstance(told, DataReceived) and told.stream_ended:
                self.waiting.pop(told.stream_id).set_result(None)

    async def get(self, path):
        stream = self._quic.get_next_available_stream_id()
        self.waiting[stream] = asyncio.get_running_loop().create_future()
        head = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"shop"), (b":path", path.encode())]
        self.http.send_headers(stream, head, True)
        done = self.waiting[stream]
        self.transmit()
        await done


def dial(port):
    asks = QuicConfiguration(is_client=True, alpn_protocols=["h3"], server_name="shop.example")
    asks.verify_mode = ssl.CERT_NONE
    return connect("127.0.0.1", port, configuration=asks, create_protocol=Asks)


async def front(port, h3, back):
    held = dial(h3)  # it closes the connection when it is forgotten
    kept = await held.__aenter__()

    async def handle(path, _held=held):
        _, kind, number = path.split("/")
        if kind == "kept":
            await kept.get(f"/h3/k{number}")
        elif kind == "web":
            async with dial(h3) as client:
                await client.get(f"/h3/{number}")
        await ask(back, f"/from{path}")
        return str(connections)

    await http1(port, handle)


async def middle(port, h3, back, folder):
    Serves.back = back
    serves = QuicConfiguration(is_client=False, alpn_protocols=["h3"])
    key, crt = pathlib.Path(folder, "key"), pathlib.Path(folder, "crt")
    services.certificate(key, crt)
    serves.load_cert_chain(crt, key)
    await serve("127.0.0.1", h3, configuration=serves, create_protocol=Serves)

    async def handle(path):
        await ask(back, f"/from{path}")
        return str(connections)

    await http1(port, handle)


async def back(port):
    async def handle(_):
        await asyncio.sleep(0.005)
        return ""

    await http1(port, handle)


async def forever(role, arguments):
    await globals()[role](*arguments)
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)  # a connection that is kept has nobody to answer it


def free_ports(n):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path)
    answer = connection.getresponse().read().decode()
    connection.close()
    return answer


def main(requests):
    ports = dict(zip(("front", "h3", "middle", "back"), free_ports(4)))
    with tempfile.TemporaryDirectory() as folder:
        started = []
        for role, names in (("back", "back"), ("middle", "middle h3 back"), ("front", "front h3 back")):
            arguments = [str(ports[name]) for name in names.split()] + [folder] * (role == "middle")
            command = [sys.executable, __file__, role, *arguments]
            started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            assert started[-1].stdout.readline() == "ready\n"
        with concurrent.futures.ThreadPoolExecutor(3 * AT_ONCE) as pool:
            for n in range(requests):
                for kind in ("web", "kept", "plain"):
                    pool.submit(get, ports["middle" if kind == "plain" else "front"], f"/{kind}/{n}")
        made = [get(ports[role], "/last/0") for role in ("front", "middle")]
        for process in started:
            process.communicate()
        print("connections", *made, flush=True)


if __name__ == "__main__":
    role, *arguments = sys.argv[1:]
    if role.isdigit():
        main(int(role))
    else:
        asyncio.run(forever(role, [int(a) if a.isdigit() else a for a in arguments]))
