"""ZeroMQ (PyPI's pyzmq): a login, requests and answers of one and of several frames, subscriptions."""

import threading
import time

from stage import Server

NEWS = 5556


class Zeromq(Server):
    protocol = "zmtp"
    port = 5555
    more_ports = (NEWS,)
    modules = ("zmq", "zmq.auth.thread")
    # Only the greeting is certain. A connection that is joined later is not recognised.
    LATE = 0
    also = ("zmtp GREETING", "zmtp READY", "zmtp HELLO", "zmtp INITIATE")

    def start(self):
        import zmq
        from zmq.auth.thread import ThreadAuthenticator

        self.context = zmq.Context()
        login = ThreadAuthenticator(self.context)
        login.start()
        login.configure_plain(passwords={"boss": self.secret("pass")})

        def answer():
            socket = self.context.socket(zmq.REP)
            socket.plain_server = True
            socket.bind(f"tcp://127.0.0.1:{self.port}")
            while True:
                socket.send_multipart(socket.recv_multipart())

        threading.Thread(target=answer, daemon=True).start()
        self.news = self.context.socket(zmq.XPUB)
        self.news.bind(f"tcp://127.0.0.1:{NEWS}")
        self.lock_news = threading.Lock()

    def open(self):
        import zmq

        socket = self.context.socket(zmq.REQ)
        socket.plain_username, socket.plain_password = b"boss", self.secret("pass").encode()
        socket.connect(f"tcp://127.0.0.1:{self.port}")
        return socket

    def close(self, socket):
        socket.close(0)

    def use(self, socket):
        import zmq

        word = self.secret("message").encode()
        for frames in ([word], [word * 4000], [word, b"", word * 20]):
            with self.call("MESSAGE"):
                socket.send_multipart(frames)
                assert socket.recv_multipart() == frames
        with self.lock_news:
            reader = self.context.socket(zmq.SUB)
            reader.connect(f"tcp://127.0.0.1:{NEWS}")
            with self.call("SUBSCRIBE", "orders", "one-way", port=NEWS):
                reader.subscribe("orders")
                assert self.news.recv() == b"\x01orders"
            for _ in range(2):
                with self.call("MESSAGE", "orders", "one-way", port=NEWS):
                    self.news.send(b"orders " + word)
                    assert reader.recv()
            with self.call("CANCEL", "orders", "one-way", port=NEWS):
                reader.unsubscribe("orders")
                assert self.news.recv() == b"\x00orders"
            reader.close(0)
            time.sleep(0.05)
