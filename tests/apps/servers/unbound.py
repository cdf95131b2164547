"""unbound: a zone of its own, over UDP and TCP."""

from dns_names import Names


class Unbound(Names):
    programs = ("unbound",)

    def start(self):
        hosts = "".join(f'local-data: "h{i}.{self.zone}. A 10.0.0.{i}"\n' for i in range(1, 11))
        conf = self.file(
            "unbound.conf",
            f"""
server:
    interface: 127.0.0.1
    port: 53
    username: ""
    chroot: ""
    directory: "{self.work}"
    pidfile: "{self.work}/pid"
    use-syslog: no
    do-daemonize: no
    num-threads: 2
    do-not-query-localhost: no
    local-zone: "{self.zone}." static
    local-data: "www.{self.zone}. A 10.1.2.3"
    local-data: "www.{self.zone}. AAAA 2001:db8::7"
    local-data: 'www.{self.zone}. TXT "some text"'
    local-data: "{self.zone}. MX 10 mail.{self.zone}."
    {hosts}
    local-zone: "refused.example." refuse
remote-control:
    control-enable: no
""",
        )
        self.spawn("unbound", "-d", "-c", conf)

    def use(self, sockets):
        for tcp in (False, True):
            self.query(sockets, f"www.{self.zone}", "A", "NOERROR", tcp)
            self.query(sockets, f"www.{self.zone}", "AAAA", "NOERROR", tcp)
            self.query(sockets, f"www.{self.zone}", "TXT", "NOERROR", tcp)
            self.query(sockets, self.zone, "MX", "NOERROR", tcp)
            self.query(sockets, f"nobody.{self.zone}", "A", "NXDOMAIN", tcp)
            self.query(sockets, "www.refused.example", "A", "REFUSED", tcp)
        self.several_at_once(sockets, [f"h{i}.{self.zone}" for i in range(1, 11)])
