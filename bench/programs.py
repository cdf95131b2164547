"""Cost of the BPF programs of a process, from the kernel's statistics, which `counted` switches on for a time."""

import contextlib
import ctypes
import functools
import glob
import platform
import struct

STATS = "/proc/sys/kernel/bpf_stats_enabled"
SYS_BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
PROG_GET_FD_BY_ID, OBJ_GET_INFO_BY_FD = 13, 15
INFO_BYTES, NAME = 128, slice(64, 80)  # struct bpf_prog_info


@contextlib.contextmanager
def counted():
    before = open(STATS).read()
    try:
        open(STATS, "w").write("1")
        yield
    finally:
        open(STATS, "w").write(before)


@functools.lru_cache(maxsize=None)
def name(number):
    """Name of the program with this id; its id if the kernel has no name for it."""
    libc = ctypes.CDLL(None, use_errno=True)
    asked = ctypes.create_string_buffer(struct.pack("III", number, 0, 0).ljust(INFO_BYTES, b"\0"))
    fd = libc.syscall(SYS_BPF, PROG_GET_FD_BY_ID, asked, INFO_BYTES)
    if fd < 0:
        return str(number)
    try:
        info = ctypes.create_string_buffer(INFO_BYTES)
        asked = ctypes.create_string_buffer(
            struct.pack("IIQ", fd, INFO_BYTES, ctypes.addressof(info)).ljust(INFO_BYTES, b"\0")
        )
        if libc.syscall(SYS_BPF, OBJ_GET_INFO_BY_FD, asked, INFO_BYTES) < 0:
            return str(number)
        return info.raw[NAME].split(b"\0")[0].decode() or str(number)
    finally:
        libc.close(fd)


def held(pid):
    """Programs and maps that this process holds: {id: (runs, ns)} and {id: bytes}."""
    programs, maps = {}, {}
    for path in glob.glob(f"/proc/{pid}/fdinfo/*"):
        try:
            lines = open(path).read().splitlines()
        except OSError:
            continue
        info = dict(line.split(":", 1) for line in lines if ":" in line)
        if "prog_id" in info and "run_time_ns" in info:
            programs[int(info["prog_id"])] = int(info["run_cnt"]), int(info["run_time_ns"])
        elif "map_id" in info and "memlock" in info:
            maps[int(info["map_id"])] = int(info["memlock"])
    return programs, maps


def spent(pid):
    """{name: [runs, ns]} of the programs that this process holds, for the time in which the kernel counted."""
    total = {}
    for number, (runs, ns) in held(pid)[0].items():
        t = total.setdefault(name(number), [0, 0])
        t[0] += runs
        t[1] += ns
    return total
