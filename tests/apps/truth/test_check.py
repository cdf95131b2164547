"""The checker against traces whose mistakes are known."""

import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check  # noqa: E402 - from this folder

MS = 1_000_000


def record(kind, service, id_, client, server, start, end, **more):
    local, peer = (client, server) if kind == "client" else (server, client)
    base = {
        "kind": kind,
        "service": service,
        "id": id_,
        "local": f"127.0.0.1:{local}",
        "peer": f"127.0.0.1:{peer}",
        "start": start * MS,
        "end": end * MS,
    }
    return {**base, "protocol": "http", "operation": "GET", "target": "/x", "status": 200, **more}


def truth():
    """Two requests of one customer, one connection each way; each: load → gateway → storefront → catalog, redis."""
    out = []
    for n in range(2):
        t = n * 100
        out += [
            record("client", "load", f"l{n}", 40000, 8000, t, t + 50, **{"in": None}, request_id=f"r{n}"),
            record("server", "storefront", f"s{n}", 41000, 8001, t + 5, t + 45, request_id=f"r{n}"),
            record("client", "storefront", f"c{n}", 42000, 8002, t + 10, t + 20, **{"in": f"s{n}"}),
            record("server", "catalog", f"k{n}", 42000, 8002, t + 12, t + 18),
            record(
                "client",
                "storefront",
                f"d{n}",
                43000,
                8005,
                t + 25,
                t + 30,
                **{"in": f"s{n}"},
                protocol="redis",
                status=0,
            ),
        ]
    return out


def spans(with_load=True):
    """The right answer: id → span as a dictionary."""
    out = {}
    for n in range(2):
        t = n * 100
        chain = [
            ("load-c", 3, 40000, 8000, t, t + 49, None),
            ("gw-s", 2, 40000, 8000, t + 1, t + 48, "load-c"),
            ("gw-c", 3, 41000, 8001, t + 3, t + 46, "gw-s"),
            ("sf-s", 2, 41000, 8001, t + 4, t + 44, "gw-c"),
            ("cat-c", 3, 42000, 8002, t + 10, t + 20, "sf-s"),
            ("cat-s", 2, 42000, 8002, t + 11, t + 19, "cat-c"),
            ("red-c", 3, 43000, 8005, t + 25, t + 30, "sf-s"),
            ("red-s", 2, 43000, 8005, t + 26, t + 29, "red-c"),
        ]
        for name, kind, client, server, start, end, parent in chain:
            if name == "load-c" and not with_load:
                continue
            if parent == "load-c" and not with_load:
                parent = None
            out[f"{name}{n}"] = {
                "traceId": f"trace{n}",
                "spanId": f"{name}{n}",
                "parentSpanId": f"{parent}{n}" if parent else "",
                "name": name,
                "kind": kind,
                "startTimeUnixNano": str(start * MS),
                "endTimeUnixNano": str(end * MS),
                "attributes": [
                    {"key": "client.port", "value": {"intValue": str(client)}},
                    {"key": "server.port", "value": {"intValue": str(server)}},
                ],
            }
    return out


class CheckTest(unittest.TestCase):
    def compare(self, made, records=None):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            (folder / "all.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records or truth()))
            otlp = folder / "spans.otlp"
            otlp.write_text(
                "".join(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [s]}]}]}) + "\n" for s in made.values())
            )
            return check.compare(check.read_truth(folder), check.read_spans(otlp))

    def test_right_traces_are_exact(self):
        result = self.compare(spans())
        self.assertEqual((result["exact"], result["requests"]), (2, 2))
        self.assertEqual((result["spans expected"], result["links expected"]), (16, 14))
        self.assertEqual((result["link precision"], result["link recall"]), (1.0, 1.0))

    def test_customers_need_not_be_traced(self):
        result = self.compare(spans(with_load=False))
        self.assertEqual((result["exact"], result["spans expected"]), (2, 14))

    def test_a_device_between_is_skipped_over(self):
        made = spans()
        nic = dict(made["cat-s0"], spanId="nic", parentSpanId="cat-c0")
        nic["attributes"] = nic["attributes"] + [{"key": "wirespan.tap_side", "value": {"stringValue": "server-nic"}}]
        made["nic"] = nic
        made["cat-s0"]["parentSpanId"] = "nic"
        self.assertEqual(self.compare(made)["exact"], 2)

    def test_a_missing_span_is_seen(self):
        made = spans()
        del made["red-s1"]
        result = self.compare(made)
        self.assertEqual(result["exact"], 1)
        self.assertLess(result["link recall"], 1)
        self.assertEqual(result["differences"][0]["wrong"], ["missing: storefront→redis GET /x, server span"])

    def test_a_parent_in_another_request_is_seen(self):
        made = spans()
        made["cat-c1"]["parentSpanId"] = "sf-s0"
        result = self.compare(made)
        self.assertEqual(result["exact"], 1)
        self.assertEqual(result["link precision"], 13 / 14)

    def test_two_requests_in_one_trace_are_both_wrong(self):
        made = spans()
        for span in made.values():
            span["traceId"] = "one"
        self.assertEqual(self.compare(made)["exact"], 0)

    def test_a_split_trace_is_seen(self):
        made = spans()
        made["red-s0"]["traceId"] = "other"
        self.assertEqual(self.compare(made)["exact"], 1)

    def test_an_orphan_is_not_a_root(self):
        made = spans()
        made["cat-s0"]["parentSpanId"] = ""
        self.assertEqual(self.compare(made)["exact"], 1)

    def test_a_span_of_nobody_is_extra(self):
        made = spans()
        made["extra"] = dict(
            made["cat-s0"], spanId="extra", startTimeUnixNano=str(60 * MS), endTimeUnixNano=str(61 * MS)
        )
        self.assertEqual(self.compare(made)["exact"], 1)

    def test_a_server_that_noted_its_end_late_is_still_found(self):
        made, late = spans(), truth()
        for r in late:
            if r["kind"] == "server":
                r["end"] += 95 * MS
        self.assertEqual(self.compare(made, late)["exact"], 2)

    def test_a_missing_span_is_not_filled_by_the_next_on_the_connection(self):
        made = spans()
        for id_ in ("cat-c0", "cat-s0", "gw-c0"):
            del made[id_]
        missing = [w for w in self.compare(made)["differences"][0]["wrong"] if w.startswith("missing")]
        self.assertEqual(len(missing), 3)

    def test_wrong_status_is_seen(self):
        made = spans()
        made["cat-s0"]["attributes"] = made["cat-s0"]["attributes"] + [
            {"key": "http.response.status_code", "value": {"intValue": "500"}}
        ]
        result = self.compare(made)
        self.assertEqual((result["exact"], result["wrong status"]), (1, 1))

    def test_nothing_seen_is_nothing_right(self):
        result = self.compare({})
        self.assertEqual((result["exact"], result["spans found"]), (0, 0))


if __name__ == "__main__":
    unittest.main()
