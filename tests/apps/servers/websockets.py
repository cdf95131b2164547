"""A WebSocket server (PyPI's websockets) that sends back what it gets: text, binary, fragments, pings, with and without
compression.
"""

import itertools
import threading

from stage import Server


class Websockets(Server):
    protocol = "websocket"
    port = 8765
    modules = ("websockets.sync.server", "websockets.sync.client")
    # A connection whose upgrade was not seen is not recognised as WebSocket.
    LATE = 0
    forms = itertools.cycle([None, "deflate"])

    def start(self):
        from websockets.sync.server import serve

        def back(connection):
            for message in connection:
                connection.send(message)

        server = serve(back, "127.0.0.1", self.port, ping_interval=None, max_size=None)
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def open(self):
        from websockets.sync.client import connect

        self.here.compression = next(self.forms)
        head = {"Authorization": f"Bearer {self.secret('bearer')}"}
        url = f"ws://127.0.0.1:{self.port}/chat?token={self.secret('url')}"
        return connect(
            url, additional_headers=head, compression=self.here.compression, ping_interval=None, max_size=None
        )

    def end_port(self, connection):
        return connection.socket.getsockname()[1]

    def greet(self, connection):
        self.opened("GET", "/chat", protocol="http", attrs={"http.response.status_code": 101})

    def use(self, connection):
        packed = {"wirespan.websocket.compressed": "true"} if self.here.compression else {}
        word = self.secret("message")
        for operation, message in (("text", word), ("text", word * 5000), ("binary", word.encode() * 5000)):
            with self.call(operation, status="one-way", attrs=packed) as record:
                connection.send(message)
                assert connection.recv() == message
                self.also_seen(record)
        with self.call("text", status="one-way", attrs=packed) as record:
            connection.send([word, word * 100, "end"])
            assert connection.recv().endswith("end")
            self.also_seen(record)
        with self.call("ping", status="one-way") as record:
            assert connection.ping(self.secret("ping")).wait(10)
            self.also_seen(record, operation="pong")

    def close(self, connection):
        with self.call("close", status="one-way") as record:
            connection.close(reason=self.secret("reason"))
            self.also_seen(record)
