"""In the guest: traces a load of TLS that never pauses, and compares the spans with the requests that were sent."""

import collections
import contextlib
import glob
import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.request

UI = "127.0.0.1:9473"
SIGN = "/tmp/begin"
STEADY_S, LONGEST_S = 30, 300  # the probes are placed once their number stays; a host that is busy takes long
COUNTERS = ["records", "plaintext_records", "checked_records", "unchecked_records", "corrupt_records"]
COUNTERS += ["verified_records", "bad_checksums", "peeks", "would_block", "unreadable_payloads", "ignored_calls"]
KINDS = {2: "server", 3: "client"}


def counters():
    """The counters of capture that are named here, and every counter of a loss that is not zero."""
    status = json.load(urllib.request.urlopen(f"http://{UI}/api/v1/status", timeout=60))
    of = [(stage["name"], c) for stage in status["agent"]["stages"] for c in stage["counters"]]
    wanted = lambda c: c["name"] in COUNTERS or (c["loss"] and int(c["value"]))
    return {f"{stage}.{c['name']}": int(c["value"]) for stage, c in of if wanted(c)}


def descriptors(pid):
    """What the kernel says of each open file of a process. One may be closed meanwhile."""
    infos = []
    for path in glob.glob(f"/proc/{pid}/fdinfo/*"):
        with contextlib.suppress(FileNotFoundError), open(path) as info:
            infos.append(info.read())
    return infos


def missed(pid):
    """Runs of programs that the kernel left out, because a task on the same processor was within the program."""
    infos = descriptors(pid)
    return sum(int(n) for info in infos for n in re.findall(r"^recursion_misses:\s*(\d+)", info, re.M))


def links(pid):
    """Probes that wirespan has placed, as links of BPF."""
    infos = descriptors(pid)
    return sum("link_type:" in info for info in infos)


def begin(pid):
    """Lets the load begin once the probes in its TLS library are placed: bytes before that would be ciphertext."""
    begun = since = time.monotonic()
    last = 0
    while time.monotonic() - since < STEADY_S and time.monotonic() - begun < LONGEST_S:
        time.sleep(1)
        try:
            counters()
            now = links(pid)
        except OSError:
            now = 0
        if now != last or not now:
            last, since = now, time.monotonic()
    print(f"{time.monotonic():.0f} s: {last} links; the load begins", flush=True)
    open(SIGN, "w").close()


def preemption():
    """How the kernel preempts itself: of `none voluntary (full)`, the word in brackets."""
    return re.search(r"\((\w+)\)", open("/sys/kernel/debug/sched/preempt").read())[1]


def settled():
    """The counters once they no longer move: all that was recorded has been read."""
    last = None
    for _ in range(60):
        time.sleep(5)
        now = counters()
        if now == last:
            break
        last = now
    return now


def watch(done):
    """A line in the guest's log twice a minute."""
    while not done.wait(30):
        try:
            print(f"{time.monotonic():.0f} s: {counters()}", flush=True)
        except OSError as e:
            print(f"{time.monotonic():.0f} s: {e}", flush=True)


def seen(path):
    """How often each request was seen, by path and kind of span; and spans whose size of the body is another's."""
    times, wrong = collections.Counter(), []
    for line in open(path):
        for group in json.loads(line)["resourceSpans"]:
            for scope in group["scopeSpans"]:
                for span in scope["spans"]:
                    attributes = {a["key"]: next(iter(a["value"].values()), None) for a in span["attributes"]}
                    place = attributes.get("url.path") or attributes.get("url.full") or span["name"]
                    if place == "handshake":
                        continue  # a slow handshake has a span of its own
                    place = place[place.find("/tls/") :] if "/tls/" in place else place
                    times[place, KINDS.get(span["kind"], span["kind"])] += 1
                    told = attributes.get("http.request.body.size")
                    if told is not None and not place.endswith(f"/{told}"):
                        wrong.append(f"{place}: a body of {told}")
    return times, wrong


def compare(truth, spans):
    """Faults: what was sent and not seen, seen and not sent, or seen twice."""
    times, wrong = seen(spans)
    sizes = truth["sizes"]
    sent = {f"/tls/{t}/{n}/{sizes[n % len(sizes)]}" for t, count in enumerate(truth["asked"]) for n in range(count)}
    expected = {(path, kind) for path in sent for kind in KINDS.values()}
    missing = sorted(expected - times.keys())
    foreign = sorted(times.keys() - expected, key=str)
    twice = sorted((key for key, n in times.items() if n > 1), key=str)
    return {
        "requests": len(sent),
        "spans": [len(expected & times.keys()), len(expected)],
        "missing": [len(missing), missing[:8]],
        "foreign": [len(foreign), foreign[:8]],
        "twice": [len(twice), twice[:8]],
        "other size": [len(wrong), wrong[:8]],
    }


def trace(connections, seconds):
    """Runs the load under wirespan; returns what was counted, and how the spans compare with the requests."""
    command = ["wirespan", "run", "--ui", UI, "--keep", "--print=0", "--otlp-file", "/tmp/spans", "--"]
    command += ["/tls_load", str(connections), str(seconds), SIGN]
    errors = open("/tmp/stderr", "w+")
    running = subprocess.Popen(command, env=os.environ, stdout=subprocess.PIPE, stderr=errors, text=True)
    done = threading.Event()
    threading.Thread(target=watch, args=[done], daemon=True).start()
    begin(running.pid)
    said = running.stdout.readline()
    done.set()
    counted = settled() if said else {}
    left_out = missed(running.pid)
    running.send_signal(signal.SIGINT)
    code = running.wait()
    errors.seek(0)
    print(errors.read()[-20_000:], flush=True)
    result = {"exit code": code, "counters": counted, "preempt": preemption(), "missed": left_out}
    if said:
        result |= compare(json.loads(said), "/tmp/spans")
    return result
