// A trace as rows of a waterfall: a tree in depth-first order, some of it folded away.

import type { SpanView, TraceSpan, TraceView } from "../api/types";

export interface Row {
  readonly index: number;
  readonly item: TraceSpan;
  readonly depth: number;
  /** Spans below this one, folded or not. */
  readonly below: number;
  readonly children: number;
  readonly collapsed: boolean;
  /** Whether an error hides below this folded row. */
  readonly hiddenError: boolean;
  readonly hop: Hop | null;
}

/** How long a message took between two observation points of the same request. */
export interface Hop {
  /** Null where the points are of two hosts, and nothing compares their clocks well enough. */
  readonly request: Measured | null;
  /** Null in this case, too, and where one of the points saw no response. */
  readonly response: Measured | null;
  /** Both together. No clocks are compared, so this is exact. Null where one of the points saw no response. */
  readonly bothNs: number | null;
}

/** A time with how far the truth may lie from it. */
export interface Measured {
  readonly ns: number;
  readonly errorNs: number;
}

/** What a span says of the hop that ends at it. */
function told(span: SpanView, key: "request" | "response"): Measured | null {
  const ns = span.attributes[`wirespan.hop.${key}_ns`];
  if (ns === undefined) return null;
  return { ns: Number(ns), errorNs: Number(span.attributes[`wirespan.hop.${key}_error_ns`] ?? 0) };
}

/** The most that a time can be, where its error leaves open whether it is anything at all; else null. */
export function atMost(time: Measured): number | null {
  return time.errorNs > 0 && time.errorNs >= time.ns ? time.ns + time.errorNs : null;
}

/** A time in words: `4.0 µs ± 1.0 µs`, `at most 5.0 µs` or `unknown`. */
export function measured(time: Measured | null, duration: (ns: number) => string): string {
  if (!time) return "unknown";
  const most = atMost(time);
  if (most !== null) return `at most ${duration(most)}`;
  return time.errorNs > 0 ? `${duration(time.ns)} ± ${duration(time.errorNs)}` : duration(time.ns);
}

/** A hop in a narrow column, and in words. `duration` writes a time. */
export function hopText(hop: Hop, duration: (ns: number) => string): { short: string; words: string } {
  const short = (time: Measured | null) => {
    if (!time) return "?";
    const most = atMost(time);
    if (most !== null) return `≤${duration(most)}`;
    return `${time.errorNs > 0 ? "≈" : ""}${duration(time.ns)}`;
  };
  const there = `request ${measured(hop.request, duration)}`;
  if (hop.bothNs === null) return { short: short(hop.request), words: there };
  const both = `${duration(hop.bothNs)} for request and response together`;
  if (!hop.request && !hop.response) {
    const why =
      "the time of one direction is unknown, because nothing compares the clocks of the two hosts well enough";
    return { short: `↔ ${duration(hop.bothNs)}`, words: `${both}; ${why}` };
  }
  const words = `${there}, response ${measured(hop.response, duration)}; ${both}`;
  return { short: `${short(hop.request)} · ${short(hop.response)}`, words };
}

/** Whether the point before the span is of another host. */
const crosses = (item: TraceSpan | undefined) => item?.span.attributes["wirespan.hop.clocks"] !== undefined;

/** Taps that are neither end: packets between processes. */
const BETWEEN = new Set(["client-nic", "client-node", "gateway", "server-node", "server-nic"]);

export function isNetworkTap(tap: string): boolean {
  return BETWEEN.has(tap);
}

/** Name of the device where a point between processes is; empty if it is not known. */
export function device(span: SpanView): string {
  return String(span.attributes["network.interface.name"] ?? "");
}

export interface Tree {
  readonly trace: TraceView;
  readonly byId: ReadonlyMap<string, number>;
  /** Index of the parent of each span, -1 for a root. */
  readonly parents: readonly number[];
  /** Index behind the last span below each span. */
  readonly ends: readonly number[];
  readonly children: readonly number[];
}

export function tree(trace: TraceView): Tree {
  const byId = new Map(trace.spans.map((item, index) => [item.span.id, index]));
  const parents = trace.spans.map((item) => byId.get(item.parent?.span_id ?? "") ?? -1);
  const ends = trace.spans.map((_, index) => index + 1);
  const children = trace.spans.map(() => 0);
  // Parents come before children, so going backwards each end is final before it is passed up.
  for (let index = parents.length - 1; index >= 0; index -= 1) {
    const parent = parents[index] ?? -1;
    if (parent < 0 || parent >= index) continue;
    ends[parent] = Math.max(ends[parent] ?? 0, ends[index] ?? 0);
    children[parent] = (children[parent] ?? 0) + 1;
  }
  return { trace, byId, parents, ends, children };
}

/**
 * Latency between a span and its parent, if both saw the same message. `between`: points that are not shown, if the
 * parent is not the next one.
 */
export function hop(item: TraceSpan, parent: TraceSpan | undefined, between: readonly TraceSpan[] = []): Hop | null {
  if (!parent || item.parent?.evidence !== "wire") return null;
  const there = item.offset_ns - parent.offset_ns;
  const back =
    item.response_offset_ns != null && parent.response_offset_ns != null
      ? parent.response_offset_ns - item.response_offset_ns
      : null;
  const compared = [item, ...between].some(crosses);
  const both = back === null ? null : there + back;
  const exact = (ns: number | null) => (ns === null || compared ? null : { ns, errorNs: 0 });
  const own = (key: "request" | "response") => (between.length === 0 ? told(item.span, key) : null);
  return {
    request: own("request") ?? exact(there),
    response: own("response") ?? exact(back),
    // Less than nothing: what the two hosts saw contradicts each other.
    bothNs: compared && both !== null && both < 0 ? null : both,
  };
}

/** Visible rows: nothing below a collapsed span. Where network taps are hidden, their children move up. */
export function rows(t: Tree, collapsed: ReadonlySet<string>, hideNetwork: boolean): Row[] {
  const result: Row[] = [];
  const { spans } = t.trace;
  const depths: number[] = [];
  for (let index = 0; index < spans.length; ) {
    const item = spans[index];
    if (!item) break;
    const parent = t.parents[index] ?? -1;
    const hidden = hideNetwork && isNetworkTap(item.span.tap);
    const depth = parent < 0 ? 0 : (depths[parent] ?? 0) + 1;
    // A hidden span has the depth of its parent, so that what is below it stands one step under that parent.
    depths[index] = hidden ? depth - 1 : depth;
    const end = t.ends[index] ?? index + 1;
    const folded = collapsed.has(item.span.id) && end > index + 1;
    if (!hidden) {
      result.push({
        index,
        item,
        depth,
        below: end - index - 1,
        children: t.children[index] ?? 0,
        collapsed: folded,
        hiddenError: folded && spans.slice(index + 1, end).some((below) => below.span.error),
        hop: hopOf(t, index, hideNetwork),
      });
    }
    index = folded && !hidden ? end : index + 1;
  }
  return result;
}

function hopOf(t: Tree, index: number, hideNetwork: boolean): Hop | null {
  const { spans } = t.trace;
  const item = spans[index];
  const shown = visibleParent(t, index, hideNetwork);
  const between: TraceSpan[] = [];
  for (let at = t.parents[index] ?? -1; at >= 0 && at !== shown; at = t.parents[at] ?? -1) {
    const hidden = spans[at];
    if (hidden) between.push(hidden);
  }
  return item ? hop(item, spans[shown], between) : null;
}

function visibleParent(t: Tree, index: number, hideNetwork: boolean): number {
  let parent = t.parents[index] ?? -1;
  while (hideNetwork && parent >= 0 && isNetworkTap(t.trace.spans[parent]?.span.tap ?? ""))
    parent = t.parents[parent] ?? -1;
  return parent;
}

/** Ids of every span that has children: collapsing them folds the whole trace. */
export function foldable(t: Tree): string[] {
  return t.trace.spans.filter((_, index) => (t.children[index] ?? 0) > 0).map((item) => item.span.id);
}

/** The spans above a span, nearest first. */
export function ancestors(t: Tree, id: string): string[] {
  const above: string[] = [];
  let index = t.parents[t.byId.get(id) ?? -1] ?? -1;
  while (index >= 0) {
    const item = t.trace.spans[index];
    if (item) above.push(item.span.id);
    index = t.parents[index] ?? -1;
  }
  return above;
}

/** A part of the trace's time, ns since its start. */
export interface TimeWindow {
  readonly from: number;
  readonly to: number;
}

/** The time of a span and a little around it. */
export function around(item: TraceSpan, totalNs: number): TimeWindow {
  const margin = Math.max(1, item.span.duration_ns * 0.1);
  return {
    from: Math.max(0, item.offset_ns - margin),
    to: Math.min(totalNs, item.offset_ns + item.span.duration_ns + margin),
  };
}

/** Reads a window as the URL holds it (`1200-5400`); all of the trace if it is none. */
export function readWindow(text: string, totalNs: number): TimeWindow {
  const match = /^(\d+)-(\d+)$/.exec(text);
  const from = Number(match?.[1] ?? 0);
  const to = Math.min(totalNs, Number(match?.[2] ?? totalNs));
  return to > from ? { from, to } : { from: 0, to: Math.max(1, totalNs) };
}

export interface Bar {
  /** Per cent of the window's width. */
  readonly left: number;
  readonly width: number;
  /** Per cent of the bar that passed until the first byte of the response; null if there was none. */
  readonly response: number | null;
  /** On which side the span lies, if it is out of sight. */
  readonly hidden: "before" | "after" | null;
}

/** Place of a span in a window of time. */
export function place(item: TraceSpan, window: TimeWindow): Bar {
  const total = window.to - window.from;
  const percent = (offset: number) => ((offset - window.from) / total) * 100;
  const start = percent(item.offset_ns);
  const end = percent(item.offset_ns + item.span.duration_ns);
  // A bar that begins or ends outside is cut, but so far outside that its end is not seen.
  const left = Math.max(-5, start);
  const width = Math.max(0, Math.min(105, end) - left);
  const arrival = item.response_offset_ns == null ? null : percent(item.response_offset_ns);
  const response =
    arrival === null || width === 0 ? null : Math.min(100, Math.max(0, ((arrival - left) / width) * 100));
  return { left, width, response, hidden: end < 0 ? "before" : start > 100 ? "after" : null };
}
