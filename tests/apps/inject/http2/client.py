#!/usr/bin/env python3
"""A client of HTTP/2 with the library h2: client.py ADDRESS COUNT AT_ONCE [own]"""

import socket
import sys

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, StreamEnded, StreamReset

OWN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
LENGTHS = (0, 100, 3000, 20000)


class Client:
    """One connection; `step` sends what can be sent, and reads once."""

    def __init__(self, address):
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)))
        self.connection = H2Connection(H2Configuration(header_encoding="utf-8"))
        self.connection.initiate_connection()
        self.bodies = {}
        self.answers = {}
        self.targets = {}

    def ask(self, n, own):
        length = LENGTHS[n % len(LENGTHS)]
        stream = self.connection.get_next_available_stream_id()
        target = f"/n/{n}-{length}"
        headers = [(":method", "POST"), (":scheme", "http"), (":authority", "self"), (":path", target)]
        if own and n in (10, 11):
            headers.append(("traceparent", OWN))
        self.connection.send_headers(stream, headers)
        self.bodies[stream] = b"b" * length
        self.answers[stream] = b""
        self.targets[stream] = target, length

    def step(self):
        for stream, body in list(self.bodies.items()):
            room = min(
                self.connection.local_flow_control_window(stream), self.connection.max_outbound_frame_size, len(body)
            )
            if room < len(body) and room == 0:
                continue
            self.bodies[stream] = body[room:]
            self.connection.send_data(stream, body[:room], end_stream=room == len(body))
            if room == len(body):
                del self.bodies[stream]
        self.socket.sendall(self.connection.data_to_send())
        ended = 0
        for event in self.connection.receive_data(self.socket.recv(65536)):
            if isinstance(event, DataReceived):
                self.answers[event.stream_id] += event.data
                self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, StreamEnded):
                target, length = self.targets[event.stream_id]
                assert self.answers[event.stream_id].decode() == target * (1 + length % 1000), target
                ended += 1
            elif isinstance(event, StreamReset):
                raise SystemExit(f"stream {event.stream_id} was reset: {event.error_code}")
        return ended


def main(address, count, at_once, *own):
    client = Client(address)
    asked = done = 0
    while done < int(count):
        while asked < int(count) and asked - done < int(at_once):
            client.ask(asked, bool(own))
            asked += 1
        done += client.step()
    client.socket.sendall(client.connection.data_to_send())


if __name__ == "__main__":
    main(*sys.argv[1:])
