#!/usr/bin/env python3
"""Messages through a real Kafka: compares producers, consumers and the calls for each message with the traces.

usage: brokers.py run --dir WORKDIR [--requests N] [--users U [--flat-out]] [--seconds S] [--settle S]
       brokers.py compare OTLP_FILE WORKDIR      JSON; `passages.py` says what is in it

Two producers, two partitions, two consumers that each get all records and make a call for each. Each producer sends
batches of 1 to 5 records and waits for them; or, with --users, U threads in the two send one record each, wait until
both consumers have made their calls for it, and send the next: U records are under way, and share batches and requests
as it comes. With --flat-out, users wait for the broker only, and consumers fall behind.

Run by the Python of target/servers/venv (tests/apps/fetch/fetch.py), in a network namespace of its own (root). Truth is
in WORKDIR/truth: one line per record and process, never on the wire. Says `skip REASON` if something is missing.
"""

import argparse
import concurrent.futures
import http.client
import http.server
import itertools
import json
import mmap
import os
import pathlib
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / folder) for folder in ("serving", "truth")]

import passages  # noqa: E402 - from this folder
import serve  # noqa: E402 - from serving/
import services  # noqa: E402

PORT, CALLED, TOPIC, PARTITIONS = 9092, 8080, "orders", 2
PROCESSES = 2  # of producers, and of consumers
SIZES = (60, 500)  # of records with --users, bytes


# --- the programs -----------------------------------------------------------------------------------------------------


def note(folder, **record):
    with open(folder / f"{record['way']}-{os.getpid()}.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps({"pid": os.getpid(), **record}) + "\n")


def note_sent(folder, future):
    """Notes partition and offset of a sent record, and the first offset of its batch; returns the former two."""
    got = future.get(60)
    note(folder, way="sent", partition=got.partition, offset=got.offset, batch=got.offset - future.args[0])
    return got.partition, got.offset


class Done:
    """The records that each consumer has handled, a byte for each record, in shared files instead of messages."""

    def __init__(self, folder, records):
        self.records = records
        self.maps = []
        for n in range(PROCESSES):
            with open(folder / f"done-{n}", "a+b") as file:
                file.truncate(PARTITIONS * records)
                self.maps.append(mmap.mmap(file.fileno(), 0))

    def mark(self, consumer, partition, offset):
        self.maps[consumer][partition * self.records + offset] = 1

    def by_all(self, partition, offset):
        return all(done[partition * self.records + offset] for done in self.maps)


class Users:
    """Users, each of which waits until its record is handled by all consumers. One thread polls for all of them."""

    def __init__(self, done):
        self.done, self.waiting = done, {}
        threading.Thread(target=self.look, daemon=True).start()

    def wait(self, record):
        self.waiting[record] = event = threading.Event()
        if not event.wait(120):
            raise SystemExit(f"nobody got {record}")

    def look(self):
        while True:
            time.sleep(0.002)
            for record in [record for record in list(self.waiting) if self.done.by_all(*record)]:
                self.waiting.pop(record).set()


def produce(folder, args):
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=f"127.0.0.1:{PORT}", linger_ms=5)
    producer.partitions_for(TOPIC)
    time.sleep(args.settle)
    if args.users:
        by_users(folder, producer, args)
    else:
        in_batches(folder, producer, args.requests)
    producer.close()


def in_batches(folder, producer, records):
    sent = 0
    while sent < records:
        batch = min(1 + sent % 5, records - sent)
        futures = [producer.send(TOPIC, value=b"order", partition=sent % PARTITIONS) for _ in range(batch)]
        for future in futures:
            note_sent(folder, future)
        sent += batch


def by_users(folder, producer, args):
    numbers, end = iter(range(args.requests)), time.monotonic() + (args.seconds or 1e9)
    users = None if args.flat_out else Users(Done(folder, args.all))
    low, high = SIZES

    def user(_):
        for n in numbers:
            if time.monotonic() > end:
                return
            record = note_sent(
                folder, producer.send(TOPIC, value=b"o" * (low + n * 37 % (high - low)), partition=n % PARTITIONS)
            )
            if users:
                users.wait(record)

    with concurrent.futures.ThreadPoolExecutor(args.users) as pool:
        list(pool.map(user, range(args.users)))


def consume(folder, args):
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=f"127.0.0.1:{PORT}", group_id=None, fetch_max_wait_ms=100, auto_offset_reset="earliest"
    )
    consumer.assign([TopicPartition(TOPIC, p) for p in range(PARTITIONS)])
    for p in range(PARTITIONS):
        consumer.seek(TopicPartition(TOPIC, p), 0)
    # The first answer is read before wirespan knows that the connection brings deliveries, so it is not counted.
    consumer.poll(1000)
    (folder / f"ready-{os.getpid()}").touch()
    called = http.client.HTTPConnection("127.0.0.1", CALLED)
    total = folder / "total"  # there when all has been sent
    done, marks = 0, Done(folder, args.all)
    while not total.exists() or done < int(total.read_text()):
        for where, got in consumer.poll(500).items():
            for one in got:
                note(folder, way="received", partition=where.partition, offset=one.offset)
                called.request("GET", f"/record/{where.partition}/{one.offset}")
                called.getresponse().read()
                marks.mark(args.number, where.partition, one.offset)
                done += 1
    consumer.close()


class Called(http.server.BaseHTTPRequestHandler):
    """The server that consumers call for each record."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def shares(number):
    """Number of records of each producer; their sum is `number`."""
    return [number // PROCESSES + (i < number % PROCESSES) for i in range(PROCESSES)]


def run(work, args):
    server = serve.load("kafka")(work, None)
    if reason := server.missing():
        print(f"skip {reason}", flush=True)
        print(json.dumps({"shape": "kafka", "skipped": reason}), flush=True)
        return
    truth = work / "truth"
    truth.mkdir(parents=True)
    services.own_network()
    children = []

    def start(way, **more):
        options = itertools.chain(
            *((f"--{name}", str(value)) for name, value in more.items()), ["--flat-out"] * args.flat_out
        )
        children.append(
            subprocess.Popen(
                [
                    sys.executable,
                    str(HERE / "brokers.py"),
                    way,
                    "--dir",
                    str(truth),
                    "--all",
                    str(args.requests),
                    *options,
                ]
            )
        )

    try:
        server.start()
        server.ready()
        from kafka.admin import KafkaAdminClient, NewTopic

        admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{PORT}")
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
        admin.close()
        called = http.server.ThreadingHTTPServer(("127.0.0.1", CALLED), Called)
        threading.Thread(target=called.serve_forever, daemon=True).start()
        for number in range(PROCESSES):
            start("consume", number=number)
        server.wait(lambda: len(list(truth.glob("ready-*"))) == PROCESSES, "the consumers")
        began = time.monotonic()
        # One user is in one process, which has all the records then.
        for users, records in (
            zip(shares(args.users), shares(args.requests)) if args.users != 1 else [(1, args.requests)]
        ):
            start("produce", users=users, requests=records, seconds=args.seconds, settle=args.settle)
        if any(child.wait() for child in children[PROCESSES:]):
            raise SystemExit(f"a producer failed\n{server.logs()}")
        took = time.monotonic() - began - args.settle
        sent = sum(len(file.read_text().splitlines()) for file in truth.glob("sent-*.jsonl"))
        (work / "total").write_text(str(sent))
        (work / "total").rename(truth / "total")
        if any(child.wait(300) for child in children[:PROCESSES]):
            raise SystemExit(f"a consumer failed\n{server.logs()}")
    finally:
        for child in children:
            if child.poll() is None:
                child.terminate()
                child.wait()
        server.end()
    print(json.dumps({"shape": "kafka", "requests": sent, "broken": 0, "seconds": round(took, 3)}), flush=True)


def main():
    parser = argparse.ArgumentParser(
        description="Messages through a broker, and the links between who sent and who got them."
    )
    parser.add_argument("what", choices=["run", "compare", "produce", "consume"])
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--dir", type=pathlib.Path)
    parser.add_argument("--requests", type=int, default=200, help="in all (200)")
    parser.add_argument(
        "--users", type=int, default=0, help="records under way at once (0: one batch of each producer)"
    )
    parser.add_argument(
        "--seconds", type=float, default=0, help="no record of a user is sent after so long, however few there were"
    )
    parser.add_argument("--flat-out", action="store_true", help="users do not wait for the consumers")
    parser.add_argument(
        "--settle", type=float, default=0, help="how long the producers are up before they send, seconds (0)"
    )
    parser.add_argument(
        "--all", type=int, default=0, help=argparse.SUPPRESS
    )  # of a producer or consumer: records of all producers
    parser.add_argument("--number", type=int, default=0, help=argparse.SUPPRESS)  # of a consumer: which it is
    args = parser.parse_args()
    if args.what == "compare":
        print(json.dumps(passages.compare(*args.files)))
    elif args.what == "run":
        run(args.dir.resolve(), args)
    elif args.what == "produce":
        produce(args.dir, args)
    else:
        consume(args.dir, args)


if __name__ == "__main__":
    main()
