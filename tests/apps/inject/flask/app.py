"""A service of Flask: calls the next service (NEXT) on a kept connection; the last service counts contexts.

gunicorn app:app, with SDK=URL: OpenTelemetry's SDK makes spans, propagates them, and sends them to URL.
"""

import os
import threading

import flask
import requests

app = flask.Flask(__name__)
NEXT = os.environ.get("NEXT")
session = requests.Session()
session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=64))
lock = threading.Lock()
seen = {"requests": 0, "contexts": 0}

if os.environ.get("SDK"):
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.instrumentation.flask import FlaskInstrumentor
    from opentelemetry.instrumentation.requests import RequestsInstrumentor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(os.environ["SDK"])))
    trace.set_tracer_provider(provider)
    FlaskInstrumentor().instrument_app(app)
    RequestsInstrumentor().instrument()


@app.get("/seen")
def show():
    return seen


@app.get("/")
def answer():
    if NEXT:
        return session.get(NEXT, timeout=60).text
    with lock:
        seen["requests"] += 1
        seen["contexts"] += "traceparent" in flask.request.headers
    return "done"
