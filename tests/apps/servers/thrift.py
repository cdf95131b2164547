"""Apache Thrift's own library for Python, server and client: both encodings, in frames and without, and behind headers;
every outcome.
"""

import itertools
import threading

from stage import Server

FRAMED, FRAMED_BINARY, PLAIN, PLAIN_COMPACT, HEADERS = PORTS = (9090, 9091, 9092, 9093, 9094)


def factories(port):
    from thrift.protocol import TBinaryProtocol, TCompactProtocol, THeaderProtocol
    from thrift.transport import TTransport

    if port == HEADERS:
        return TTransport.TTransportFactoryBase(), THeaderProtocol.THeaderProtocolFactory()
    transport = (
        TTransport.TFramedTransportFactory()
        if port in (FRAMED, FRAMED_BINARY)
        else TTransport.TBufferedTransportFactory()
    )
    compact = port in (FRAMED, PLAIN_COMPACT)
    return (
        transport,
        TCompactProtocol.TCompactProtocolFactory() if compact else TBinaryProtocol.TBinaryProtocolFactory(),
    )


class Processor:
    """What the compiler would make of a service `Cart`: reads a call, and answers it by its name."""

    def process(self, given, answer):
        from thrift.Thrift import TApplicationException, TMessageType, TType

        name, kind, seq = given.readMessageBegin()
        given.skip(TType.STRUCT)
        given.readMessageEnd()
        if kind == TMessageType.ONEWAY:
            return
        unknown = name.endswith("missing")
        answer.writeMessageBegin(name, TMessageType.EXCEPTION if unknown else TMessageType.REPLY, seq)
        if unknown:
            TApplicationException(TApplicationException.UNKNOWN_METHOD, f"Unknown function {name}").write(answer)
        else:
            answer.writeStructBegin("result")
            if name.endswith("refuse"):
                answer.writeFieldBegin("refused", TType.STRUCT, 2)
                answer.writeStructBegin("Refused")
                answer.writeFieldStop()
                answer.writeStructEnd()
            else:
                answer.writeFieldBegin("success", TType.I32, 0)
                answer.writeI32(7)
            answer.writeFieldEnd()
            answer.writeFieldStop()
            answer.writeStructEnd()
        answer.writeMessageEnd()
        answer.trans.flush()


class Thrift(Server):
    protocol = "thrift"
    port, *more_ports = PORTS
    modules = ("thrift.Thrift",)
    LATE = FRESH = PARALLEL = len(PORTS)
    ports = itertools.cycle(PORTS)

    def start(self):
        from thrift.server.TServer import TThreadedServer
        from thrift.transport.TSocket import TServerSocket

        for port in PORTS:
            server = TThreadedServer(Processor(), TServerSocket("127.0.0.1", port), *factories(port), daemon=True)
            threading.Thread(target=server.serve, daemon=True).start()

    def ready(self):
        for port in PORTS:
            self.wait_port(port)

    def open(self):
        from thrift.transport.TSocket import TSocket

        port = next(self.ports)
        socket = TSocket("127.0.0.1", port)
        transport, protocol = factories(port)
        client = protocol.getProtocol(transport.getTransport(socket))
        client.trans.open()
        client.socket, client.server_port, client.seq = socket, port, 0
        if port == HEADERS:
            client.trans.set_header(b"token", self.secret("header").encode())
        return client

    def end_port(self, client):
        return client.socket.handle.getsockname()[1]

    def close(self, client):
        client.trans.close()

    def ask(self, client, name, oneway=False):
        from thrift.Thrift import TMessageType, TType

        client.seq += 1
        client.writeMessageBegin(name, TMessageType.ONEWAY if oneway else TMessageType.CALL, client.seq)
        client.writeStructBegin("arguments")
        client.writeFieldBegin("name", TType.STRING, 1)
        client.writeString(self.secret("argument") * (1 + 300 * (client.seq % 2)))
        client.writeFieldEnd()
        client.writeFieldStop()
        client.writeStructEnd()
        client.writeMessageEnd()
        client.trans.flush()
        if not oneway:
            client.readMessageBegin()
            client.skip(TType.STRUCT)
            client.readMessageEnd()

    def warm(self, client):
        self.ask(client, "Cart:warm")

    def use(self, client):
        for operation, status in (
            ("add", "ok"),
            ("add", "ok"),
            ("refuse", "server-error"),
            ("missing", "client-error"),
            ("note", "one-way"),
            ("note", "one-way"),
            ("add", "ok"),
        ):
            attrs = {"rpc.system.name": "thrift", "rpc.method": f"Cart/{operation}"}
            if client.server_port == HEADERS:
                attrs["wirespan.thrift.transport"] = "theader"
            with self.call(operation, "Cart", status, port=client.server_port, attrs=attrs):
                self.ask(client, f"Cart:{operation}", oneway=operation == "note")
