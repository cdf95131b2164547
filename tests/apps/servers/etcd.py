"""etcd, over gRPC: putting, getting, deleting, leases, a transaction's compare, errors."""

import time

from grpc_calls import Calls


def field(number, value):
    """A field of a protocol buffer: bytes or a small integer."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    length, head = len(value), bytes([number << 3 | 2])
    while length > 0x7F:
        head += bytes([length & 0x7F | 0x80])
        length >>= 7
    return head + bytes([length]) + value


class Etcd(Calls):
    port = 2379
    programs = ("etcd",)

    def start(self):
        self.spawn(
            "etcd",
            "--data-dir",
            self.work / "data",
            "--listen-client-urls",
            f"http://127.0.0.1:{self.port}",
            "--advertise-client-urls",
            f"http://127.0.0.1:{self.port}",
            "--listen-peer-urls",
            "http://127.0.0.1:2380",
            "--unsafe-no-fsync",
            "--log-level",
            "error",
            env={"ETCD_UNSUPPORTED_ARCH": "arm64"},
        )

    def warm(self, channel):
        channel.unary_unary("/etcdserverpb.KV/Range")(field(1, b"nothing"), timeout=20)

    def use(self, channel):
        key = f"{self.secret('key')}{time.time_ns()}".encode()
        self.unary(channel, "/etcdserverpb.KV/Put", field(1, key) + field(2, self.secret("value").encode()))
        assert self.secret("value").encode() in self.unary(channel, "/etcdserverpb.KV/Range", field(1, key))
        self.unary(channel, "/etcdserverpb.KV/Put", field(1, b"large") + field(2, self.secret("large").encode() * 4000))
        assert len(self.unary(channel, "/etcdserverpb.KV/Range", field(1, b"large"))) > 80_000
        self.unary(channel, "/etcdserverpb.KV/Put", field(1, key) + field(3, 77), "NOT_FOUND")  # no such lease
        self.unary(channel, "/etcdserverpb.KV/Put", field(2, key), "INVALID_ARGUMENT")  # no key
        self.unary(channel, "/etcdserverpb.Lease/LeaseGrant", field(1, 60))
        self.unary(channel, "/etcdserverpb.KV/DeleteRange", field(1, key))
        self.unary(channel, "/etcdserverpb.KV/Nothing", b"", "UNIMPLEMENTED")
