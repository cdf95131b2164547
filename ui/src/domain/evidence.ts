// Why a span is believed to be the child of another, in words.

import type { SpanView, TraceSpan } from "../api/types";

interface Words {
  readonly label: string;
  readonly title: string;
}

const WORDS: Record<string, Words> = {
  carried: { label: "carried", title: "The message itself named its parent" },
  wire: { label: "wire", title: "Both saw the same bytes on the network" },
  "request-id": { label: "request id", title: "Both sides of the process carried the same X-Request-ID" },
  thread: { label: "thread", title: "One thread received the request and sent this one" },
  coroutine: { label: "coroutine", title: "One goroutine or coroutine, or one that it started, did both" },
  "child-task": { label: "child task", title: "A thread or process that the handler started sent it" },
  connect: { label: "connect", title: "The handling thread opened the connection" },
  "wake-up": { label: "wake-up", title: "The handling thread woke the thread that sent it" },
  "event-loop": { label: "event loop", title: "The event loop had last read the parent's socket" },
  broker: {
    label: "broker",
    title: "A broker's own name of the message: topic, partition and offset, stream sequence or message id",
  },
  "trace-id": { label: "trace id", title: "Both carry the same trace id" },
  forwarded: {
    label: "forwarded",
    title: "Caller and called carry the same trace context or X-Request-ID; what lies between was not seen",
  },
  inferred: { label: "inferred", title: "Timing and call structure only" },
};

export function evidenceLabel(evidence: string): string {
  return WORDS[evidence]?.label ?? evidence;
}

export function evidenceTitle(evidence: string): string {
  return WORDS[evidence]?.title ?? evidence;
}

/** How far the evidence can be trusted: seen in the bytes or the kernel, followed inside a process, or guessed. */
export function strength(evidence: string, confidence: number): "strong" | "fair" | "weak" {
  if (evidence === "inferred" || confidence < 0.5) return "weak";
  if (
    ["carried", "wire", "request-id", "thread", "coroutine", "child-task", "broker"].includes(evidence) &&
    confidence >= 0.9
  )
    return "strong";
  return "fair";
}

export function formatConfidence(confidence: number): string {
  return `${Math.round(confidence * 100)} %`;
}

/** One or two sentences with the facts of these two spans. */
export function explain(item: TraceSpan, parent: SpanView | undefined): string {
  const link = item.parent;
  if (!link) return "Nothing that was seen called this: it is where the trace begins.";
  if (!parent) return `Its parent ${link.span_id} is not in this trace.`;
  const { span } = item;
  const who = parent.service || tapLabel(parent.tap);
  const where = parent.service ? `${parent.service}, ${tapWords(parent.tap)}` : tapWords(parent.tap);
  const seq = span.tcp.request_seq;
  const request = `“${parent.name}”`;
  switch (link.evidence) {
    case "wire": {
      if (seq == null) return `The same message was seen one step before (${where}): same addresses, same message id.`;
      const place = `The first byte of the request has TCP sequence number ${seq}`;
      return `${place} both here and one step before (${where}): the same bytes at two places.`;
    }
    case "thread":
      return `Thread ${span.tid} of ${who} read the request ${request} and sent this before it read anything else.`;
    case "coroutine": {
      const actor = span.coroutine ? `Goroutine or coroutine ${span.coroutine}` : "A goroutine or coroutine";
      return `${actor} of ${who} handles ${request}. It, or one that it started, sent this.`;
    }
    case "child-task":
      return `The task that handles ${request} in ${who} started the thread or process (${span.tid}) that sent this.`;
    case "connect":
      return `The thread that handles ${request} in ${who} opened the connection on which this was sent.`;
    case "wake-up":
      return `The thread that handles ${request} in ${who} woke thread ${span.tid}, which then sent this.`;
    case "event-loop": {
      const loop = `Thread ${span.tid} of ${who} is an event loop.`;
      return `${loop} The socket that it read last before it sent this was that of ${request}.`;
    }
    case "carried":
      return `The message carried a trace context that names span ${link.span_id} as its parent.`;
    case "request-id": {
      const id = span.request_id ? ` (${span.request_id})` : "";
      return `${request} and this request of the same process carry the same X-Request-ID${id}.`;
    }
    case "forwarded": {
      const id = span.request_id ? `X-Request-ID (${span.request_id})` : "trace context";
      const same = `${request} and this request carry the same ${id}, and no other call fits.`;
      return `${same} What lies between was not seen.`;
    }
    case "trace-id": {
      const id = span.carried_trace_id ? ` (${span.carried_trace_id})` : "";
      return `Both carry the same trace id${id}; the message named no parent span.`;
    }
    case "inferred":
      return `Nothing connects the two but their times: this ran while ${request} was handled. Take it as a guess.`;
    default:
      return `${evidenceTitle(link.evidence)}.`;
  }
}

const TAPS: Record<string, string> = {
  app: "reported by the application's own SDK",
  "client-process": "seen at the sockets of the calling process",
  "client-nic": "seen at the network interface of the caller",
  "client-node": "seen on the caller's node",
  gateway: "seen at a gateway between the two",
  "server-node": "seen on the callee's node",
  "server-nic": "seen at the network interface of the callee",
  "server-process": "seen at the sockets of the answering process",
  capture: "read from a capture file",
};

export function tapWords(tap: string): string {
  return TAPS[tap] ?? tap;
}

const SHORT_TAPS: Record<string, string> = {
  app: "SDK",
  "client-process": "client",
  "client-nic": "client NIC",
  "client-node": "client node",
  gateway: "gateway",
  "server-node": "server node",
  "server-nic": "server NIC",
  "server-process": "server",
  capture: "capture",
};

export function tapLabel(tap: string): string {
  return SHORT_TAPS[tap] ?? tap;
}
