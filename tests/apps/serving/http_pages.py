"""The operations that the HTTP servers share: `Web` is a server whose client speaks HTTP/1.1 on a connection that it
keeps.
"""

import base64
import http.client

from stage import Server


class Web(Server):
    protocol = "http"
    port = 8080

    def open(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.connect()
        return connection

    def end_port(self, connection):
        return connection.sock.getsockname()[1]

    def warm(self, connection):
        self.ask(connection, "GET", "/hello")

    def secrets_of_heads(self):
        basic = base64.b64encode(f"user:{self.secret('basic')}".encode()).decode()
        return {
            "Authorization": f"Basic {basic}",
            "Cookie": f"session={self.secret('cookie')}",
            "X-Api-Key": self.secret("apikey"),
        }

    def ask(self, connection, method, target, body=None):
        connection.request(method, target, body=body, headers=self.secrets_of_heads())
        answer = connection.getresponse()
        return answer.status, answer.read()

    def request(self, connection, method, target, status, body=None, hops=()):
        """One request; `hops`: ports behind this one that see the same request."""
        ended = "ok" if status < 400 else "client-error" if status < 500 else "server-error"
        with self.call(method, target.split("?")[0], ended, attrs={"http.response.status_code": status}) as record:
            got, answer = self.ask(connection, method, target, body)
            assert got == status, f"{method} {target}: {got}, expected {status}"
            for port in hops:
                self.also_seen(record, port=port, end_port=0)
        return answer
