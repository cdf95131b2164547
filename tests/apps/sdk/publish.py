#!/usr/bin/env python3
"""Publishes a process context as OTEP 4719 says (layout 2): writes a dot once it is there, and waits.

usage: publish.py memfd|anonymous|changing|busy|version|long

`changing` changes it all the time, in the order that the OTEP prescribes; `busy` has begun to change it. `version` and
`long` are not valid. A service imports `Context`.
"""

import ctypes
import itertools
import mmap
import os
import struct
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
PR_SET_VMA, PR_SET_VMA_ANON_NAME, MADV_DONTFORK = 0x53564D41, 0, 10
SIZE, PAYLOAD = 4096, 64


def field(number, data):
    return bytes([number << 3 | 2, len(data)]) + data


def encode(attributes):
    def pair(key, value):
        return field(1, field(1, key.encode()) + field(2, field(1, value.encode())))

    return field(1, b"".join(pair(key, value) for key, value in attributes.items()))


class Context:
    def __init__(self, attributes, private=False, version=2, length=None):
        kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS if private else mmap.MAP_SHARED
        memory = -1 if private else os.memfd_create("OTEL_CTX")
        if not private:
            os.ftruncate(memory, SIZE)
        self.at = LIBC.mmap(None, SIZE, mmap.PROT_READ | mmap.PROT_WRITE, kind, memory, 0)
        if not private:
            os.close(memory)
        LIBC.madvise(ctypes.c_void_p(self.at), SIZE, MADV_DONTFORK)
        payload = encode(attributes)
        ctypes.memmove(self.at + PAYLOAD, payload, len(payload))
        rest = struct.pack("=IIQQ", version, length or len(payload), time.monotonic_ns(), self.at + PAYLOAD)
        ctypes.memmove(self.at + 8, rest, len(rest))
        ctypes.memmove(self.at, b"OTEL_CTX", 8)
        name = ctypes.c_char_p(b"OTEL_CTX")
        LIBC.prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, ctypes.c_void_p(self.at), ctypes.c_size_t(SIZE), name)

    def is_busy(self):
        ctypes.c_uint64.from_address(self.at + 16).value = 0

    def change(self, attributes):
        payload = encode(attributes)
        self.is_busy()
        ctypes.memmove(self.at + PAYLOAD, payload, len(payload))
        ctypes.c_uint32.from_address(self.at + 12).value = len(payload)
        ctypes.c_uint64.from_address(self.at + 16).value = time.monotonic_ns()


def main():
    how = sys.argv[1]
    attributes = {"service.name": "published-shop", "service.instance.id": "627cc493", "host.name": "ours"}
    wrong = {"version": {"version": 1}, "long": {"length": 1 << 20}}.get(how, {})
    context = Context(attributes, private=how == "anonymous", **wrong)
    if how == "busy":
        context.is_busy()
    if how == "changing":
        context.change({"service.name": "shop-a", "service.instance.id": "a"})
    os.write(1, b".")
    for n in itertools.count() if how == "changing" else ():
        instance = "abcdefgh"[: n % 8 + 1]
        context.change({"service.name": f"shop-{instance}", "service.instance.id": instance})
        time.sleep(0.0001)
    sys.stdin.read()


if __name__ == "__main__":
    main()
