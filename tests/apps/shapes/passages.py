"""Compares wirespan's spans of records through Kafka with the ground truth of producers and consumers (brokers.py).

| `records` | pairs of a record and a consumer that got it |
| `linked` | of those: a fetch of this consumer that has it is linked to the produce that carried it |
| `links` | from a fetch to a produce |
| `right` | links whose two spans moved one whole batch of that producer, as far as this consumer got it |
| `calls`, `caused` | made by consumers, one for each pair; those whose parent is the record, or its fetch |
| `worked` | of those, the calls whose parent is the record |
| `orphans` | calls whose parent is not there |
| `requests` | records |
| `exact` | records that are linked and caused at each consumer, by one fetch without a wrong link |
"""

import collections
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "truth"))

import check  # noqa: E402 - from truth/

CLIENT = 3  # SpanKind in OTLP


def moved(attrs):
    """Partition, first and last offset of the records that a span moved, from its attributes."""
    if listed := attrs.get("wirespan.kafka.partitions"):
        for one in listed.split():
            place, _, span_range = one.rpartition(":")
            first, _, last = span_range.partition("-")
            yield int(place.rpartition("/")[2]), int(first), int(last or first)
    elif "kafka.offset" in attrs:
        first = int(attrs["kafka.offset"])
        yield (
            int(attrs["messaging.destination.partition.id"]),
            first,
            int(attrs.get("wirespan.kafka.last_offset", first)),
        )


def by_partition(attrs):
    """Partition → records, each by partition and offset."""
    return {p: {(p, o) for o in range(first, last + 1)} for p, first, last in moved(attrs)}


def read_truth(folder):
    """By partition and offset of a record: pid of its sender, and its batch; pids of its receivers."""
    sent, received, batches = {}, collections.defaultdict(set), collections.defaultdict(set)
    for file in folder.glob("*.jsonl"):
        for record in map(json.loads, file.read_text().splitlines()):
            key = record["partition"], record["offset"]
            if record["way"] == "sent":
                batch = batches[record["partition"], record["batch"]]
                batch.add(key)
                sent[key] = record["pid"], batch
            else:
                received[key].add(record["pid"])
    return sent, received


def read_spans(otlp):
    """Id → pid, attributes, parent; links (from, to); calls (parent, pid, partition and offset)."""
    spans, links, calls = {}, [], []
    with open(otlp, encoding="utf-8") as lines:
        for line in lines:
            for group in json.loads(line)["resourceSpans"]:
                pid = int(check.attributes(group["resource"]["attributes"]).get("process.pid", 0))
                for raw in (s for scope in group["scopeSpans"] for s in scope["spans"]):
                    said = check.attributes(raw.get("attributes"))
                    spans[raw["spanId"]] = pid, said, raw.get("parentSpanId")
                    path = said.get("url.path") or said.get("url.full", "")
                    if raw["kind"] == CLIENT and "/record/" in path:
                        calls.append((raw.get("parentSpanId"), pid, tuple(map(int, path.split("/")[-2:]))))
                    links += [(raw["spanId"], link["spanId"]) for link in raw.get("links", ())]
    return spans, links, calls


def compare(otlp, work):
    sent, received = read_truth(work / "truth")
    spans, links, calls = read_spans(otlp)
    moves = {id: by_partition(attrs) for id, (_, attrs, _) in spans.items()}

    def near(id):
        """The client's end of the same request."""
        _, attrs, parent = spans[id]
        return parent if attrs.get("wirespan.tap_side") == "server-process" and parent in spans else id

    for id in [id for id in spans if moves[id] and near(id) != id]:
        # Records that the span of the broker's end shows count for the span of the client's end, too.
        for partition, keys in moves[id].items():
            moves[near(id)].setdefault(partition, set()).update(keys)
    expected = {(key, pid) for key, pids in received.items() for pid in pids if key in sent}

    linked, spoiled, right = set(), set(), 0
    for consumer, producer in links:
        to, by = spans[consumer][0], spans[near(producer)][0] if producer in spans else 0
        good, shared = set(), set()
        for partition, theirs in moves.get(producer, {}).items():
            both = theirs & moves[consumer].get(partition, set())
            shared |= both
            good |= {key for key in both if to in received[key] and sent.get(key) == (by, theirs)}
        right += bool(good) and good == shared
        linked.update((key, to) for key in good)
        if not good or good != shared:
            spoiled.add(consumer)

    # Record, pid → fetches that say that they have it, and its own span.
    brought, worked = collections.defaultdict(list), {}
    for id, (pid, attrs, _) in spans.items():
        for key in set().union(*moves[id].values()):
            if attrs.get("messaging.operation.type") == "receive":
                brought[key, pid].append(id)
            elif attrs.get("messaging.operation.type") == "process":
                worked[key, pid] = id
    of = lambda pair: (*brought[pair], worked.get(pair))  # noqa: E731
    caused = {(key, pid): parent for parent, pid, key in calls if parent and parent in of((key, pid))}
    exact = lambda pair: (  # noqa: E731
        pair in linked
        and len(brought[pair]) == 1
        and brought[pair][0] not in spoiled
        and caused.get(pair) in (brought[pair][0], worked.get(pair, 0))
    )
    whole = [key for key in sent if received[key] and all(exact((key, pid)) for pid in received[key])]
    return {
        "requests": len(sent),
        "exact": len(whole),
        "share": len(whole) / max(len(sent), 1),
        "records": len(expected),
        "linked": len(linked & expected),
        "links": len(links),
        "right": right,
        "calls": len(calls),
        "caused": len(caused),
        "worked": sum(worked.get(pair) == parent for pair, parent in caused.items()),
        "orphans": sum(parent not in spans for parent, _, _ in calls),
        "link precision": right / max(len(links), 1),
        "link recall": len(linked & expected) / max(len(expected), 1),
        "evidence": [],
        "calibration": [],
        "calibration of inferred": [],  # as compare.py says of services
    }
