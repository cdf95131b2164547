"""SOME/IP over UDP (pysomeip, a service without discovery): calls, long ones, one-way, every refusal that a service
knows.
"""

import asyncio
import socket
import threading

from stage import Server

SERVICE, ADD, NOTE, REFUSE, MISSING = 0x1234, 0x0001, 0x0002, 0x0003, 0x0004
VERSION = 1


def service():
    from someip.service import MalformedMessageError, SimpleService

    class Cart(SimpleService):
        service_id, version_major, version_minor = SERVICE, VERSION, 0

        def __init__(self):
            super().__init__(1)
            self.register_method(ADD, lambda message, sender: message.payload)
            self.register_method(NOTE, lambda message, sender: None)
            self.register_method(REFUSE, self.refuse)

        def refuse(self, message, sender):
            raise MalformedMessageError

    return Cart


class Someip(Server):
    protocol = "someip"
    port = 30509
    modules = ("someip.service",)

    def start(self):
        up = threading.Event()

        async def serve():
            await service().create_unicast_endpoint(local_addr=("127.0.0.1", self.port))
            up.set()
            await asyncio.Event().wait()

        threading.Thread(target=asyncio.run, args=(serve(),), daemon=True).start()
        assert up.wait(20), "the service did not start"

    def ready(self):
        pass

    def open(self):
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        client.connect(("127.0.0.1", self.port))
        client.settimeout(20)
        return client

    def end_port(self, client):
        return client.getsockname()[1]

    sessions = 0

    def ask(self, client, method, payload, service=SERVICE, version=VERSION, one_way=False):
        from someip.header import SOMEIPHeader, SOMEIPMessageType

        with self.lock:
            Someip.sessions += 1
            session = Someip.sessions
        kind = SOMEIPMessageType.REQUEST_NO_RETURN if one_way else SOMEIPMessageType.REQUEST
        client.send(SOMEIPHeader(service, method, 7, session, version, kind, payload=payload).build())
        if one_way:
            return 0
        answer, _ = SOMEIPHeader.parse(client.recv(65536))
        assert answer.session_id == session
        return answer.return_code

    def warm(self, client):
        self.ask(client, ADD, b"x")

    def use(self, client):
        value = self.secret("value").encode()
        for method, payload, more, status, code in (
            (ADD, value, {}, "ok", 0),
            (ADD, value * 1000, {}, "ok", 0),
            (NOTE, value, {"one_way": True}, "one-way", 0),
            (REFUSE, value, {}, "client-error", 9),
            (MISSING, value, {}, "client-error", 3),
            (ADD, value, {"version": 2}, "client-error", 8),
            (ADD, value, {"service": 0x4321}, "client-error", 2),
            (ADD, value, {}, "ok", 0),
        ):
            target = f"0x{more.get('service', SERVICE):04x}"
            attrs = {"rpc.system.name": "someip", "rpc.method": f"{target}/0x{method:04x}", "network.transport": "udp"}
            with self.call(f"0x{method:04x}", target, status, attrs=attrs):
                assert self.ask(client, method, payload, **more) == code
