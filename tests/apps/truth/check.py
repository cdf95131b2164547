#!/usr/bin/env python3
"""Compares whole traces with the ground truth of the shop.

usage: check.py OTLP_FILE TRUTH_DIR [--min-exact SHARE] [--show N] [--format text|json]

A root request is exact if every span that its calls should have is there, each with the right parent, all in one trace,
and no other request is in that trace. Only requests seen at processes count; spans of devices and of connections that
nobody understood are skipped over when a parent is looked for. Spans and calls are matched by ports, side and time,
never by anything that the tracer joined them by. README.md has the formats. Exit code: 0 if the share of exact requests
reaches --min-exact (default 1), 1 if it does not, 2 if the input cannot be read.
"""

import argparse
import bisect
import collections
import json
import pathlib
import sys

CLIENT, SERVER = "client", "server"
CLOCK_NS = 20_000  # the tracer's clock may be that far from the services'


class BadInput(Exception):
    pass


# --- ground truth -----------------------------------------------------------------------------------------------------


class Call:
    """One request from one process to another: it should be seen as a client span and a server span."""

    __slots__ = (
        "caller",
        "start",
        "end",
        "client",
        "server",
        "from_",
        "to",
        "name",
        "status",
        "protocol",
        "children",
        "spans",
        "arrived",
    )

    def __init__(self, record, client, server, from_, to):
        self.start, self.end = record["start"], record["end"]
        self.client, self.server = client, server  # ports
        self.from_, self.to = from_, to
        self.name = f"{record['operation']} {record['target']}".strip()
        self.status, self.protocol = record["status"], record["protocol"]
        self.caller = None
        self.children = []
        self.spans = {CLIENT: None, SERVER: None}
        self.arrived = None  # behind the gateway, which notes nothing: when the server had the first bytes

    def __str__(self):
        return f"{self.from_}→{self.to} {self.name}"


def port(end):
    return int(end.rsplit(":", 1)[1])


class ByTime:
    """Things with a start, on a key (the ports of a connection). On one connection, calls follow each other."""

    def __init__(self, things):
        self.lists = collections.defaultdict(list)
        for key, thing in things:
            self.lists[key].append(thing)
        for each in self.lists.values():
            each.sort(key=lambda t: t.start)
        self.starts = {key: [t.start for t in each] for key, each in self.lists.items()}

    def between(self, key, first, last):
        starts = self.starts.get(key, ())
        return self.lists[key][bisect.bisect_left(starts, first) : bisect.bisect_right(starts, last)] if starts else []

    def last_until(self, key, time):
        at = bisect.bisect_right(self.starts.get(key, ()), time)
        return self.lists[key][at - 1] if at else None


def read_truth(folder):
    """The root calls, each with its tree of calls."""
    records = []
    files = sorted(pathlib.Path(folder).glob("*.jsonl"))
    if not files:
        raise BadInput(f"{folder}: no ground truth (*.jsonl) there")
    for file in files:
        for number, line in enumerate(file.read_text().splitlines(), 1):
            try:
                records.append(json.loads(line))
            except ValueError as error:
                raise BadInput(f"{file}:{number}: {error}") from error
    servers = [r for r in records if r["kind"] == "server"]
    listening = {port(r["local"]): r["service"] for r in servers}

    roots, calls, made_in = [], [], []
    by_request_id = {}
    for record in records:
        if record["kind"] != "client":
            continue
        client, server = port(record["local"]), port(record["peer"])
        to = listening.get(server) or (record["protocol"] if record["protocol"] != "http" else "gateway")
        call = Call(record, client, server, record["service"], to)
        calls.append(call)
        made_in.append(record["in"])
        if record["in"] is None:
            roots.append(call)
        if record.get("request_id"):
            by_request_id[record["request_id"]] = call

    # Which call did each server serve? Behind the gateway, its request id tells; elsewhere the same ports at the same
    # time.
    arrivals = ByTime(((c.client, c.server), c) for c in calls)
    served = {}
    for record in servers:
        client, server = port(record["peer"]), port(record["local"])
        if record.get("request_id"):
            root = by_request_id.get(record["request_id"])
            if root is None:
                continue  # its customer was ended before the answer
            call = Call(record, client, server, "gateway", record["service"])
            call.start, call.arrived = root.start, record["start"]
            call.caller = root
            root.children.append(call)
        else:
            # The first bytes arrive while the caller waits. (When the server noted its end says less: it may have been
            # preempted.)
            call = arrivals.last_until((client, server), record["start"])
            if call is None or call.end < record["start"]:
                print(f"check: nobody noted the call that {record['id']} served", file=sys.stderr)
                call = None
        served[record["id"]] = call
    for call, inside in zip(calls, made_in):
        if inside is None:
            continue
        call.caller = served.get(inside)
        if call.caller is not None:
            call.caller.children.append(call)
    return roots


def walk(call):
    yield call
    for child in call.children:
        yield from walk(child)


# --- spans ------------------------------------------------------------------------------------------------------------


class Span:
    __slots__ = (
        "id",
        "trace",
        "parent_id",
        "name",
        "service",
        "start",
        "end",
        "side",
        "ports",
        "path",
        "status",
        "process",
        "evidence",
        "confidence",
        "call",
        "protocol",
    )

    def __str__(self):
        return f"{self.service} {self.name} ({self.side}, {self.id})"


def attributes(items):
    return {item["key"]: next(iter(item["value"].values()), None) for item in items or ()}


def read_span(raw, resource):
    attrs = attributes(raw.get("attributes"))
    span = Span()
    span.id, span.trace, span.parent_id = raw["spanId"], raw["traceId"], raw.get("parentSpanId") or None
    span.name, span.service = raw.get("name", ""), resource.get("service.name", "?")
    span.start, span.end = int(raw["startTimeUnixNano"]), int(raw["endTimeUnixNano"])
    span.end = max(span.end, span.start + 1)
    kind = raw.get("kind")
    tap = attrs.get("wirespan.tap_side")
    span.side = CLIENT if kind in (3, 4, "SPAN_KIND_CLIENT", "SPAN_KIND_PRODUCER") else SERVER
    span.protocol = attrs.get("network.protocol.name")
    connection = "network.transport" in attrs and span.protocol is None  # bytes of an unknown protocol
    span.process = tap in (None, "client-process", "server-process") and not connection
    if tap in ("client-process", "server-process"):
        span.side = tap.split("-")[0]
    own, other = attrs.get("network.local.port"), attrs.get("network.peer.port")
    client, server = (own, other) if span.side == CLIENT else (other, own)
    client, server = attrs.get("client.port", client), attrs.get("server.port", server)
    span.ports = (int(client), int(server)) if client is not None and server is not None else None
    status = attrs.get("http.response.status_code")
    span.status = int(status) if status is not None else None
    span.path = attrs.get("url.path")
    span.evidence, span.confidence = attrs.get("wirespan.evidence"), attrs.get("wirespan.confidence")
    span.call = None
    return span


def read_spans(file):
    spans = {}
    with open(file, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                for group in json.loads(line)["resourceSpans"]:
                    resource = attributes(group.get("resource", {}).get("attributes"))
                    for scope in group["scopeSpans"]:
                        for raw in scope["spans"]:
                            span = read_span(raw, resource)
                            spans[span.id] = span
            except (ValueError, KeyError, TypeError) as error:
                raise BadInput(f"{file}:{number}: not a line of OTLP JSON: {error!r}") from error
    return spans


def process_parent(span, spans):
    """The nearest ancestor that is a span of a process."""
    seen = {span.id}
    parent = spans.get(span.parent_id)
    while parent is not None and not parent.process and parent.id not in seen:
        seen.add(parent.id)
        parent = spans.get(parent.parent_id)
    return parent if parent is not None and parent.process else None


# --- comparison -------------------------------------------------------------------------------------------------------


def span_of(call, side, index):
    """The span of a call starts while the call lasts, on its connection; the one before and the one behind do not."""
    key = ((call.client, call.server), side)
    if call.arrived is None:
        # A neighbour may be shorter than the clocks agree: of those that start in time, the one that shares most of the
        # call's.
        near = index.between(key, call.start - CLOCK_NS, call.end)
        return max(near, key=lambda s: min(s.end, call.end) - max(s.start, call.start), default=None)
    span = index.last_until(key, call.arrived + CLOCK_NS)
    return span if span is not None and span.start >= call.start - CLOCK_NS else None


def match(roots, spans):
    """Gives each expected span of each call the span seen on its connection, on its side, at its time."""
    index = ByTime(((s.ports, s.side), s) for s in spans.values() if s.process and s.ports)
    for root in roots:
        for call in walk(root):
            for side in (CLIENT, SERVER):
                span = span_of(call, side, index)
                if span is not None and span.call is None:
                    call.spans[side] = span
                    span.call = (call, side)


def expected_parent(call, side, root_traced):
    """The span that should be the parent; None for the root."""
    if side == SERVER:
        return call.spans[CLIENT] if call.caller is not None or root_traced else None
    return call.caller.spans[SERVER] if call.caller is not None else None


def wrong_with(root, spans, members, root_traced, tally):
    """Everything that differs for one root request."""
    wrong = []
    traces = set()
    expected = set()
    for call in walk(root):
        for side in (CLIENT, SERVER):
            is_root = call is root and (side == CLIENT or not root_traced)
            if call is root and side == CLIENT and not root_traced:
                continue
            tally["spans"] += 1
            tally["links"] += not is_root
            span = call.spans[side]
            if span is None:
                wrong.append(f"missing: {call}, {side} span")
                continue
            expected.add(span.id)
            traces.add(span.trace)
            tally["spans found"] += 1
            parent, should = process_parent(span, spans), expected_parent(call, side, root_traced)
            tally["links found"] += parent is not None
            if parent is should and (parent is not None or is_root):
                tally["links right"] += parent is not None
            else:
                wrong.append(f"parent of {call}, {side} span: is {parent or 'none'}, should be {should or 'none seen'}")
            if call.protocol == "http" and span.status is not None and span.status != call.status:
                tally["status wrong"] += 1
                wrong.append(f"status of {call}, {side} span: is {span.status}, should be {call.status}")
    if len(traces) > 1:
        wrong.append(f"split over {len(traces)} traces: {', '.join(sorted(traces))}")
    for trace in traces:
        for span in members[trace]:
            if span.process and span.id not in expected:
                owner = f"belongs to {span.call[0]}" if span.call else "belongs to no known call"
                wrong.append(f"extra in the trace: {span}, {owner}")
                tally["links found"] += span.call is None and process_parent(span, spans) is not None
    return wrong


def compare(roots, spans, match=match):
    match(roots, spans)
    members = collections.defaultdict(list)
    for span in spans.values():
        members[span.trace].append(span)
    root_traced = any(root.spans[CLIENT] for root in roots)
    tally = collections.Counter()
    differences = []
    for root in roots:
        wrong = wrong_with(root, spans, members, root_traced, tally)
        if wrong:
            differences.append((root, wrong))
    exact = len(roots) - len(differences)
    return {
        "requests": len(roots),
        "exact": exact,
        "share": exact / len(roots) if roots else 0.0,
        "customers traced": root_traced,
        "spans expected": tally["spans"],
        "spans found": tally["spans found"],
        "links expected": tally["links"],
        "link precision": tally["links right"] / tally["links found"] if tally["links found"] else 0.0,
        "link recall": tally["links right"] / tally["links"] if tally["links"] else 0.0,
        "wrong status": tally["status wrong"],
        "differences": [{"request": root.name, "start": root.start, "wrong": wrong} for root, wrong in differences],
    }


def main():
    parser = argparse.ArgumentParser(description="Compares traces with the ground truth of the shop.")
    parser.add_argument("otlp")
    parser.add_argument("truth")
    parser.add_argument(
        "--min-exact", type=float, default=1.0, metavar="SHARE", help="least share of exact requests, 0–1 (1)"
    )
    parser.add_argument("--show", type=int, default=5, metavar="N", help="requests whose differences are shown (5)")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    args = parser.parse_args()
    try:
        result = compare(read_truth(args.truth), read_spans(args.otlp))
    except (BadInput, OSError) as error:
        print(f"check: {error}", file=sys.stderr)
        return 2
    differences = result.pop("differences")
    if args.format == "json":
        print(json.dumps({**result, "differences": differences[: args.show]}))
    else:
        for key, value in result.items():
            print(f"{key:18} {value:.6f}" if isinstance(value, float) else f"{key:18} {value}")
        for difference in differences[: args.show]:
            print(f"\n{difference['request']} (started {difference['start']})")
            for line in difference["wrong"][:12]:
                print(f"  {line}")
            if len(difference["wrong"]) > 12:
                print(f"  … and {len(difference['wrong']) - 12} more")
        if len(differences) > args.show:
            print(f"\n… and {len(differences) - args.show} more requests that are not exact")
    return 0 if result["requests"] and result["share"] >= args.min_exact else 1


if __name__ == "__main__":
    sys.exit(main())
