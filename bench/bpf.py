"""Compiles BPF programs of the benchmarks and what loads them, with the libbpf that wirespan was built with."""

import pathlib
import subprocess
import sys


def libbpf(target):
    """libbpf.a below a target directory of cargo."""
    found = sorted(pathlib.Path(target).glob("*/build/libbpf-sys-*/out/libbpf.a"))
    if not found:
        sys.exit(f"no libbpf below {target}: build wirespan first")
    return found[0]


def program(library, folder, name, work, *flags):
    """FOLDER/NAME.bpf.c becomes WORK/NAME.o."""
    include = ["-I", folder, "-I", library.parent / "include"]
    source = f"{folder}/{name}.bpf.c"
    subprocess.run(
        ["clang", "-g", "-O2", "-target", "bpf", *flags, *include, "-c", source, "-o", f"{work}/{name}.o"], check=True
    )


def loader(library, folder, name, work):
    """FOLDER/NAME.c becomes WORK/NAME."""
    include = ["-I", folder, "-I", library.parent / "include"]
    subprocess.run(
        ["cc", "-O2", *include, f"{folder}/{name}.c", library, "-lelf", "-lz", "-o", f"{work}/{name}"], check=True
    )


def build(library, folder, name, work, *flags):
    """FOLDER/NAME.bpf.c and FOLDER/NAME.c become WORK/NAME.o and WORK/NAME."""
    program(library, folder, name, work, *flags)
    loader(library, folder, name, work)
