"""A server of wirespan for an attack: it is started in a directory of its own, and asked over HTTP."""

import json
import pathlib
import socket
import subprocess
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Old spans would be dropped by age.
START = time.time_ns()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def binary():
    found = [ROOT / "target" / profile / "wirespan" for profile in ("release", "debug")]
    return next(str(path) for path in found if path.exists())


class Server:
    def __init__(self, directory, before="true", store=None, arguments=()):
        self.ui, self.otlp, self.agents = free_port(), free_port(), free_port()
        directory = pathlib.Path(directory)
        store = store or directory / "store"
        config = directory / "wirespan.toml"
        config.write_text(f'[serve]\notlp_grpc = ""\notlp_http = "127.0.0.1:{self.otlp}"\n')
        command = [binary(), "server", "--config", str(config), "--store", str(store), *arguments]
        command += ["--ui", f"127.0.0.1:{self.ui}", "--listen", f"127.0.0.1:{self.agents}"]
        self.process = subprocess.Popen(["sh", "-c", f'{before}; exec "$0" "$@"', *command])
        for _ in range(100):
            try:
                self.status()
                return
            except OSError:
                time.sleep(0.1)
        raise SystemExit("the server does not start")

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ui}{path}", timeout=30) as answer:
            return json.loads(answer.read())

    def status(self):
        return self.get("/api/v1/status")

    def report(self, first, count):
        """Reports spans with these numbers; returns the status of the answer."""
        spans = [
            {
                "traceId": f"{n:032x}",
                "spanId": f"{n:016x}",
                "name": f"operation {n % 50}",
                "startTimeUnixNano": str(START + n),
                "endTimeUnixNano": str(START + n + 1000),
                "attributes": [{"key": "n", "value": {"stringValue": f"{n * 2654435761 % 2**64:064d}"}}],
            }
            for n in range(first, first + count)
        ]
        body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.otlp}/v1/traces", body, {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def end(self):
        self.process.terminate()
        self.process.wait(30)


def verdict(held, why):
    print(f"{'held' if held else 'BROKEN'}: {why}")
    raise SystemExit(0 if held else 1)
