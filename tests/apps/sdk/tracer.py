"""Spans of a program: OpenTelemetry's SDK if it is installed and wanted, else a small one that sends the same."""

import contextlib
import contextvars
import ctypes
import json
import os
import secrets
import threading
import time
import urllib.request

INTERNAL, SERVER, CLIENT = 1, 2, 3


class Published:
    """Publishes the span of each thread by a library made of context.c; does nothing without one."""

    def __init__(self, library):
        if library:
            self.publish = ctypes.CDLL(library).publish
            self.publish.argtypes, self.publish.restype = [ctypes.c_void_p], ctypes.c_void_p
        else:
            self.publish = lambda record: None

    @contextlib.contextmanager
    def within(self, span):
        """Trace, span, 1: it is valid, flags, no attributes."""
        ids = bytes.fromhex(span["traceId"] + span["spanId"])
        record = ctypes.create_string_buffer(ids + bytes([1, 1, 0, 0]))
        before = self.publish(ctypes.addressof(record))
        try:
            yield
        finally:
            self.publish(before)


class Own:
    """Sends OTLP as JSON, each half second, as the SDK's batches do."""

    def __init__(self, endpoint, resource):
        self.endpoint, self.resource = endpoint, resource
        self.current = contextvars.ContextVar("span", default=None)
        self.done, self.lock = [], threading.Lock()
        self.published = Published(os.environ.get("SDK_CONTEXT"))
        threading.Thread(target=self.send_often, daemon=True).start()

    @contextlib.contextmanager
    def span(self, name, kind=INTERNAL, headers=None, attributes=None):
        above = self.current.get()
        trace, parent = (above["traceId"], above["spanId"]) if above else (secrets.token_hex(16), "")
        if headers and (carried := headers.get("traceparent")):
            _, trace, parent, _ = carried.split("-")
        span = {"traceId": trace, "spanId": secrets.token_hex(8), "name": name, "kind": kind}
        span["attributes"] = self.pairs(attributes or {})
        if parent:
            span["parentSpanId"] = parent
        token = self.current.set(span)
        span["startTimeUnixNano"] = str(time.time_ns())
        try:
            with self.published.within(span):
                yield span["spanId"]
        finally:
            span["endTimeUnixNano"] = str(time.time_ns())
            self.current.reset(token)
            with self.lock:
                self.done.append(span)

    @staticmethod
    def pairs(values):
        kind = {int: "intValue", str: "stringValue"}
        return [{"key": key, "value": {kind[type(value)]: value}} for key, value in values.items()]

    def inject(self, headers):
        span = self.current.get()
        headers["traceparent"] = f"00-{span['traceId']}-{span['spanId']}-01"

    def send_often(self):
        while True:
            time.sleep(0.5)
            self.flush()

    def flush(self):
        with self.lock:
            spans, self.done = self.done, []
        if spans:
            group = {"resource": {"attributes": self.pairs(self.resource)}, "scopeSpans": [{"spans": spans}]}
            body = json.dumps({"resourceSpans": [group]}).encode()
            headers = {"Content-Type": "application/json"}
            urllib.request.urlopen(urllib.request.Request(self.endpoint, body, headers)).read()


class Sdk:
    """OpenTelemetry's."""

    def __init__(self, endpoint, resource):
        from opentelemetry import propagate, trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self.propagate, self.trace = propagate, trace
        self.provider = TracerProvider(resource=Resource.create(resource))
        batches = BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint), schedule_delay_millis=500)
        self.provider.add_span_processor(batches)
        self.tracer = self.provider.get_tracer("tests.apps.sdk")

    @contextlib.contextmanager
    def span(self, name, kind=INTERNAL, headers=None, attributes=None):
        context = self.propagate.extract(headers) if headers else None
        kinds = {INTERNAL: "INTERNAL", SERVER: "SERVER", CLIENT: "CLIENT"}
        kind = self.trace.SpanKind[kinds[kind]]
        with self.tracer.start_as_current_span(name, context, kind, attributes or {}) as span:
            yield f"{span.get_span_context().span_id:016x}"

    def inject(self, headers):
        self.propagate.inject(headers)

    def flush(self):
        self.provider.force_flush()


def tracer(which, endpoint, name, with_pid):
    resource = {"service.name": name}
    if with_pid:
        resource["process.pid"] = os.getpid()
    return {"own": Own, "sdk": Sdk}[which](endpoint, resource)
