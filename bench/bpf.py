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


def build(library, folder, name, work, *flags):
    """FOLDER/NAME.bpf.c and FOLDER/NAME.c become WORK/NAME.o and WORK/NAME."""
    include = ["-I", folder, "-I", library.parent / "include"]
    source, made = f"{folder}/{name}", f"{work}/{name}"
    subprocess.run(["clang", "-g", "-O2", "-target", "bpf", *flags, *include, "-c", f"{source}.bpf.c", "-o", f"{made}.o"], check=True)
    subprocess.run(["cc", "-O2", *include, f"{source}.c", library, "-lelf", "-lz", "-o", made], check=True)
