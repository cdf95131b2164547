"""QUIC (PyPI's aioquic): handshakes of version 1 and 2, with and without a proof of the client's address, one that is
refused; and streams, of which only the datagrams are seen.
"""

import asyncio
import itertools
import socket
import ssl
import threading

import services
from stage import Server

# What each connection does: version of QUIC, offered protocols, name.
KINDS = ((1, ["h3", "h3-29"], "shop.example"), (2, ["h3"], "shop.example"), (1, ["hq-interop"], "cart.example"))
NUMBERS = {1: 1, 2: 0x6B3343CF}


class Quic(Server):
    protocol = "quic"
    port = 4433
    modules = ("aioquic.asyncio",)
    also = ("quic quic",)  # the connections: what they carry is only counted
    # The keys of later packets are secret.
    LATE = 0
    kinds = itertools.cycle(KINDS)

    def start(self):
        from aioquic.asyncio import QuicConnectionProtocol, serve
        from aioquic.quic.configuration import QuicConfiguration
        from aioquic.quic.events import StreamDataReceived

        class Back(QuicConnectionProtocol):
            def quic_event_received(self, event):
                if isinstance(event, StreamDataReceived) and event.end_stream:
                    self._quic.send_stream_data(event.stream_id, b"answer", True)
                    self.transmit()

        serves = QuicConfiguration(is_client=False, alpn_protocols=["h3", "hq-interop"])
        serves.supported_versions = list(NUMBERS.values())
        key, crt = self.work / "key.pem", self.work / "crt.pem"
        services.certificate(key, crt)
        serves.load_cert_chain(crt, key)
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.on_loop(serve("127.0.0.1", self.port, configuration=serves, create_protocol=Back, retry=True))

    def on_loop(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(20)

    def ready(self):
        self.close(self.open())

    def open(self):
        self.here.kind = next(self.kinds)
        try:
            return self.on_loop(self.connect(*self.here.kind))
        except ConnectionError as error:
            raise SystemExit(f"no connection: {error!r}") from error

    async def connect(self, version, protocols, name):
        from aioquic.asyncio import QuicConnectionProtocol
        from aioquic.quic.configuration import QuicConfiguration
        from aioquic.quic.connection import QuicConnection

        asks = QuicConfiguration(is_client=True, alpn_protocols=protocols, server_name=name)
        asks.verify_mode = ssl.CERT_NONE
        asks.supported_versions = [NUMBERS[version]]
        used = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        used.bind(("127.0.0.1", 0))
        loop = asyncio.get_running_loop()
        made = QuicConnection(configuration=asks)
        _, client = await loop.create_datagram_endpoint(lambda: QuicConnectionProtocol(made), sock=used)
        client.connect(("127.0.0.1", self.port))
        await client.wait_connected()
        return client

    def end_port(self, client):
        return client._transport.get_extra_info("sockname")[1]

    def greet(self, client):
        version, protocols, name = self.here.kind
        attrs = {
            "server.address": name,
            "wirespan.quic.version": str(version),
            "wirespan.tls.offered_protocols": ",".join(protocols),
            "tls.protocol.version": "1.3",
            "wirespan.quic.retry": "true",
        }
        self.opened("handshake", name, attrs=attrs)

    def use(self, client):
        async def ask(word):
            reader, writer = await client.create_stream()
            writer.write(word.encode() * 500)
            writer.write_eof()
            assert await reader.read() == b"answer"

        for _ in range(3):
            self.on_loop(ask(self.secret("message")))

    def close(self, client):
        async def end():
            client.close()
            await client.wait_closed()
            client._transport.close()

        self.on_loop(end())
