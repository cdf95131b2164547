"""Sends three spans with the OpenTelemetry SDK. Arguments: grpc|http|http-gzip, endpoint. Prints their ids as JSON."""

import json
import sys

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode

how, endpoint = sys.argv[1:]
if how == "grpc":
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    exporter = OTLPSpanExporter(endpoint=endpoint, insecure=True)
else:
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    gzip = Compression.Gzip if how == "http-gzip" else Compression.NoCompression
    exporter = OTLPSpanExporter(endpoint=endpoint + "/v1/traces", compression=gzip)

provider = TracerProvider(resource=Resource.create({"service.name": "sdk-" + how, "host.name": "here"}))
provider.add_span_processor(BatchSpanProcessor(exporter))
tracer = provider.get_tracer("test.lib", "1.2")
ids = {}


def note(span):
    context = span.get_span_context()
    ids[span.name] = {"trace": f"{context.trace_id:032x}", "span": f"{context.span_id:016x}"}


with tracer.start_as_current_span("GET /cart/{id}", kind=SpanKind.SERVER) as server:
    note(server)
    server.set_attribute("http.request.method", "GET")
    server.set_attribute("http.response.status_code", 500)
    server.set_attribute("tags", ["a", "b"])
    with tracer.start_as_current_span("work") as work:
        note(work)
        with tracer.start_as_current_span("SELECT cart", kind=SpanKind.CLIENT) as client:
            note(client)
            client.set_attribute("db.system.name", "postgresql")
            client.set_attribute("network.peer.address", "10.1.2.3")
            client.set_attribute("network.peer.port", 5432)
            client.record_exception(KeyError("gone"))
            client.set_status(Status(StatusCode.ERROR, "no row – é"))
assert provider.force_flush(5000)
provider.shutdown()
print(json.dumps(ids))
