#!/usr/bin/env python3
"""Compares wirespan's Jaeger API with Jaeger's own: both get the same spans, and are asked the same questions.

usage: tests/peers/jaeger.py [--show]

The spans go to both by OTLP over HTTP. Asked is what Jaeger's UI and Grafana's data source ask, of versions 1 and 3.
A difference that is meant stands in MEANT, with its reason; any other one is printed, and the exit code is 1. Jaeger is
built by `tests/apps/fetch/fetch.py jaeger` (Go; some minutes). Without it or without a built wirespan, the exit code
is 77. `--show` prints both answers where they differ.
"""

import argparse
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
WIRESPAN = os.environ.get("WIRESPAN", str(ROOT / "target/debug/wirespan"))
JAEGER = ROOT / "target/servers/jaeger"
SKIPPED = 77
SERVICES = ("shop", "stock", "mail")
TRACES = 12

# Differences that are meant: what is left out of the answers of either side before they are compared, and why.
MEANT = {
    "wirespan.": "attributes of wirespan's own",
    "otel.scope.": "wirespan keeps no scope of a span",
    "w3c.tracestate": "wirespan keeps no tracestate",
    "telemetry.": "resource attributes about the SDK tell nothing of the service",
}
# Questions that Jaeger 2.13 answers in another way, which is meant: part of the question, who alone has all spans that
# the other has not, and why.
MEANT_QUESTIONS = {
    "tags=%7B%22error%22": (
        "wirespan",
        "Jaeger keeps errors as the status of a span: its search for the tag finds none",
    ),
    "query.attributes=": ("Jaeger", "Jaeger reads no attributes in a search of version 3, and answers with all traces"),
}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ask(base, path, **parameters):
    """Status and JSON of an answer."""
    url = f"{base}{path}" + ("?" + urllib.parse.urlencode(parameters) if parameters else "")
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        body = error.read()
        try:
            return error.code, json.loads(body)
        except ValueError:
            return error.code, body.decode(errors="replace")


def attribute(key, value):
    kind = {bool: "boolValue", int: "intValue", float: "doubleValue", str: "stringValue"}[type(value)]
    return {"key": key, "value": {kind: str(value) if kind == "intValue" else value}}


def request(now_ns):
    """OTLP: traces over three services, with errors, events, links and values of each type."""
    groups = {name: [] for name in SERVICES}
    for n in range(TRACES):
        trace, at = f"{0xABC000 + n:032x}", now_ns - (TRACES - n) * 1_000_000_000
        ids = [f"{(n + 1) * 16 + k:016x}" for k in range(4)]
        spans = [
            ("shop", ids[0], "", f"GET /order/{n % 2}", 2, at, 90_000_000),
            ("shop", ids[1], ids[0], "GET /stock", 3, at + 5_000_000, 40_000_000),
            ("stock", ids[2], ids[1], "GET /stock", 2, at + 6_000_000, 38_000_000),
            ("mail", ids[3], ids[0], "send", 5, at + 50_000_000, 20_000_000 + n * 1_000_000),
        ]
        for service, span, parent, name, kind, start, length in spans:
            failed = n % 4 == 3 and service != "mail"
            made = {
                "traceId": trace,
                "spanId": span,
                "name": name,
                "kind": kind,
                "startTimeUnixNano": str(start),
                "endTimeUnixNano": str(start + length),
                "attributes": [
                    attribute("http.request.method", "GET"),
                    attribute("http.response.status_code", 500 if failed else 200),
                    attribute("app.share", 0.5),
                    attribute("app.again", n % 2 == 0),
                ],
                "status": {"code": 2, "message": "no stock"} if failed else {},
            }
            if parent:
                made["parentSpanId"] = parent
            if service == "stock":
                event = {"timeUnixNano": str(start + 1_000_000), "name": "looked", "attributes": [attribute("row", n)]}
                made["events"] = [event]
            if service == "mail" and n:
                made["links"] = [{"traceId": f"{0xABC000 + n - 1:032x}", "spanId": f"{n * 16:016x}"}]
            groups[service].append(made)
    return {
        "resourceSpans": [
            {"resource": {"attributes": [attribute("service.name", name)]}, "scopeSpans": [{"spans": spans}]}
            for name, spans in groups.items()
        ]
    }


def send(base, spans):
    body = json.dumps(spans).encode()
    asked = urllib.request.Request(f"{base}/v1/traces", body, {"Content-Type": "application/json"})
    urllib.request.urlopen(asked, timeout=10).read()


def is_meant(key):
    return any(key.startswith(prefix) for prefix in MEANT)


def v1_trace(trace):
    """A trace of version 1, by span."""
    said = {}
    for span in trace["spans"]:
        process = trace["processes"][span["processID"]]
        said[span["spanID"].zfill(16)] = {
            "trace": span["traceID"].zfill(32),
            "name": span["operationName"],
            "service": process["serviceName"],
            "process": sorted(
                (t["key"], t["type"], str(t["value"])) for t in process["tags"] if not is_meant(t["key"])
            ),
            "references": sorted((r["refType"], r["spanID"].zfill(16)) for r in span["references"] or []),
            "time": (span["startTime"], span["duration"]),
            "tags": sorted((t["key"], t["type"], str(t["value"])) for t in span["tags"] if not is_meant(t["key"])),
            "logs": [
                (log["timestamp"], sorted((f["key"], str(f["value"])) for f in log["fields"]))
                for log in span["logs"] or []
            ],
        }
    return said


def v1_traces(answer):
    return {span: what for trace in answer["data"] or [] for span, what in v1_trace(trace).items()}


def v3_traces(answer):
    """OTLP, by span."""

    def values(attributes):
        return sorted(
            (a["key"], json.dumps(a["value"], sort_keys=True)) for a in attributes or [] if not is_meant(a["key"])
        )

    said = {}
    for group in answer["result"].get("resourceSpans", []):
        resource = values(group.get("resource", {}).get("attributes"))
        for span in (span for scope in group["scopeSpans"] for span in scope["spans"]):
            said[span["spanId"]] = {
                "trace": span["traceId"],
                "name": span["name"],
                "kind": span.get("kind"),
                "parent": span.get("parentSpanId", ""),
                "resource": resource,
                "time": (span["startTimeUnixNano"], span["endTimeUnixNano"]),
                "attributes": values(span.get("attributes")),
                "status": span.get("status") or {},
                "events": [
                    (e["timeUnixNano"], e["name"], values(e.get("attributes"))) for e in span.get("events") or []
                ],
                "links": [(link["traceId"], link["spanId"]) for link in span.get("links") or []],
            }
    return said


def questions(begin_ns, end_ns):
    """What is asked, and what of the answer counts."""
    us = {"start": begin_ns // 1000, "end": end_ns // 1000}

    def rfc(ns):
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ns // 1_000_000_000)) + "Z"

    v3 = {"query.start_time_min": rfc(begin_ns), "query.start_time_max": rfc(end_ns), "query.num_traces": 20}

    def names(answer):
        return sorted(answer["data"])

    yield "/api/services", {}, names
    for service in SERVICES:
        yield f"/api/services/{service}/operations", {}, names
        yield "/api/operations", {"service": service}, lambda a: sorted((o["name"], o["spanKind"]) for o in a["data"])
        yield "/api/traces", {"service": service, "limit": 20, **us}, v1_traces
        yield (
            "/api/v3/operations",
            {"service": service},
            lambda a: sorted((o["name"], o["spanKind"]) for o in a["operations"]),
        )
        yield "/api/v3/traces", {"query.service_name": service, **v3}, v3_traces
    tags = {"http.response.status_code": "500"}
    for more in (
        {"operation": "GET /order/1"},
        {"minDuration": "25ms", "operation": "send"},
        {"maxDuration": "25ms", "operation": "send"},
        {"tags": json.dumps(tags)},
        {"tags": json.dumps({"error": "true"})},
    ):
        yield (
            "/api/traces",
            {"service": "mail" if more.get("operation") == "send" else "shop", "limit": 20, **us, **more},
            v1_traces,
        )
    yield f"/api/traces/{0xABC003:x}", {}, v1_traces
    yield "/api/traces/1234567890abcdef", {}, lambda a: "no such trace"
    yield "/api/traces/nonsense", {}, lambda a: "no id"
    # Calls within a service, which Jaeger counts from a span to its child, are none for wirespan.
    yield (
        "/api/dependencies",
        {"endTs": end_ns // 1_000_000, "lookback": 3_600_000},
        lambda a: sorted((d["parent"], d["child"], d["callCount"]) for d in a["data"] if d["parent"] != d["child"]),
    )
    yield "/api/v3/services", {}, lambda a: sorted(a["services"])
    yield f"/api/v3/traces/{0xABC003:032x}", {}, v3_traces
    yield "/api/v3/traces/nonsense", {}, lambda a: "no id"
    shop = {"query.service_name": "shop", **v3}
    yield "/api/v3/traces", {**shop, "query.operation_name": "GET /order/1"}, v3_traces
    yield "/api/v3/traces", {**shop, "query.attributes": json.dumps(tags)}, v3_traces
    yield "/api/v3/traces", {"query.service_name": "mail", **v3, "query.duration_min": "25ms"}, v3_traces


def differences(a, b, path=""):
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(a.keys() | b.keys(), key=str):
            if key not in a or key not in b:
                yield f"{path}/{key}: only {'Jaeger' if key in a else 'wirespan'} has it"
            else:
                yield from differences(a[key], b[key], f"{path}/{key}")
    elif json.dumps(a, default=str) != json.dumps(b, default=str):
        yield f"{path}: Jaeger {json.dumps(a, default=str)[:200]}, wirespan {json.dumps(b, default=str)[:200]}"


def answers(base, path, parameters, what):
    status, said = ask(base, path, **parameters)
    if status != 200:
        return {"status": status}
    return {"status": status, "answer": what(said)}


def until_up(url, process):
    for _ in range(100):
        if process.poll() is not None:
            return False
        try:
            urllib.request.urlopen(url, timeout=1).read()
            return True
        except urllib.error.HTTPError:
            return True
        except OSError:
            time.sleep(0.2)
    return False


def compare(folder, show):
    ours, theirs = (
        {name: free_port() for name in ("ui", "grpc", "http", "listen")},
        {name: free_port() for name in ("ui", "grpc", "http")},
    )
    config = folder / "jaeger.yaml"
    settings = {
        "service": {
            "extensions": ["jaeger_storage", "jaeger_query"],
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["jaeger_storage_exporter"]}},
            "telemetry": {"metrics": {"level": "none"}, "logs": {"level": "warn"}},
        },
        "extensions": {
            "jaeger_storage": {"backends": {"kept": {"memory": {"max_traces": 1000}}}},
            "jaeger_query": {
                "storage": {"traces": "kept"},
                "http": {"endpoint": f"127.0.0.1:{theirs['ui']}"},
                "grpc": {"endpoint": f"127.0.0.1:{theirs['grpc']}"},
            },
        },
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{theirs['http']}"}}}},
        "exporters": {"jaeger_storage_exporter": {"trace_storage": "kept"}},
    }
    config.write_text(json.dumps(settings))  # YAML reads JSON
    own = folder / "wirespan.toml"
    own.write_text(f'[serve]\notlp_grpc = ""\notlp_http = "127.0.0.1:{ours["http"]}"\n')
    ui = f"127.0.0.1:{ours['ui']}"
    command = [WIRESPAN, "server", "--config", own, "--ui", ui, "--listen", f"127.0.0.1:{ours['listen']}"]
    with open(folder / "said", "w+") as said:
        started = [
            subprocess.Popen([JAEGER, "--config", config], stdout=said, stderr=said),
            subprocess.Popen([str(word) for word in command], stdout=said, stderr=said),
        ]
        try:
            jaeger, wirespan = f"http://127.0.0.1:{theirs['ui']}", f"http://{ui}"
            up = [
                until_up(f"http://127.0.0.1:{port}/", process)
                for process, ports in zip(started, (theirs, ours))
                for port in (ports["ui"], ports["http"])
            ]
            if not all(up):
                said.seek(0)
                sys.exit(f"jaeger.py: not all of Jaeger's and wirespan's ports came up:\n{said.read()[-2000:]}")
            now = time.time_ns()
            spans = request(now)
            for ports in (theirs, ours):
                send(f"http://127.0.0.1:{ports['http']}", spans)
            time.sleep(3)  # both keep spans for a moment before they can be found
            asked = wrong = 0
            for path, parameters, what in questions(now - 3_600_000_000_000, now + 1_000_000_000):
                asked += 1
                a, b = (answers(base, path, parameters, what) for base in (jaeger, wirespan))
                found = list(differences(a, b))
                question = path + ("?" + urllib.parse.urlencode(parameters) if parameters else "")
                who, why = next((meant for part, meant in MEANT_QUESTIONS.items() if part in question), ("", ""))
                if found and who and all(line.endswith(f": only {who} has it") for line in found):
                    print(f"meant   {a['status']} {question}: {why}", flush=True)
                    continue
                wrong += bool(found)
                print(f"{'differs' if found else 'same   '} {a['status']} {question}", flush=True)
                print("".join(f"    {line}\n" for line in found[: None if show else 4]), end="")
            print(f"{asked} questions, {wrong} with other answers")
            return 1 if wrong else 0
        finally:
            for process in started:
                process.send_signal(signal.SIGTERM)
            for process in started:
                process.wait(20)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--show", action="store_true", help="print all differences")
    args = parser.parse_args()
    for needed, how in ((JAEGER, "tests/apps/fetch/fetch.py jaeger"), (pathlib.Path(WIRESPAN), "cargo build")):
        if not needed.exists():
            print(f"jaeger.py: skipped, needs {needed} ({how})")
            return SKIPPED
    with tempfile.TemporaryDirectory(prefix="wirespan-jaeger-") as folder:
        return compare(pathlib.Path(folder), args.show)


if __name__ == "__main__":
    sys.exit(main())
