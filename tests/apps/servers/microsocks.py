"""MicroSocks: SOCKS 5 with a password, by curl and by PySocks (which reads an answer in pieces), to a web server behind
it and to nobody.
"""

from socks_tunnels import Socks


class Microsocks(Socks):
    programs = ("curl", "microsocks")
    modules = ("socks",)

    def start(self):
        super().start()
        self.spawn("microsocks", "-i", "127.0.0.1", "-p", self.port, "-u", "boss", "-P", self.secret("pass"))

    def use(self, _):
        login = ("--proxy-user", f"boss:{self.secret('pass')}")
        self.granted("NEGOTIATE", "AUTH", "CONNECT", how=("--socks5", *login))
        self.granted("NEGOTIATE", "AUTH", "CONNECT", how=("--socks5-hostname", *login), host="localhost")
        refused = ["NEGOTIATE ok", "AUTH ok", "CONNECT server-error"]
        self.refused(*refused, how=("--socks5", *login))
        self.refused(
            "NEGOTIATE ok", "AUTH client-error", how=("--socks5", "--proxy-user", f"boss:{self.secret('wrong')}")
        )
        self.refused("NEGOTIATE client-error", how=("--socks5",))
        self.steps(*refused, doing=self.in_pieces)

    def in_pieces(self):
        """It leaves as soon as it has read the code of the refusal."""
        import socks

        tunnel = socks.socksocket()
        tunnel.set_proxy(socks.SOCKS5, "127.0.0.1", self.port, username="boss", password=self.secret("pass"))
        try:
            tunnel.connect(("127.0.0.1", self.NOBODY))
            raise AssertionError("somebody is there")
        except socks.ProxyError:
            tunnel.close()
