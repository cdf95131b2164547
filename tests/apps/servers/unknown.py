"""An unknown protocol: its connections are shown with their byte counts, and none of their bytes are kept."""

import socket
import threading

from stage import Server

HEAD = b"\xe7\x01\xfe\x99"


class Unknown(Server):
    protocol = ""
    port = 7777
    ROUNDS = 20

    def start(self):
        listener = socket.create_server(("127.0.0.1", self.port))

        def serve(connection):
            with connection:
                while data := connection.recv(4096):
                    connection.sendall(data[::-1])

        def accept():
            while True:
                connection = listener.accept()[0]
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()

    def open(self):
        return socket.create_connection(("127.0.0.1", self.port))

    def end_port(self, connection):
        return connection.getsockname()[1]

    def exchange(self, connection, i):
        said = HEAD + bytes([i]) + self.secret("message").encode()
        connection.sendall(said)
        assert connection.recv(4096) == said[::-1]

    def warm(self, connection):
        self.exchange(connection, 0)

    def use(self, connection):
        with self.call("tcp") as record:
            if not self.late:
                record["start"] = self.here.opened  # the span is the whole connection
            for i in range(self.ROUNDS):
                self.exchange(connection, i)
            connection.close()

    def close(self, connection):
        pass
