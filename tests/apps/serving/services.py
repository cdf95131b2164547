"""Services of one run: in a network of their own, ended with the program that started them, their output kept."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import time

CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


def own_network():
    if LIBC.unshare(CLONE_NEWNET):
        raise SystemExit(f"no network namespace: {os.strerror(ctypes.get_errno())} (run as root)")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def end_with_parent():
    """For a child that has not executed its program yet."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def end(children):
    """Ends these processes, each the first of its group, and what they have left in it (PHP's own server does)."""
    for child in reversed(children):
        if child.poll() is None:
            child.terminate()
    for child in children:
        deadline = time.monotonic() + 10
        while child.returncode is None and not os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if time.monotonic() > deadline:
                child.kill()
            time.sleep(0.02)
        if child.returncode is None:  # its number is not free yet
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def certificate(key, crt):
    """A certificate for the loopback, which is its own authority."""
    new = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=127.0.0.1"
    names = ("-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", key, "-out", crt)
    subprocess.run([*new.split(), *names], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Services:
    """Processes by name, with their logs in `work/logs` and the ground truth in `work/truth`."""

    ready_seconds = 90

    def __init__(self, work, *folders):
        self.work, self.children = work, []
        for folder in ("truth", "logs", *folders):
            (work / folder).mkdir(parents=True)

    def spawn(self, name, command, out=None, user=None, **env):
        """`load` writes to a pipe, the others to their log, their standard output to `out` if there is one."""
        with open(self.work / "logs" / f"{name}.log", "ab") as log, open(out or os.devnull, "wb") as file:
            child = subprocess.Popen(
                [str(w) for w in command],
                cwd="/" if user else self.work,
                user=user,
                stdin=subprocess.DEVNULL,
                stdout=file if out else subprocess.PIPE if name == "load" else log,
                stderr=log,
                env={**os.environ, "GROUND_TRUTH_DIR": str(self.work / "truth"), "PYTHONDONTWRITEBYTECODE": "1", **env},
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        self.children.append((name, child))
        return child

    def wait_port(self, name, port):
        deadline = time.monotonic() + self.ready_seconds
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            self.check_alive()
            if time.monotonic() > deadline:
                raise SystemExit(f"{name} does not answer on port {port}:\n{self.logs()}")
            time.sleep(0.02)

    def check_alive(self):
        for name, child in self.children:
            if child.poll() is not None:
                raise SystemExit(f"{name} ended with code {child.returncode}:\n{self.logs()}")

    def logs(self):
        files = sorted((self.work / "logs").iterdir())
        return "\n".join(f"--- {file.name}\n{file.read_text(errors='replace')[-1500:]}" for file in files)

    def end(self):
        end([child for _, child in self.children])
