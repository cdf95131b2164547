"""Services with known waits, and what surrounds them: competitors, limits of processor and disk, slow names."""

import atexit
import contextlib
import ctypes
import http.client
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).parent
CGROUPS = pathlib.Path("/sys/fs/cgroup")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Service:
    """A service that says what it measured. It takes a port and further arguments, and says one JSON line a request."""

    def __init__(self, command, *further):
        self.port = free_port()
        command = [*command, str(self.port), *map(str, further)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        atexit.register(self.process.kill)  # who waits for what this process prints waits for its children, too
        self.said = []
        threading.Thread(target=lambda: self.said.extend(self.process.stdout), daemon=True).start()
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.05)
        raise SystemExit(f"{command} does not listen")

    @classmethod
    def of_python(cls, kind, *further):
        return cls([sys.executable, str(HERE / "service.py"), kind], *further)

    def ask(self, path):
        client = http.client.HTTPConnection("127.0.0.1", self.port)
        client.request("GET", path)
        client.getresponse().read()
        client.close()

    def end(self):
        time.sleep(0.2)
        self.process.kill()
        self.process.wait()
        return [json.loads(line) for line in self.said]


@contextlib.contextmanager
def competitors():
    """Two processes that never sleep, on the first processor that is allowed; gives that processor."""
    cpu = min(os.sched_getaffinity(0))
    spin = f"import os\nos.sched_setaffinity(0, {{{cpu}}})\nprint(flush=True)\nwhile 1: pass"
    command = ["timeout", "20", sys.executable, "-c", spin]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    for process in both:
        process.stdout.readline()  # it is there, and competes from now on
    try:
        yield cpu
    finally:
        for process in both:
            process.terminate()
            process.wait()


@contextlib.contextmanager
def limited(pid):
    """Lets a process have a fifth of a processor: by a group of its own in one that has the limit."""
    name = f"wirespan-waits-{os.getpid()}"
    v1, v2 = CGROUPS / "cpu" / name, CGROUPS / name
    group = v1 if v1.parent.is_dir() else v2
    inner = group / "inner"
    truth = {"case": "limit-total", "path": ""}
    try:
        group.mkdir()
        if group == v2:
            (group / "cpu.max").write_text("20000 100000")
            (group / "cgroup.subtree_control").write_text("+cpu")
        else:
            (group / "cpu.cfs_period_us").write_text("100000")
            (group / "cpu.cfs_quota_us").write_text("20000")
        inner.mkdir()
        (inner / "cgroup.procs").write_text(str(pid))
        yield truth
        stat = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
        unit = 1e9 if "throttled_time" in stat else 1e6
        truth["throttled"] = int(stat.get("throttled_time") or stat.get("throttled_usec")) / unit
        leave(group, pid)
    except OSError as error:
        print(f"waits: no CPU limit: {error}", file=sys.stderr)
        yield None
    finally:
        remove(inner, group)


def leave(group, pid):
    """Takes a process that goes on out of its group."""
    with contextlib.suppress(OSError):
        (group.parent / "cgroup.procs").write_text(str(pid))


def remove(*groups):
    """Removes groups when their processes have ended."""
    for _ in range(50):
        with contextlib.suppress(OSError):
            for old in groups:
                if old.is_dir():
                    old.rmdir()
            return
        time.sleep(0.1)


def disk_of(directory):
    """MAJOR:MINOR of the whole disk on which a directory is."""
    device = os.stat(directory).st_dev
    at = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve(strict=True)
    return ((at.parent if (at / "partition").exists() else at) / "dev").read_text().strip()


@contextlib.contextmanager
def slow_disk(pid, directory, bytes_a_second):
    """Lets a process write only so much to the disk of a directory. Gives None if that cannot be here."""
    name = f"wirespan-waits-disk-{os.getpid()}"
    v1 = CGROUPS / "blkio"
    group = (v1 if v1.is_dir() else CGROUPS) / name
    try:
        disk = disk_of(directory)
        group.mkdir()
        if v1.is_dir():
            (group / "blkio.throttle.write_bps_device").write_text(f"{disk} {bytes_a_second}")
        else:
            (group / "io.max").write_text(f"{disk} wbps={bytes_a_second}")
        (group / "cgroup.procs").write_text(str(pid))
        yield {}
        leave(group, pid)
    except OSError as error:
        print(f"waits: no slow disk: {error}", file=sys.stderr)
        yield None
    finally:
        remove(group)


@contextlib.contextmanager
def crowded(pid):
    """Lets all threads of a process run on one processor only, on which two others compete."""
    with competitors() as cpu:
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                os.sched_setaffinity(int(task), {cpu})
        yield {}


def together(service, *paths):
    """Asks for one request, and each 20 ms later for another."""
    threads = [threading.Thread(target=service.ask, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
        time.sleep(0.02)
    for thread in threads:
        thread.join()


# One of these is free: several tests run side by side.
NAMES_AT = [f"127.0.153.{n}" for n in range(1, 50)]


def bound(server):
    """Binds a name server to an address that is free, and gives that."""
    for at in NAMES_AT:
        try:
            server.bind((at, 53))
            return at
        except OSError as error:
            refused = error
    raise refused


def names():
    """Lets this process and its children ask a name server of ours: wMS.test is answered after MS ms. False if not."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        at = bound(server)
        with tempfile.NamedTemporaryFile("w", delete=False) as settings:
            settings.write(f"nameserver {at}\noptions attempts:1\n")
        # A mount namespace of this process: others keep their settings. MS_REC | MS_PRIVATE, MS_BIND
        calls = [("unshare", 0x20000), ("mount", None, b"/", None, 0x44000, None)]
        calls.append(("mount", settings.name.encode(), b"/etc/resolv.conf", None, 0x1000, None))
        for name, *arguments in calls:
            if getattr(libc, name)(*arguments):
                raise OSError(ctypes.get_errno(), f"{name} failed")
        os.unlink(settings.name)
    except OSError as error:
        print(f"waits: no names of our own: {error}", file=sys.stderr)
        return False
    threading.Thread(target=answer_names, args=(server,), daemon=True).start()
    return True


def answer_names(server):
    while True:
        question, asker = server.recvfrom(512)
        name = question[13 : 13 + question[12]]
        # Behind the name: its type and class. An address of the loopback device for A, nothing for AAAA.
        end = question.index(0, 12) + 5
        is_v4 = question[end - 3] == 1
        head = question[:2] + b"\x81\x80\0\x01" + bytes([0, is_v4]) + bytes(4)
        address = b"\xc0\x0c\0\x01\0\x01\0\0\0\0\0\x04\x7f\0\0\x01" if is_v4 else b""
        answer = (head + question[12:end] + address, asker)
        seconds = int(name[1:] or 0) / 1e3 if name[1:].isdigit() else 0
        threading.Timer(seconds, server.sendto, answer).start()
