// Traces for tests, small enough to be written down.
import type { FlameBox, HopView, SpanView, SpanWait, TraceSpan, TraceView } from "../api/types";
import { exact } from "../domain/times";

export function span(id: string, changes: Partial<SpanView> = {}): SpanView {
  return {
    id,
    name: `GET /${id}`,
    service: "web",
    kind: "server",
    tap: "server-process",
    protocol: "http",
    start_ns: "1795297682000000000",
    end_ns: "1795297682010000000",
    duration_ns: 10_000_000,
    status: "ok",
    error: false,
    operation: "GET",
    target: `/${id}`,
    request_bytes: 100,
    response_bytes: 2000,
    client: "10.0.0.1:40000",
    server: "10.0.0.2:80",
    pid: 7,
    tid: 8,
    tcp: { srtt_ns: 50_000, retransmits: 0, resets: 0, connect_ns: 0, queue_ns: 0, request_seq: 1234 },
    attributes: { "service.name": "web", "http.request.method": "GET" },
    ...changes,
  };
}

export function wait(
  thread: string,
  offset_ns: number,
  duration_ns: number,
  changes: Partial<SpanWait> = {},
): SpanWait {
  return {
    kind: "lock",
    thread,
    offset_ns,
    duration_ns,
    ready_ns: 0,
    in_call: false,
    words: "waited for a lock",
    stack: [],
    kernel_stack: [],
    ...changes,
  };
}

export function flameBox(depth: number, from_ns: number, ns: number, name: string): FlameBox {
  return { depth, from_ns, ns, usual_ns: 0, name, kind: depth === 0 ? "request" : "program" };
}

interface Place {
  parent?: string;
  evidence?: string;
  confidence?: number;
  depth?: number;
  at?: number;
  response?: number;
  hop?: HopView;
  hop_over_devices?: HopView;
}

export function item(
  of: SpanView,
  { parent, evidence = "wire", confidence = 1, depth = 0, at = 0, response, ...hops }: Place = {},
): TraceSpan {
  return {
    depth,
    offset_ns: at,
    span: of,
    ...(response === undefined ? {} : { response_offset_ns: response }),
    ...hops,
    ...(parent ? { parent: { span_id: parent, evidence, confidence } } : {}),
  };
}

export function trace(spans: TraceSpan[]): TraceView {
  const services = [...new Set(spans.map((s) => s.span.service))].map((service) => ({ service, spans: 1 }));
  return {
    id: "0123456789abcdef0123456789abcdef",
    start_ns: "1795297682000000000",
    end_ns: "1795297682010000000",
    duration_ns: 10_000_000,
    complete: true,
    errors: spans.filter((s) => s.span.error).length,
    services,
    spans,
  };
}

/** The way from one point to the next, by one clock. */
export const hop = (there: number, back: number): HopView => ({
  there: exact(there),
  back: exact(back),
  both: exact(there + back),
});

/** web calls cart over two network taps; cart calls redis, which fails. */
export function shop(): TraceView {
  return trace([
    item(span("a"), { response: 8_000_000 }),
    item(span("b", { kind: "client", tap: "client-process" }), {
      parent: "a",
      evidence: "thread",
      confidence: 0.98,
      depth: 1,
      at: 1_000_000,
      response: 7_000_000,
    }),
    item(span("c", { service: "", tap: "client-nic" }), {
      parent: "b",
      depth: 2,
      at: 1_010_000,
      response: 6_990_000,
      hop: hop(10_000, 10_000),
    }),
    item(span("d", { service: "", tap: "server-nic" }), {
      parent: "c",
      depth: 3,
      at: 1_040_000,
      response: 6_960_000,
      hop: hop(30_000, 30_000),
    }),
    item(span("e", { service: "cart", duration_ns: 5_800_000 }), {
      parent: "d",
      depth: 4,
      at: 1_060_000,
      response: 6_900_000,
      hop: hop(20_000, 60_000),
      hop_over_devices: hop(60_000, 100_000),
    }),
    item(
      span("f", {
        service: "cart",
        name: "SET cart:7",
        protocol: "redis",
        kind: "client",
        tap: "client-process",
        status: "server-error",
        error: true,
        error_text: "READONLY",
      }),
      { parent: "e", evidence: "inferred", confidence: 0.4, depth: 5, at: 2_000_000 },
    ),
    item(span("g"), { parent: "a", evidence: "thread", depth: 1, at: 9_000_000 }),
  ]);
}

/** A trace as a search finds it. */
export const summary = (id: string, changes: object = {}) => ({
  id,
  root_id: "a",
  name: `GET /${id}`,
  service: "web",
  protocol: "http",
  status: "ok",
  error: false,
  start_ns: "1795297682000000000",
  duration_ns: 10_000_000,
  spans: 7,
  errors: 0,
  services: [{ service: "web", spans: 3 }],
  matched: ["a"],
  complete: true,
  ...changes,
});
