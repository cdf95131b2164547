"""The memory disk that a guest starts from: wirespan, Python, modules of its kernel, and our own programs; nothing
else.
"""

import lzma
import os
import pathlib
import re
import stat
import subprocess

PYTHON = "/usr/bin/python3"
# Of Python's library: what no guest needs, and much of its size.
UNUSED = {
    "test",
    "idlelib",
    "lib2to3",
    "ensurepip",
    "tkinter",
    "turtledemo",
    "pydoc_data",
    "distutils",
    "config-3.11-x86_64-linux-gnu",
}


class Disk:
    """An archive as the kernel unpacks it (cpio, newc)."""

    def __init__(self, path):
        self.file = open(path, "wb")
        self.made = set()

    def entry(self, name, mode, data=b"", mtime=0, device=(0, 0)):
        if name in self.made:
            return
        self.made.add(name)
        parent = os.path.dirname(name)
        if parent:
            self.entry(parent, stat.S_IFDIR | 0o755)
        fields = [len(self.made), mode, 0, 0, 1, int(mtime), len(data), 0, 0, *device, len(name) + 1, 0]
        head = b"070701" + b"".join(b"%08X" % f for f in fields) + name.encode() + b"\0"
        pad = lambda part: part + b"\0" * (-len(part) % 4)
        self.file.write(pad(head) + pad(data))

    def copy(self, source, name=None, mode=0o755):
        source = pathlib.Path(source)
        self.entry((name or str(source)).lstrip("/"), stat.S_IFREG | mode, source.read_bytes(), source.stat().st_mtime)

    def program(self, source, name=None):
        """With the libraries that it is linked to."""
        self.copy(source, name)
        listed = subprocess.run(["ldd", source], stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL).stdout
        for library in re.findall(r"(/\S+) \(0x", listed):
            self.copy(library)

    def close(self):
        self.made.discard("TRAILER!!!")
        self.entry("TRAILER!!!", 0)
        self.file.close()


def python(disk):
    disk.program(PYTHON)
    ask = "import sysconfig; print(sysconfig.get_path('stdlib'))"
    library = pathlib.Path(
        subprocess.run([PYTHON, "-c", ask], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    )
    for folder, folders, files in os.walk(library):
        folders[:] = [f for f in folders if f not in UNUSED and not f.startswith("config-")]
        for file in files:
            path = os.path.join(folder, file)
            if path.endswith(".so"):
                disk.program(path)
            else:
                disk.copy(path, mode=0o644)


def module_files(folder, wanted):
    """Paths of modules and of what they depend on, in the order of loading."""
    paths = {re.sub(r"\.ko.*", "", p.name).replace("-", "_"): p for p in folder.rglob("*.ko*")}
    order = []

    def add(name):
        path = paths.get(name)
        if not path or path in order:
            return
        found = re.search(rb"\0depends=([^\0]*)\0", b"\0" + plain(path))
        for needed in found[1].decode().split(",") if found else []:
            add(needed.replace("-", "_"))
        order.append(path)

    for name in wanted:
        add(name)
    return order


def plain(path):
    return lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()


def tls_load(disk, here, work):
    """The load of TLS, compiled here, with a key and a certificate of its own."""
    program, key, certificate = work / "tls_load", work / "key.pem", work / "cert.pem"
    compile = ["cc", "-O2", "-pthread", here / "tls_load.c", "-o", program, "-lssl", "-lcrypto"]
    certify = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    certify += ["-days", "3650", "-subj", "/CN=localhost", "-keyout", key, "-out", certificate]
    for command in [compile, certify]:
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL if command is certify else None)
    disk.program(program, "/tls_load")
    disk.copy(key, "/key.pem", 0o600)
    disk.copy(certificate, "/cert.pem", 0o644)


def build(path, wirespan, here, modules, wanted, with_tls):
    """`with_tls`: also the load of TLS; it is compiled beside `path`."""
    disk = Disk(path)
    disk.entry("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    for folder in ["proc", "sys", "tmp", "run", "root", "etc"]:
        disk.entry(folder, stat.S_IFDIR | 0o755)
    disk.program(wirespan, "/usr/bin/wirespan")
    python(disk)
    disk.copy(here / "guest.py", "/init")
    disk.copy(here / "chain.py", "/chain.py")
    disk.copy(here / "stress.py", "/stress.py")
    if with_tls:
        tls_load(disk, here, path.parent)
    for at, module in enumerate(module_files(modules, wanted)):
        name = re.sub(r"\.ko.*", ".ko", module.name)
        disk.entry(f"modules/{at:02}-{name}", stat.S_IFREG | 0o644, plain(module))
    disk.close()
