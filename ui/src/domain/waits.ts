// What the threads of a span waited for, placed in the span's time.

import type { SpanWait } from "../api/types";

const LABELS: Record<string, string> = {
  lock: "lock",
  socket: "socket",
  disk: "disk",
  sleep: "sleep",
  epoll: "events",
  pipe: "pipe",
  "page-fault": "page of memory",
  "run-queue": "no processor",
  "cpu-limit": "CPU limit",
  process: "end of a process",
  runtime: "runtime",
  other: "kernel",
};

/** The kind of a wait in a word or two. */
export function kindLabel(kind: string): string {
  return LABELS[kind] ?? kind;
}

export interface Mark {
  readonly wait: SpanWait;
  /** Percent of the span's time. */
  readonly left: number;
  readonly width: number;
}

export interface Lane {
  readonly thread: string;
  readonly marks: readonly Mark[];
}

/** One lane for each thread, in the order in which they first waited. What lies outside of the span is cut. */
export function lanes(waits: readonly SpanWait[], durationNs: number): Lane[] {
  const all = Math.max(1, durationNs);
  const found = new Map<string, Mark[]>();
  for (const wait of [...waits].sort((a, b) => a.offset_ns - b.offset_ns)) {
    const left = Math.min(100, (wait.offset_ns / all) * 100);
    const width = Math.min(100 - left, (wait.duration_ns / all) * 100);
    const marks = found.get(wait.thread) ?? [];
    marks.push({ wait, left, width });
    found.set(wait.thread, marks);
  }
  return [...found].map(([thread, marks]) => ({ thread, marks }));
}

/** The longest `count` waits, in the order of time. */
export function longest(waits: readonly SpanWait[], count: number): SpanWait[] {
  const chosen = [...waits].sort((a, b) => b.duration_ns - a.duration_ns).slice(0, count);
  return chosen.sort((a, b) => a.offset_ns - b.offset_ns);
}

/** Why the waits were recorded. */
export function reasonWords(reason: string): string {
  switch (reason) {
    case "sample":
      return "Recorded as one of the sample of usual requests.";
    case "error":
      return "Recorded because the request failed.";
    default:
      return "Recorded because the request was slow.";
  }
}
