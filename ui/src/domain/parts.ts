// Where the time of a span went: the attributes `wirespan.wait.*` add up to its duration.

import type { SpanView } from "../api/types";

/** In the order in which they are drawn. `key` is the end of the attribute's name. */
const PARTS = [
  { key: "on_cpu", label: "on a processor", words: "ran: the work itself takes the time" },
  { key: "run_queue", label: "ready, no processor", words: "was ready and got no processor: something else ran there" },
  { key: "cpu_limit", label: "CPU limit", words: "was held back by the CPU limit of its cgroup" },
  {
    key: "runtime_queue",
    label: "ready, runtime busy",
    words: "was ready, and the runtime of its program (Go's scheduler) ran others",
  },
  {
    key: "blocked",
    label: "blocked",
    words: "blocked outside of calls that were seen: by a lock, a timer, a disk, or traffic that is not traced",
  },
  { key: "other_requests", label: "busy for others", words: "waited because its thread worked for other requests" },
  { key: "children", label: "in its calls", words: "waited for the other end of its calls" },
  { key: "unknown", label: "not known", words: "another thread took over, and how long it waited was not seen" },
] as const;

export type PartKey = (typeof PARTS)[number]["key"];

export interface Part {
  readonly key: PartKey;
  readonly label: string;
  readonly words: string;
  readonly ns: number;
  /** Of the span's duration, 0–1. */
  readonly share: number;
}

/** The parts of a span that are not 0; empty if its threads were not seen. */
export function parts(span: SpanView): Part[] {
  const all = Math.max(1, span.duration_ns);
  return PARTS.flatMap(({ key, label, words }) => {
    const ns = Number(span.attributes[`wirespan.wait.${key}`] ?? 0);
    return ns > 0 ? [{ key, label, words, ns, share: ns / all }] : [];
  });
}

/** What took most of the time; null if that is not known. */
export function most(list: readonly Part[]): Part | null {
  return list.reduce<Part | null>((a, b) => (a && a.ns >= b.ns ? a : b), null);
}

/** The label of a part by the name of its attribute. */
export function partLabel(attribute: string): string {
  return PARTS.find(({ key }) => attribute === `wirespan.wait.${key}`)?.label ?? attribute;
}
