"""OpenLDAP: binding, searching, adding, changing, deleting, comparing; wrong passwords and names that are not there."""

import pathlib
import subprocess

from stage import Server

BASE = "dc=shop,dc=example"
SHOWN = "dc=?,dc=?"  # values of names are masked


class Openldap(Server):
    protocol = "ldap"
    port = 389
    also = ("ldap unbind",)
    programs = ("slapd", "slapadd")
    modules = ("ldap3",)

    def start(self):
        (self.work / "data").mkdir()
        modules = pathlib.Path("/usr/lib/ldap")
        conf = self.file(
            "slapd.conf",
            f"""
modulepath {modules}
moduleload back_mdb
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
pidfile {self.work}/pid
database mdb
maxsize 10485760
suffix "{BASE}"
rootdn "cn=boss,{BASE}"
rootpw {self.secret("pass")}
directory {self.work}/data
""",
        )
        people = "".join(
            f"\ndn: uid=u{i},{BASE}\nobjectClass: inetOrgPerson\nuid: u{i}\ncn: name {i}\nsn: {i}\n" for i in range(50)
        )
        ldif = self.file(
            "all.ldif", f"dn: {BASE}\nobjectClass: dcObject\nobjectClass: organization\ndc: shop\no: shop\n{people}"
        )
        subprocess.run(["slapadd", "-f", conf, "-l", ldif], check=True, stderr=subprocess.DEVNULL)
        self.spawn("slapd", "-d", "0", "-f", conf, "-h", f"ldap://127.0.0.1:{self.port}")

    def open(self):
        import ldap3

        server = ldap3.Server("127.0.0.1", self.port, get_info=ldap3.NONE)
        connection = ldap3.Connection(server, f"cn=boss,{BASE}", self.secret("pass"), auto_bind=ldap3.AUTO_BIND_NO_TLS)
        return connection

    def close(self, connection):
        connection.unbind()

    def end_port(self, connection):
        return connection.socket.getsockname()[1]

    def warm(self, connection):
        connection.search(BASE, "(uid=u1)")

    def greet(self, connection):
        self.opened("bind", f"cn=?,{SHOWN}")

    def use(self, connection):
        import ldap3

        name = f"uid=n{self.end_port(connection)},{BASE}"
        shown = f"uid=?,{SHOWN}"
        with self.call("search", SHOWN):
            assert connection.search(BASE, f"(uid={self.secret('filter')})", attributes=["cn"]) is False
        with self.call("search", SHOWN):
            connection.search(BASE, "(objectClass=inetOrgPerson)", attributes=["*"])
            assert len(connection.entries) >= 50
        with self.call("add", shown):
            assert connection.add(
                name, "inetOrgPerson", {"cn": self.secret("cn"), "sn": "x", "userPassword": self.secret("userpass")}
            )
        with self.call("compare", shown):
            connection.compare(name, "cn", self.secret("cn"))
        with self.call("modify", shown):
            assert connection.modify(name, {"sn": [(ldap3.MODIFY_REPLACE, [self.secret("sn")])]})
        with self.call("add", shown, "client-error"):
            assert not connection.add(name, "inetOrgPerson", {"cn": "x", "sn": "x"})
        with self.call("delete", shown):
            assert connection.delete(name)
        with self.call("delete", shown, "client-error"):
            assert not connection.delete(name)
        with self.call("bind", shown, "client-error"):
            assert not connection.rebind(f"uid=u1,{BASE}", self.secret("wrong"))
        with self.call("bind", f"cn=?,{SHOWN}"):
            assert connection.rebind(f"cn=boss,{BASE}", self.secret("pass"))
