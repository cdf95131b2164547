// A trace as rows of a waterfall: a tree in depth-first order, some of it folded away.

import type { HopView, SpanView, TraceSpan, TraceView } from "../api/types";
import { shortTime, timeWords } from "./times";

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
  /** From the point before that is shown. */
  readonly hop: HopView | null;
}

/** A hop in a narrow column, and in words. `duration` writes a time. */
export function hopText(hop: HopView, duration: (ns: number) => string): { short: string; words: string } {
  const { there, back } = hop;
  const request = `request ${timeWords(there, duration)}`;
  if (!hop.both) return { short: shortTime(there, duration), words: request };
  const both = `${timeWords(hop.both, duration)} for request and response together`;
  if (!there && !back) {
    const why =
      "the time of one direction is unknown, because nothing compares the clocks of the two hosts well enough";
    return { short: `↔ ${shortTime(hop.both, duration)}`, words: `${both}; ${why}` };
  }
  const words = `${request}, response ${timeWords(back, duration)}; ${both}`;
  return { short: `${shortTime(there, duration)} · ${shortTime(back, duration)}`, words };
}

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

/** The way to a span from the point before that is shown. */
function hopOf(t: Tree, index: number, hideNetwork: boolean): HopView | null {
  const { spans } = t.trace;
  const parent = spans[t.parents[index] ?? -1];
  const overDevices = hideNetwork && parent !== undefined && isNetworkTap(parent.span.tap);
  return (overDevices ? spans[index]?.hop_over_devices : spans[index]?.hop) ?? null;
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
