#!/usr/bin/env python3
"""Messages that a broker pushes to a subscriber, which makes a call for each: does the call belong to the message?

usage: subscribers.py run --dir WORKDIR [--messages N] BROKER   BROKER: mosquitto, nats or rabbitmq
       subscribers.py compare OTLP_FILE WORKDIR                 JSON: calls right, wrong, without parent

Messages come one by one: the next message is published after the call for the last one. The message's number stands
in the topic and in the path of the call; wirespan compares neither. Run by the Python of target/servers/venv
(tests/apps/fetch/fetch.py), in a network namespace of its own (root). Says `skip REASON` if something is missing.
"""

import argparse
import asyncio
import http.client
import http.server
import json
import multiprocessing
import pathlib
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / folder) for folder in ("serving", "truth")]

import check  # noqa: E402 - from truth/
import serve  # noqa: E402 - from serving/
import services  # noqa: E402

CALLED = 8080
CLIENT, CONSUMER = 3, 5  # SpanKind in OTLP


# --- the programs -----------------------------------------------------------------------------------------------------


def called():
    """A connection to the called server, and the call for a message."""
    connection = http.client.HTTPConnection("127.0.0.1", CALLED)

    def call(topic):
        number = topic.replace("/", ".").rpartition(".")[2]
        connection.request("GET", f"/message/{number}")
        connection.getresponse().read()

    return call


def nats(server, ready):
    async def main():
        import nats as library

        call = called()
        client = await library.connect(f"nats://127.0.0.1:{server.port}", user="boss", password=server.secret("pass"))

        async def work(message):
            call(message.subject)

        await client.subscribe("orders.*", cb=work)
        await client.flush()
        ready.set()
        await asyncio.sleep(3600)

    asyncio.run(main())


def mosquitto(server, ready):
    server.count = 10  # not the id of the publisher
    client, call = server.open(), called()
    client.on_message = lambda _client, _data, message: call(message.topic)
    client.subscribe("orders/+", qos=1)
    client.subscribed.wait(10)
    ready.set()
    threading.Event().wait()


def rabbitmq(server, ready):
    connection, call = server.open(), called()
    channel = connection.channel()
    channel.queue_declare("orders")
    channel.queue_bind("orders", "amq.topic", "orders.*")

    def work(of, method, _properties, _body):
        call(method.routing_key)
        of.basic_ack(method.delivery_tag)

    channel.basic_consume("orders", work)
    ready.set()
    channel.start_consuming()


def publisher(broker, server):
    """A function that publishes to a topic."""
    if broker == "mosquitto":
        client = server.open()
        return lambda topic: client.publish(topic.replace(".", "/"), "order", qos=1).wait_for_publish(10)
    if broker == "rabbitmq":
        channel = server.open().channel()
        return lambda topic: channel.basic_publish("amq.topic", topic, b"order")
    client = server.open()

    async def publish(topic):
        await client.publish(topic, b"order")
        await client.flush()

    return lambda topic: client.loop.run_until_complete(publish(topic))


class Called(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    calls = threading.Semaphore(0)

    def do_GET(self):
        self.send_response(204)
        self.end_headers()
        self.calls.release()

    def log_message(self, *_):
        pass


def run(broker, work, messages):
    server = serve.load(broker)(work, None)
    if reason := server.missing():
        print(f"skip {reason}", flush=True)
        return
    services.own_network()
    fork = multiprocessing.get_context("fork")
    ready, subscriber = fork.Event(), None
    try:
        server.start()
        server.ready()
        subscriber = fork.Process(target=globals()[broker], args=(server, ready), daemon=True)
        subscriber.start()
        if not ready.wait(30):
            raise SystemExit(f"the subscriber was not ready\n{server.logs()}")
        to = http.server.ThreadingHTTPServer(("127.0.0.1", CALLED), Called)
        threading.Thread(target=to.serve_forever, daemon=True).start()
        publish = publisher(broker, server)
        for number in range(messages):
            publish(f"orders.{number}")
            if not Called.calls.acquire(timeout=30):
                raise SystemExit(f"no call for message {number}\n{server.logs()}")
            if number == 0:
                time.sleep(2)  # a busy machine tells the kernel late that the connection brings work
    finally:
        if subscriber:
            subscriber.kill()
        server.end()
    print(f"{messages} messages", flush=True)


# --- the comparison ---------------------------------------------------------------------------------------------------


def compare(otlp):
    spans = {}
    with open(otlp, encoding="utf-8") as lines:
        for group in (g for line in lines for g in json.loads(line)["resourceSpans"]):
            for raw in (s for scope in group["scopeSpans"] for s in scope["spans"]):
                spans[raw["spanId"]] = raw, check.attributes(raw.get("attributes"))
    said = {"calls": 0, "right": 0, "wrong": 0, "without": 0}
    for raw, attrs in spans.values():
        path = attrs.get("url.path") or attrs.get("url.full", "")
        # The calls for the first message are made before the kernel knows that the connection brings deliveries.
        if raw["kind"] != CLIENT or "/message/" not in path or path.endswith("/message/0"):
            continue
        said["calls"] += 1
        parent, message = spans.get(raw.get("parentSpanId"), ({}, {}))
        named = message.get("messaging.destination.name", "").replace(":", "/").replace("/", ".")
        right = parent.get("kind") == CONSUMER and named.endswith(f"orders.{path.rpartition('/')[2]}")
        said["right" if right else "wrong" if parent else "without"] += 1
    return said


def main():
    parser = argparse.ArgumentParser(
        description="Messages that a broker pushes to a subscriber, which makes a call for each."
    )
    parser.add_argument("what", choices=["run", "compare"])
    parser.add_argument("of", nargs="+", help="mosquitto, nats or rabbitmq; or the files to compare")
    parser.add_argument("--dir", type=pathlib.Path)
    parser.add_argument("--messages", type=int, default=40)
    args = parser.parse_args()
    if args.what == "compare":
        print(json.dumps(compare(args.of[0])))
    else:
        run(args.of[0], args.dir.resolve(), args.messages)


if __name__ == "__main__":
    main()
