"""The operations that the DNS servers share: over UDP and TCP, several at once, names that exist and that do not."""

import socket

from stage import Server

try:
    import dns.message
    import dns.query
    import dns.rcode
except ImportError:  # told as the reason for skipping: see `modules`
    dns = None


class Names(Server):
    protocol = "dns"
    port = 53
    modules = ("dns.message",)
    zone = "shop.example"

    def open(self):
        """A UDP socket and a TCP connection."""
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        udp.connect(("127.0.0.1", self.port))
        udp.setblocking(False)
        tcp = socket.create_connection(("127.0.0.1", self.port))
        tcp.setblocking(False)
        return udp, tcp

    def close(self, sockets):
        for s in sockets:
            s.close()

    def ready(self):
        query = dns.message.make_query(f"www.{self.zone}", "A")
        self.wait(lambda: dns.query.udp(query, "127.0.0.1", 0.5, self.port).answer, "an answer")

    def warm(self, sockets):
        udp, tcp = sockets
        dns.query.send_udp(udp, dns.message.make_query(f"www.{self.zone}", "A"), ("127.0.0.1", self.port))
        dns.query.receive_udp(udp, ("127.0.0.1", self.port), expiration=None)
        dns.query.tcp(dns.message.make_query(f"www.{self.zone}", "A"), "127.0.0.1", 5, sock=tcp)

    def query(self, sockets, name, kind, code, tcp=False):
        status = {"NOERROR": "ok", "NXDOMAIN": "client-error"}.get(code, "server-error")
        query = dns.message.make_query(name, kind)
        used = sockets[1] if tcp else sockets[0]
        with self.call(
            kind, name, status, end_port=used.getsockname()[1], attrs={"network.transport": "tcp" if tcp else "udp"}
        ):
            if tcp:
                answer = dns.query.tcp(query, "127.0.0.1", 10, sock=used)
            else:
                answer = dns.query.udp(query, "127.0.0.1", 10, self.port, sock=used)
        assert dns.rcode.to_text(answer.rcode()) == code, f"{name} {kind}: {answer.rcode()}"
        return answer

    def several_at_once(self, sockets, names):
        """Ten questions on one socket before the first answer is read."""
        udp, tcp = sockets
        for used, sends, receives in (
            (udp, dns.query.send_udp, dns.query.receive_udp),
            (tcp, dns.query.send_tcp, dns.query.receive_tcp),
        ):
            where = [("127.0.0.1", self.port)] if used is udp else []
            records = []
            with self.call(
                "A",
                names[0],
                end_port=used.getsockname()[1],
                attrs={"network.transport": "udp" if used is udp else "tcp"},
            ) as first:
                for name in names:
                    sends(used, dns.message.make_query(name, "A"), *where)
                    records.append(dict(first, target=name))
                for _ in names:
                    receives(used, *where, expiration=None) if used is udp else receives(used)
                for record in records[1:]:
                    self.also_seen(record)
