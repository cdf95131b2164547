"""Dante: SOCKS 4 and 5 by curl, to a web server behind it, to nobody, and where its rules forbid to go; 4a, which it
refuses; its processes hand sockets on.
"""

from socks_tunnels import FORBIDDEN, Socks


class Dante(Socks):
    programs = ("curl", "danted")

    def start(self):
        super().start()
        rules = (
            "client pass { from: 0.0.0.0/0 to: 0.0.0.0/0 }\n"
            f"socks block {{ from: 0.0.0.0/0 to: 0.0.0.0/0 port = {FORBIDDEN} }}\n"
            "socks pass { from: 0.0.0.0/0 to: 0.0.0.0/0 }\n"
        )
        head = (
            f"logoutput: stderr\ninternal: 127.0.0.1 port = {self.port}\nexternal: lo\nclientmethod: "
            "none\nsocksmethod: none\nuser.privileged: root\nuser.unprivileged: root\n"
        )
        self.spawn("danted", "-f", self.file("danted.conf", head + rules), "-p", self.work / "danted.pid")

    def use(self, _):
        user = ("--proxy-user", f"{self.secret('user')}:")
        self.granted("CONNECT", how=("--socks4", *user))
        self.granted("NEGOTIATE", "CONNECT", how=("--socks5",))
        self.granted("NEGOTIATE", "CONNECT", how=("--socks5-hostname",), host="localhost")
        self.refused("CONNECT server-error", how=("--socks4", *user))
        # It does not know 4a, and takes the sign that a name follows for an address.
        self.refused("CONNECT server-error", how=("--socks4a", *user), host="localhost")
        self.refused("NEGOTIATE ok", "CONNECT server-error", how=("--socks5",))
        self.refused("NEGOTIATE ok", "CONNECT client-error", how=("--socks5",), port=FORBIDDEN)
