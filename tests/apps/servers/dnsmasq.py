"""dnsmasq: names that it knows itself, and no upstream server for other names."""

from dns_names import Names


class Dnsmasq(Names):
    programs = ("dnsmasq",)

    def start(self):
        hosts = [f"--address=/h{i}.{self.zone}/10.0.0.{i}" for i in range(1, 11)]
        self.spawn(
            "dnsmasq",
            "--keep-in-foreground",
            "--no-resolv",
            "--no-hosts",
            "--conf-file=/dev/null",
            "--port=53",
            "--listen-address=127.0.0.1",
            "--bind-interfaces",
            "--user=root",
            f"--pid-file={self.work}/pid",
            f"--local=/{self.zone}/",
            f"--address=/www.{self.zone}/10.1.2.3",
            f"--txt-record=txt.{self.zone},text",
            *hosts,
        )

    def use(self, sockets):
        for tcp in (False, True):
            self.query(sockets, f"www.{self.zone}", "A", "NOERROR", tcp)
            self.query(sockets, f"txt.{self.zone}", "TXT", "NOERROR", tcp)
            self.query(sockets, f"nobody.{self.zone}", "A", "NXDOMAIN", tcp)
            self.query(sockets, "elsewhere.example", "A", "REFUSED", tcp)
        self.several_at_once(sockets, [f"h{i}.{self.zone}" for i in range(1, 11)])
