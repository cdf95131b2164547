#!/usr/bin/env python3
"""Requests that are not HTTP/1, over a link on which each packet is recorded: the TCP options in those packets are
the ground truth.

option.py NEAR FAR PACKETS N     in the network namespaces NEAR and FAR: a client asks a service, the service asks Redis
"""

import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import sys
import time

FRONT, REDIS = ("10.214.1.2", 7001), ("10.214.1.1", 7002)
LARGE = 100_000


def enter(name):
    """This process lives in that network namespace from here on."""
    fd = os.open(f"/run/netns/{name}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(fd, 0x40000000):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(fd)


def child(namespace, work, *arguments):
    pid = os.fork()
    if not pid:
        try:
            enter(namespace)
            work(*arguments)
        finally:
            os._exit(0)
    return pid


def one_packet_each(interface="eth0"):
    """Packets as they would be on a wire: the link's ends cut and join nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for feature in (0x1F, 0x24, 0x2C):  # ETHTOOL_STSO, _SGSO, _SGRO
            value = ctypes.create_string_buffer(struct.pack("II", feature, 0))
            fcntl.ioctl(s, 0x8946, struct.pack("16sP", interface.encode(), ctypes.addressof(value)))


def look(path, ready):
    """Writes the headers of each TCP packet that arrives to a file."""
    one_packet_each()
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    os.write(ready, b"1")
    with open(path, "w", buffering=1) as out:
        while True:
            frame, where = s.recvfrom(65536)
            outgoing = where[2] == 4
            if outgoing or frame[12:14] != b"\x08\x00" or frame[23] != 6:
                continue
            ip, total = frame[14:], struct.unpack("!H", frame[16:18])[0]
            tcp = ip[(ip[0] & 15) * 4 : total]
            head = (tcp[12] >> 4) * 4
            options, found = tcp[20:head], []
            while options and options[0]:
                length = 1 if options[0] == 1 else options[1]
                if options[0] == 253:
                    found.append(options[:length].hex())
                options = options[length:]
            source, to, seq = struct.unpack("!HHI", tcp[:8])
            said = {"from": source, "to": to, "seq": seq, "length": total, "payload": len(tcp) - head}
            out.write(json.dumps({**said, "begins": tcp[head : head + 1].decode("latin1"), "options": found}) + "\n")


def command(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


class Lines:
    """Redis's protocol, at either end."""

    def __init__(self, s):
        self.s, self.f = s, s.makefile("rb")

    def ask(self, *words):
        self.s.sendall(command(*words))
        return self.value()

    def value(self):
        line = self.f.readline()
        if line[:1] != b"$":
            return line.strip()
        value = self.f.read(int(line[1:]) + 2)
        return value[:-2]

    def request(self):
        line = self.f.readline()
        return [self.value() for _ in range(int(line[1:]))] if line else None


def front():
    """Answers with the reply of Redis, over a connection that stays open."""
    listener = socket.create_server(FRONT)
    behind = Lines(socket.create_connection(REDIS))
    while True:
        caller = Lines(listener.accept()[0])
        while words := caller.request():
            value = behind.ask(*words)
            caller.s.sendall(b"$%d\r\n%s\r\n" % (len(value), value))


def patiently(address):
    for _ in range(200):
        try:
            return socket.create_connection(address)
        except OSError:
            time.sleep(0.02)
    raise SystemExit(f"nobody listens at {address}")


def main(near, far, packets, n):
    children = []
    try:
        ends = [os.pipe() for _ in range(2)]
        children += [child(where, look, f"{packets}.{i}", ends[i][1]) for i, where in enumerate((near, far))]
        for end in ends:
            os.read(end[0], 1)
        redis = ["redis-server", "--bind", REDIS[0], "--port", str(REDIS[1]), "--save", "", "--protected-mode", "no"]
        children.append(child(near, lambda: os.execvp(redis[0], redis)))
        probe = child(near, lambda: patiently(REDIS).close())
        os.waitpid(probe, 0)
        children.append(child(far, front))
        enter(near)
        client = Lines(patiently(FRONT))
        value = os.urandom(LARGE // 2).hex().encode()
        assert client.ask(b"SET", b"large", value) == b"+OK"
        assert client.ask(b"GET", b"large") == value
        for i in range(int(n)):
            assert client.ask(b"SET", b"k%d" % i, b"%d" % i) == b"+OK"
        time.sleep(0.3)
    finally:
        for pid in reversed(children):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
