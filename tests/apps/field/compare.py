#!/usr/bin/env python3
"""Compares traces of a field application with what its servers logged.

usage: compare.py OTLP_FILE WORKDIR [--format text|json] [--show N]

Every request has an id that its path, its SQL parameters and its Redis keys carry. The logs of the servers say which
calls came in, on which connection, in which order, and for which id. A request is exact if each of its calls is there
as a span whose parent is the span by which the same process served that id, each service that served the id has the
right caller, each call of a job leads to the request that asked for the job, and no call of another id has a parent in
the trace. Spans are found by port, text and order, never by what the tracer joined them by.
"""

import argparse
import collections
import json
import pathlib
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "truth"))
import check  # noqa: E402 - from tests/apps/truth
from servers import ID, SERVERS  # noqa: E402

SQL_PORTS = {5432, 3306}
QUEUES = {6379}  # ports by which jobs are given and taken
USERS, OURS = 7000, 7900  # where users come; from here on, services that are not traced


class Span(check.Span):
    __slots__ = ("text", "pid", "owner", "kind", "named", "prepares", "links")


def read_spans(file):
    """Spans of processes' exchanges by id, those of devices too (a parent may be one)."""
    spans = {}
    for line in open(file, encoding="utf-8"):
        if not line.strip():
            continue
        for group in json.loads(line)["resourceSpans"]:
            resource = check.attributes(group.get("resource", {}).get("attributes"))
            for scope in group["scopeSpans"]:
                for raw in scope["spans"]:
                    old = check.read_span(raw, resource)
                    span = Span()
                    for name in check.Span.__slots__:
                        setattr(span, name, getattr(old, name, None))
                    attrs = check.attributes(raw.get("attributes"))
                    span.text = attrs.get("db.query.text") or attrs.get("url.path") or span.name
                    # The driver's own preparation: the server logs only the statement's executions.
                    prepare = attrs.get("db.operation.name") == "PREPARE"
                    span.prepares = prepare and not span.text.lower().startswith("prepare")
                    span.pid = attrs.get("process.pid") or resource.get("process.pid")
                    # The id in the path; gRPC has it in a header, which joins nothing.
                    where = f"{span.path} {attrs.get('http.request.header.x-item')}"
                    span.named = found[0] if (found := ID.search(where)) else None
                    span.links = [link["spanId"] for link in raw.get("links", [])]
                    span.owner = None
                    spans[span.id] = span
    return spans


def shape_of(sql):
    """SQL without its values and spaces: the log and the span may write them differently, and lists of values too."""
    shape = re.sub(r"\s+", "", re.sub(r"'[^']*'|\$\d+|\?|\b\d+\b", "?", sql))
    return re.sub(r"\?(,\?)+", "?", shape).lower()[:60]


def own(spans, work, servers, serving):
    """Gives each span the id of its request. Returns, by id, the calls that no span shows."""
    missing = collections.defaultdict(list)
    clients = {s.ports: s.pid for s in spans.values() if s.process and s.side == check.CLIENT and s.ports}
    for name in servers:
        port = SERVERS[name].port
        is_sql = port in SQL_PORTS
        key = (
            (lambda text: shape_of(text))
            if is_sql
            else (lambda text: text.split()[0].upper())
            if name == "redis"
            else (lambda text: text)
        )
        seen, prepares = collections.defaultdict(list), []
        for span in spans.values():
            if span.process and span.side == check.CLIENT and span.ports and span.ports[1] == port:
                if span.prepares:
                    prepares.append(span)
                else:
                    seen[span.ports[0], key(span.text)].append(span)
        for each in seen.values():
            each.sort(key=lambda s: s.start)
        asked, ties = collections.defaultdict(list), collections.defaultdict(list)
        for one in SERVERS[name].asked(work):
            if port in QUEUES and clients.get((one["port"], port), "unseen") not in (*serving, "unseen"):
                continue  # what takes jobs tells its queue of them
            asked[one["port"], key(one["text"])].append(one)
        for where, wanted in asked.items():
            # The id in the text tells best: several that left in one write have the same start.
            found = by_id(seen.get(where, []), wanted)
            starts = collections.Counter(span.start for span in found if span is not None and not ID.search(span.text))
            for one, span in zip(wanted, found):
                if span is None:
                    missing[one["id"]].append(f"{name} {one['text'][:60]}")
                elif starts[span.start] > 1:
                    ties[(*where, span.start)].append((span, one["id"]))
                else:
                    span.owner = one["id"]
            for one in wanted[len(found) :]:
                missing[one["id"]].append(f"{name} {one['text'][:60]}")
        for tied in ties.values():
            settle(tied, spans)
        for span in prepares:
            # It is for the request whose execution follows it on its connection.
            after = (s for s in seen[span.ports[0], key(span.text)] if s.start > span.start)
            span.owner = next((s.owner for s in after), None)
    for span in spans.values():
        if span.process and span.owner is None and span.named:
            span.owner = span.named
    return missing


def settle(tied, spans):
    """Equal texts without an id that left in one write (two `MULTI`): their order in it is not in the spans. What can
    be asked is that each id of the write is met once.
    """
    left = [owner for _, owner in tied]
    for span, _ in tied:
        parent = check.process_parent(span, spans)
        if parent is not None and parent.named in left:
            span.owner = parent.named
            left.remove(span.owner)
    for span, _ in tied:
        if span.owner is None and left:
            span.owner = left.pop()


def serves_id(span):
    return span.process and span.side == check.SERVER and span.named and span.ports and span.ports[1] < OURS


def came_from(span, spans, serving):
    """The id of the request that asked for this job: up to what took the job from its queue, by its link to what put it
    there, and from there on up. If what took it has links to several, all their ids.
    """
    seen, found, ways = set(), set(), [span]
    while ways:
        span = ways.pop()
        if span.id in seen:
            continue
        seen.add(span.id)
        if span.owner and span.pid in serving:
            found.add(span.owner)
            continue
        above = check.process_parent(span, spans)
        ways += [above] if above is not None else [spans[i] for i in span.links if i in spans]
    return " or ".join(sorted(found)) or None


def by_id(found, wanted):
    named = collections.defaultdict(list)
    for span in found:
        if seen := ID.search(span.text):
            named[seen[0]].append(span)
    if not named:
        return found
    return [(named[one["id"]].pop(0) if named.get(one["id"]) else None) for one in wanted]


def compare(spans, work, show):
    servers = [name for name in SERVERS if (work / name).exists() or (work / "truth" / f"{name}.jsonl").exists()]
    serving = {span.pid for span in spans.values() if serves_id(span)}
    missing = own(spans, work, servers, serving)
    requests = [json.loads(line) for line in (work / "truth" / "load.jsonl").read_text().splitlines()]
    requests = {r["path"].rpartition("/")[2]: r["path"].split("/")[1] for r in requests if r["status"] == 200}
    wrong = collections.defaultdict(list)
    for owner, calls in missing.items():
        wrong[owner] += [f"missing: {call}" for call in calls]
    serves, members = collections.defaultdict(list), collections.defaultdict(list)
    for span in spans.values():
        if span.process and span.owner:
            members[span.owner].append(span)
            if serves_id(span):
                serves[span.owner].append(span)
    links = []  # evidence, confidence, right
    for owner in requests:
        if not serves[owner]:
            wrong[owner].append("missing: the request itself")
    for owner, each in members.items():
        for span in each:
            parent = check.process_parent(span, spans)
            if span.side == check.SERVER:
                # A server's span: its caller has the same id on the other side; the user's call may be traced or not.
                if parent is not None and parent.owner != owner:
                    wrong[owner].append(f"{span} was called by {parent} of {parent.owner}")
                    links.append(("hop", span, False))
                elif parent is None and span.ports and USERS < span.ports[1] < OURS:
                    wrong[owner].append(f"no caller of {span}")
                continue
            if span.service == "load" or (parent is None and span.ports[1] == USERS):
                continue
            if span.pid not in serving:  # a job's
                if (came := came_from(span, spans, serving)) != owner:
                    wrong[owner].append(f"{span} {span.text[:60]} of a job comes from {came}")
                continue
            right = (
                parent is not None and parent.side == check.SERVER and parent.owner == owner and parent.pid == span.pid
            )
            if parent is not None:
                links.append(("inside", span, right))
            if not right:
                wrong[owner].append(
                    f"parent of {span} {span.text[:60]}: is {parent} of {parent.owner if parent else None}"
                )
                if parent is not None and parent.owner:
                    wrong[parent.owner].append(f"holds {span} of {owner}")
    exact = collections.Counter(route for owner, route in requests.items() if not wrong.get(owner))
    total = collections.Counter(requests.values())
    evidence = collections.Counter()
    for place, span, right in links:
        evidence[place, span.evidence or "none", right] += 1
    sure = [(s, right) for _, s, right in links if float(s.confidence or 0) >= 0.9]
    confidence = collections.defaultdict(lambda: [0, 0.0, 0])
    for _, span, right in links:
        at = confidence[min(int(float(span.confidence or 0) * 10), 9) / 10]
        at[0] += 1
        at[1] += float(span.confidence or 0)
        at[2] += right
    lines = []
    for owner in list(o for o in requests if wrong.get(o))[:show]:
        lines += [f"{requests[owner]} {owner}", *(f"    {w}" for w in wrong[owner][:8])]
    return {
        "requests": len(requests),
        "exact": sum(exact.values()),
        "share": sum(exact.values()) / max(1, len(requests)),
        "routes": {route: [exact[route], n] for route, n in sorted(total.items())},
        "links": len(links),
        "wrong at 0.9": sum(not right for _, right in sure),
        "links at 0.9": len(sure),
        "missing": sum(len(m) for owner, m in missing.items() if owner),
        "evidence": [
            {
                "place": place,
                "evidence": name,
                "right": evidence[place, name, True],
                "wrong": evidence[place, name, False],
            }
            for place, name in sorted({(p, e) for p, e, _ in evidence})
        ],
        "confidence": {
            f"{low:.1f}": [n, total / n, right / n] for low, (n, total, right) in sorted(confidence.items())
        },
        "differences": lines,
    }


def main():
    parser = argparse.ArgumentParser(description="Compares traces of a field application with its servers' logs.")
    parser.add_argument("otlp")
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="requests whose differences are shown (0)")
    args = parser.parse_args()
    report = compare(read_spans(args.otlp), args.work, args.show)
    if args.format == "json":
        print(json.dumps(report))
        return
    routes = "  ".join(f"{route} {n / of * 100:.1f}" for route, (n, of) in report["routes"].items())
    print(f"{report['exact']} of {report['requests']} exact ({report['share'] * 100:.2f} %): {routes}")
    print(
        f"links at ≥ 0.9: {report['links at 0.9']}, wrong {report['wrong at 0.9']}; missing calls {report['missing']}"
    )
    for row in report["evidence"]:
        print("  {place:7} {evidence:12} right {right:7} wrong {wrong:6}".format(**row))
    for low, (n, mean, right) in report["confidence"].items():
        print(f"  stated ≥ {low}: {n:7} links, mean {mean:.3f}, right {right:.4f}")
    print("\n".join(report["differences"]))


if __name__ == "__main__":
    main()
