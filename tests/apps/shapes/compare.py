#!/usr/bin/env python3
"""Compares whole traces with the ground truth of shapes, and each link with the evidence that was claimed for it.

usage: compare.py OTLP_FILE WORKDIR [--format text|json] [--show N]      WORKDIR is that of run.py

A request is exact as in ../check.py. Spans and calls are matched by the path of the request, which is drawn for each
call alone. Of each kind of evidence: `found` links, how many of them are `right`, and which share of all links of that
place they are (`recall`): of `hop` links, from the request received to the request sent, and of `inside` links, from a
request sent to the request for which it was sent. A `calibration` says of links with a confidence how many are right.
"""

import argparse
import collections
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "truth"))

import check  # noqa: E402 - from truth/
from check import CLIENT, SERVER  # noqa: E402


class NamedCall(check.Call):
    """A call that is known by its path; where it went to, by the port."""

    __slots__ = ("path",)

    def __init__(self, record, to):
        super().__init__(
            {**record, "operation": "GET", "protocol": "http"}, None, record["port"], record["service"], to
        )
        self.path = record["target"]


def read_truth(folder):
    """The root calls, each with its tree of calls."""
    records = []
    for file in sorted(pathlib.Path(folder).glob("*.jsonl")):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            try:
                records.append(json.loads(line))
            except ValueError as error:
                raise check.BadInput(f"{file}:{number}: {error}") from error
    if not records:
        raise check.BadInput(f"{folder}: no ground truth (*.jsonl) there")
    servers = {r["target"]: r for r in records if r["kind"] == "server"}
    roots, calls, served = [], [], {}
    for record in records:
        if record["kind"] != "client":
            continue
        server = servers.get(record["target"])
        if server is None:
            raise check.BadInput(f"{folder}: nobody noted that {record['target']} was served")
        behind = server["port"] != record["port"]  # a proxy, which notes nothing, handed it on
        call = NamedCall(record, "gateway" if behind else server["service"])
        calls.append((call, record["in"]))
        served[call.path] = call
        if behind:
            forwarded = NamedCall({**record, "service": "gateway", "port": server["port"]}, server["service"])
            forwarded.caller = call
            call.children.append(forwarded)
            served[call.path] = forwarded
    for call, inside in calls:
        if inside is None:
            roots.append(call)
        elif inside not in served:
            raise check.BadInput(f"{folder}: nobody noted that {inside} was called: its caller failed")
        else:
            call.caller = served[inside]
            call.caller.children.append(call)
    return roots


def match(roots, spans):
    """Gives each call the earliest span with its path, at its server's port and on its side."""
    index = collections.defaultdict(list)
    for span in spans.values():
        if span.process and span.path and span.ports:
            index[span.path, span.ports[1], span.side].append(span)
    for root in roots:
        for call in check.walk(root):
            for side in (CLIENT, SERVER):
                seen = index.get((call.path, call.server, side))
                if seen:
                    call.spans[side] = min(seen, key=lambda s: s.start)
                    call.spans[side].call = (call, side)


def judged_links(roots, spans):
    """Each link that should be or is there: place, evidence, confidence (None: no link), whether it is right."""
    for root in roots:
        for call in check.walk(root):
            for side in (CLIENT, SERVER):
                is_root = call is root and side == CLIENT
                place = "hop" if side == SERVER else "inside"
                span = call.spans[side]
                parent = check.process_parent(span, spans) if span else None
                if parent is None:
                    if not is_root:
                        yield place, None, None, False
                    continue
                right = not is_root and parent is check.expected_parent(call, side, True)
                yield place, span.evidence or "none", float(span.confidence or 0), right


def by_evidence(links):
    expected = collections.Counter(place for place, *_ in links)
    found, good = collections.Counter(), collections.Counter()
    for place, evidence, _, right in links:
        if evidence:
            found[place, evidence] += 1
            good[place, evidence] += right
    return [
        {
            "place": place,
            "evidence": evidence,
            "found": n,
            "right": good[place, evidence],
            "precision": good[place, evidence] / n,
            "recall": good[place, evidence] / expected[place],
        }
        for (place, evidence), n in sorted(found.items(), key=lambda item: (item[0][0], -item[1]))
    ]


def calibration(links, chosen=lambda evidence: True):
    """Tenths of confidence: how many links, their mean confidence, the share that is right."""
    bins = collections.defaultdict(list)
    for _, evidence, confidence, right in links:
        if evidence and chosen(evidence):
            bins[min(int(confidence * 10), 9)].append((confidence, right))
    return [
        {
            "from": i / 10,
            "links": len(b),
            "confidence": sum(c for c, _ in b) / len(b),
            "right": sum(r for _, r in b) / len(b),
        }
        for i, b in sorted(bins.items())
    ]


def compare(folder, spans, show):
    roots = read_truth(folder)
    result = check.compare(roots, spans, match)
    differences = result.pop("differences")
    links = list(judged_links(roots, spans))
    return {
        **result,
        "evidence": by_evidence(links),
        "calibration": calibration(links),
        "calibration of inferred": calibration(links, lambda e: e == "inferred"),
        "differences": differences[:show],
    }


def show_text(shape, report):
    print(
        f"{shape}: {report['exact']} of {report['requests']} exact ({report['share']:.4f}), spans "
        f"{report['spans found']} of {report['spans expected']}"
    )
    for row in report["evidence"]:
        print("  {place:7} {evidence:11} found {found:7}  precision {precision:.5f}  recall {recall:.5f}".format(**row))
    for difference in report["differences"]:
        print(f"  {difference['request']}")
        for line in difference["wrong"][:8]:
            print(f"    {line}")


def main():
    parser = argparse.ArgumentParser(description="Compares traces and links with the ground truth of shapes.")
    parser.add_argument("otlp")
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="requests whose differences are shown (0)")
    args = parser.parse_args()
    try:
        spans = check.read_spans(args.otlp)
        for span in spans.values():
            span.process &= span.protocol != "tls"  # handshakes are no calls, and the services do not note them
        shapes = sorted(p.parent.name for p in args.work.glob("*/truth"))
        if not shapes:
            raise check.BadInput(f"{args.work}: no SHAPE/truth there")
        reports = {shape: compare(args.work / shape / "truth", spans, args.show) for shape in shapes}
    except (check.BadInput, OSError) as error:
        print(f"compare: {error}", file=sys.stderr)
        return 2
    if args.format == "json":
        print(json.dumps(reports))
    else:
        for shape, report in reports.items():
            show_text(shape, report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
