#!/usr/bin/env python3
"""Messages through a real Kafka: who produced what, who fetched it, and what was called for it; and what should say so.

usage: brokers.py run --dir WORKDIR [--records N]      two producers (batches of 1 to 5 records), two consumers, two partitions
       brokers.py compare OTLP_FILE WORKDIR            JSON: `records`, `linked` (recall), `links`, `right` (precision); `calls`
                                                       that consumers made, one for each record, `caused` by its fetch

Run by the Python of target/servers/venv (tests/apps/fetch.py), in a network namespace of its own (root). Truth is in
WORKDIR/truth: one line per record and process, never on the wire. Says `skip REASON` if something is missing.
"""

import argparse
import collections
import http.client
import http.server
import json
import os
import pathlib
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import check  # noqa: E402 - from the folder above
import serve  # noqa: E402
import stage  # noqa: E402

PORT, CALLED, TOPIC, PARTITIONS = 9092, 8080, "orders", 2


# --- the programs ------------------------------------------------------------------------------------------------------


def note(folder, **record):
    with open(folder / f"{record['way']}-{os.getpid()}.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps({"pid": os.getpid(), **record}) + "\n")


def produce(folder, records):
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=f"127.0.0.1:{PORT}", linger_ms=5)
    sent = 0
    while sent < records:
        batch = min(1 + sent % 5, records - sent)
        partition = sent % PARTITIONS
        futures = [producer.send(TOPIC, value=b"order", partition=partition) for _ in range(batch)]
        for future in futures:
            note(folder, way="sent", partition=partition, offset=future.get(60).offset)
        sent += batch
    producer.close()


def consume(folder, records):
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=f"127.0.0.1:{PORT}", group_id=None, fetch_max_wait_ms=100, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(TOPIC, p) for p in range(PARTITIONS)])
    for p in range(PARTITIONS):
        consumer.seek(TopicPartition(TOPIC, p), 0)
    # What the very first answer brings has been read before wirespan knows that the connection brings work.
    consumer.poll(1000)
    (folder / f"ready-{os.getpid()}").touch()
    called = http.client.HTTPConnection("127.0.0.1", CALLED)
    while records:
        for where, got in consumer.poll(1000).items():
            for one in got:
                note(folder, way="received", partition=where.partition, offset=one.offset)
                called.request("GET", f"/record/{where.partition}/{one.offset}")
                called.getresponse().read()
                records -= 1
    consumer.close()


class Called(http.server.BaseHTTPRequestHandler):
    """What consumers call for each record."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def run(work, records):
    server = serve.load("kafka")(work, None)
    if reason := server.missing():
        print(f"skip {reason}", flush=True)
        return
    truth = work / "truth"
    truth.mkdir(parents=True)
    stage.own_network()
    try:
        server.start()
        server.ready()
        from kafka.admin import KafkaAdminClient, NewTopic

        admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{PORT}")
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
        admin.close()
        me = [sys.executable, str(HERE / "brokers.py")]
        called = http.server.ThreadingHTTPServer(("127.0.0.1", CALLED), Called)
        threading.Thread(target=called.serve_forever, daemon=True).start()
        start = lambda way, n: subprocess.Popen([*me, way, "--dir", str(truth), "--records", str(n)])  # noqa: E731
        children = [start("consume", 2 * records) for _ in range(2)]
        server.wait(lambda: len(list(truth.glob("ready-*"))) == 2, "the consumers")
        children += [start("produce", records) for _ in range(2)]
        if any(child.wait(120) for child in children):
            raise SystemExit(f"a program failed\n{server.logs()}")
    finally:
        server.end()
    print(f"{2 * records} records", flush=True)


# --- the comparison ----------------------------------------------------------------------------------------------------

CLIENT = 3  # SpanKind in OTLP


def moved(span, attrs):
    """Partition → first and last offset of what a span moved, by its attributes."""
    if listed := attrs.get("wirespan.kafka.partitions"):
        for one in listed.split():
            place, _, span_range = one.rpartition(":")
            first, _, last = span_range.partition("-")
            yield int(place.rpartition("/")[2]), int(first), int(last or first)
    elif "kafka.offset" in attrs:
        first = int(attrs["kafka.offset"])
        yield int(attrs["messaging.destination.partition.id"]), first, int(attrs.get("wirespan.kafka.last_offset", first))


def compare(otlp, work):
    sent, received = {}, collections.defaultdict(set)  # (partition, offset) → pid, pids
    for file in (work / "truth").glob("*.jsonl"):
        for record in map(json.loads, file.read_text().splitlines()):
            key = record["partition"], record["offset"]
            if record["way"] == "sent":
                sent[key] = record["pid"]
            else:
                received[key].add(record["pid"])
    spans, links, calls = {}, [], []  # id → pid, attributes; (from, to); (parent, pid, partition and offset)
    with open(otlp, encoding="utf-8") as lines:
        for line in lines:
            for group in json.loads(line)["resourceSpans"]:
                pid = int(check.attributes(group["resource"]["attributes"]).get("process.pid", 0))
                for raw in (s for scope in group["scopeSpans"] for s in scope["spans"]):
                    spans[raw["spanId"]] = pid, (said := check.attributes(raw.get("attributes")))
                    path = said.get("url.path") or said.get("url.full", "")
                    if raw["kind"] == CLIENT and "/record/" in path:
                        calls.append((raw.get("parentSpanId"), pid, tuple(map(int, path.split("/")[-2:]))))
                    links += [(raw["spanId"], link["spanId"]) for link in raw.get("links", ())]
    linked, right = set(), 0
    for consumer, producer in links:
        if producer not in spans:
            continue
        (to, got), (by, gave) = spans[consumer], spans[producer]
        mine = {(p, o) for p, first, last in moved(consumer, got) for o in range(first, last + 1)}
        theirs = {(p, o) for p, first, last in moved(producer, gave) for o in range(first, last + 1)}
        shared = [key for key in mine & theirs if sent.get(key) == by and to in received[key]]
        right += bool(shared)
        linked.update((key, to) for key in shared)
    fetched = lambda parent, pid, key: spans[parent][0] == pid and any(  # noqa: E731
        p == key[0] and first <= key[1] <= last for p, first, last in moved(parent, spans[parent][1]))
    caused = sum(parent in spans and fetched(parent, pid, key) for parent, pid, key in calls)
    orphans = sum(parent not in spans for parent, _, _ in calls)
    expected = {(key, to) for key, pids in received.items() for to in pids if key in sent}
    return {"records": len(expected), "linked": len(linked & expected), "links": len(links), "right": right,
            "calls": len(calls), "caused": caused, "orphans": orphans}


def main():
    parser = argparse.ArgumentParser(description="Messages through a broker, and the links between who sent and who got them.")
    parser.add_argument("what", choices=["run", "compare", "produce", "consume"])
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--dir", type=pathlib.Path)
    parser.add_argument("--records", type=int, default=100, help="of each producer")
    args = parser.parse_args()
    if args.what == "compare":
        print(json.dumps(compare(*args.files)))
    else:
        {"run": run, "produce": produce, "consume": consume}[args.what](args.dir.resolve(), args.records)


if __name__ == "__main__":
    main()
