"""OpenSMTPD: mail for people who are there, who are not, commands that are wrong, a large message."""

import smtplib

from stage import Server


class Smtp(Server):
    protocol = "smtp"
    port = 2525
    also = ("smtp greeting",)
    programs = ("smtpd",)

    def start(self):
        conf = self.file(
            "smtpd.conf",
            f"listen on 127.0.0.1 port {self.port} hostname shop.example\nqueue ttl 1h\naction keep "
            f'maildir "{self.work}/mail"\nmatch from any for domain "shop.example" action keep\n',
        )
        self.spawn("smtpd", "-d", "-f", conf)

    def open(self):
        return smtplib.SMTP("127.0.0.1", self.port, local_hostname="client.example")

    def close(self, c):
        c.close()

    def end_port(self, c):
        return c.sock.getsockname()[1]

    def warm(self, c):
        c.ehlo()

    def greet(self, c):
        with self.call("EHLO"):
            assert c.ehlo()[0] == 250

    def use(self, c):
        for size in (1, 3000):
            with self.call("MAIL", "client.example"):
                assert c.mail(f"{self.secret('from')}@client.example")[0] == 250
            with self.call("RCPT", "elsewhere.example", "client-error"):
                assert c.rcpt(f"{self.secret('to')}@elsewhere.example")[0] >= 400
            with self.call("RCPT", "shop.example"):
                assert c.rcpt("root@shop.example")[0] == 250
            with self.call("DATA"):
                assert (
                    c.data(f"Subject: {self.secret('subject')}\r\n\r\n{(self.secret('body') + chr(10)) * size}")[0]
                    == 250
                )
        with self.call("NOOP"):
            assert c.noop()[0] == 250
        with self.call("VRFY", status="client-error"):  # OpenSMTPD has no such command
            assert c.verify(self.secret("user"))[0] == 500
