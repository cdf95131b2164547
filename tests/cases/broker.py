#!/usr/bin/env python3
"""A message broker whose backlog resets connections (a case of DeepFlow, SIGCOMM '23), with a real Redis as the broker.

Publishers connect, append an order to a stream, and wait for the answer. Three phases: healthy; stalled (a script of a
consumer keeps the broker busy for seconds, so connections pile up in its backlog, until a watchdog starts it again);
and mended (the script does its work in small parts). The publishers only know that their connections were reset.
`wirespan packet` says that the orders had arrived at the broker's host and nobody had read them, and who reset.
"""

import collections
import contextlib
import json
import subprocess
import sys
import tempfile
import time

import case

ADDRESS, PORT = "10.217.6.2", 7131
PUBLISH = """
import collections, json, socket, sys, threading
said = []
def publish():
    try:
        s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20)
        s.sendall(b'XADD orders * n 1\\r\\n')
        said.append('stored' if s.recv(100).startswith(b'$') else 'lost')
    except ConnectionError:
        said.append('reset')
    except OSError as error:
        said.append(str(error))
threads = [threading.Thread(target=publish) for _ in range(int(sys.argv[3]))]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(json.dumps(collections.Counter(said)))
"""
# Rounds of a script that takes seconds.
STALLED = 2_000_000_000
# A consumer's script: so many rounds, so many times.
CONSUME = """
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60)
script = b"local n = 0; for i = 1, tonumber(ARGV[1]) do n = n + i % 7 end return n"
rounds = sys.argv[3].encode()
words = [b'EVAL', script, b'0', rounds]
print('ready', flush=True)
for n in range(int(sys.argv[4])):
    s.sendall(b'*4\\r\\n' + b''.join(b'$%d\\r\\n%s\\r\\n' % (len(w), w) for w in words))
    if not s.recv(100):
        break
"""
PING = """
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=1)
s.sendall(b'PING\\r\\n')
sys.exit(s.recv(10)[:5] != b'+PONG')
"""


def pair():
    lines = ["-n {client} link add name eth0 type veth peer name eth0 netns {broker}"]
    for space, n in (("client", 1), ("broker", 2)):
        lines += [f"-n {{{space}}} addr add 10.217.6.{n}/24 dev eth0", f"-n {{{space}}} link set eth0 up"]
    return case.Spaces(("client", "broker"), lines)


class Broker:
    """Redis, and its watchdog."""

    def __init__(self, spaces, folder):
        self.spaces, self.restarts = spaces, 0
        options = f"--bind {ADDRESS} --port {PORT} --save --protected-mode no --dir {folder}".split()
        options[options.index("--save") + 1 : options.index("--save") + 1] = [""]
        self.args = spaces.inside("broker", "redis-server", *options)
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            if self.answers():
                return
            time.sleep(0.1)
        raise SystemExit("redis-server did not start")

    def answers(self):
        words = self.spaces.inside("broker", sys.executable, "-c", PING, ADDRESS, str(PORT))
        return subprocess.run(words, capture_output=True, timeout=20).returncode == 0

    def watch(self):
        if not self.answers():
            self.stop()
            self.restarts += 1
            self.start()

    def stop(self):
        self.process.kill()
        self.process.wait()


def measure(args, spaces, broker, rounds, times):
    """What the publishers got, whose connections the broker's host reset, and which orders it had not read by then."""
    publishers = min(args.messages, 100)
    restarts = broker.restarts
    program = f"filter: {{protocol: tcp, port: {PORT}}}\naction: [record, journeys]"
    with case.traced(args.wirespan, spaces, program) as lines, contextlib.ExitStack() as stack:
        if rounds == STALLED:
            page = f"filter: {{protocol: tcp, port: {PORT}}}\naction: [loss, latency]"
            stack.enter_context(case.pictured(args, spaces, "broker", page, "1280x460", "", "[aria-label=Loss]"))
        stack.enter_context(spaces.python("client", CONSUME, ADDRESS, PORT, rounds, times, ready=True))
        time.sleep(0.3)
        words = (ADDRESS, PORT, publishers)
        publish = stack.enter_context(spaces.python("client", PUBLISH, *words))
        time.sleep(1)
        broker.watch()
        said = publish.communicate(timeout=60)[0]
    reset = {
        x["route"]["destination_port"]
        for x in lines
        if x["kind"] == "packet" and x["flags"] & 4 and x["point"] == "queue" and x["route"]["source_port"] == PORT
    }
    points = collections.defaultdict(set)
    for x in lines:
        if x["kind"] == "journey" and x["route"]["destination_port"] == PORT:
            points[x["route"]["source_port"]] |= {step["point"] for step in x["steps"]}
    unread = [port for port in reset if "receive" in points[port] and "copied" not in points[port]]
    return {
        "publishers": publishers,
        "said": json.loads(said),
        "reset": len(reset),
        "unread": len(unread),
        "restarts": broker.restarts - restarts,
    }


def phases(args):
    with pair() as spaces, tempfile.TemporaryDirectory() as folder:
        broker = Broker(spaces, folder)
        try:
            yield "healthy", measure(args, spaces, broker, 1000, 1)
            yield "stalled", measure(args, spaces, broker, STALLED, 1)
            yield "mended", measure(args, spaces, broker, 1000, 3000)
        finally:
            broker.stop()


def line(seen):
    said = ", ".join(f"{count} {what}" for what, count in seen["said"].items())
    return (
        f"{seen['publishers']} publishers: {said}; {seen['reset']} connections reset by the broker's host, "
        f"{seen['unread']} with an order that had arrived and was not read; {seen['restarts']} restarts"
    )


def verdict(found):
    stalled, quiet = found["stalled"], [found["healthy"], found["mended"]]
    located = stalled["unread"] >= stalled["said"].get("reset", 0) > stalled["publishers"] / 2
    return located and all(x["reset"] == 0 and x["said"].get("stored") == x["publishers"] for x in quiet)


if __name__ == "__main__":
    sys.exit(case.main(__doc__, ["redis-server"], phases, line, verdict))
