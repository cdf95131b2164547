// The way of one request: the points that saw it, from the process that asks to the one that answers.

import type { SpanView, TimeView, TraceSpan, TraceView } from "../api/types";
import { weight } from "./times";
import { isNetworkTap } from "./waterfall";

/** A point of the way, and how the request came there from the point before. */
export interface Point {
  readonly id: string;
  /** Where it was observed: `client-nic`, … */
  readonly tap: string;
  /** Name of the device or of the service. */
  readonly name: string;
  /** Network namespace or capture file. */
  readonly place: string;
  readonly request: TimeView | null;
  readonly response: TimeView | null;
  /** Request and response together; null at the first point, and where there was no response. */
  readonly both: TimeView | null;
  /** Of many packets: what 99 % of them did not exceed. */
  readonly tail?: TimeView | null;
  /** Of the way, 0–1. */
  readonly share: number;
  /** What happened at the device, in words. */
  readonly notes: readonly string[];
  /** Whether packets were lost there. */
  readonly lossy: boolean;
}

/** A point at which one request was seen. */
export interface Stop extends Point {
  readonly item: TraceSpan;
}

function number(span: SpanView, key: string): number | null {
  const value = span.attributes[`wirespan.hop.${key}`];
  return value === undefined ? null : Number(value);
}

/**
 * By how much the clock of the span's host is wrong, in words, if its times were corrected; else null. `duration`
 * writes a time.
 */
export function corrected(span: SpanView, duration: (ns: number) => string): string | null {
  const ahead = span.attributes["wirespan.clock.ahead_ns"];
  if (ahead === undefined || Number(ahead) === 0) return null;
  const error = Number(span.attributes["wirespan.clock.error_ns"] ?? 0);
  const within = error > 0 ? ` ± ${duration(error)}` : "";
  return `${duration(Math.abs(Number(ahead)))}${within} ${Number(ahead) > 0 ? "ahead" : "behind"}; times corrected`;
}

/** Shortest wait in a queue that is worth a line. */
const SHOWN_NS = 50_000;

const plural = (n: number, what: string) => `${n} ${what}${n === 1 ? "" : "s"}`;

function notes(span: SpanView, duration: (ns: number) => string): string[] {
  const list: string[] = [];
  if (span.attributes["wirespan.hop.evidence"] === "unknown") list.push("its place on the way is not known");
  const queue = number(span, "queue_ns");
  const packets = number(span, "queue_packets");
  const behind = packets ? ` behind ${plural(packets, "packet")}` : "";
  if (queue && queue >= SHOWN_NS) list.push(`waited ${duration(queue)} in its queue${behind}`);
  const dropped = number(span, "dropped_packets");
  const reason = span.attributes["wirespan.hop.drop_reason"];
  if (dropped) list.push(`${plural(dropped, "packet")} dropped${reason ? `: ${reason}` : ""}`);
  const lost = number(span, "lost_bytes");
  if (lost) list.push(`${plural(lost, "byte")} lost on the way here`);
  if (isNetworkTap(span.tap) && span.tcp.retransmits > 0) {
    list.push(`${plural(span.tcp.retransmits, "packet")} came again`);
  }
  return list;
}

/**
 * The way of the request of which this span is one view; empty unless a point between the processes saw it.
 * `duration` writes a time.
 */
export function stops(trace: TraceView, item: TraceSpan, duration: (ns: number) => string): Stop[] {
  const byId = new Map(trace.spans.map((each) => [each.span.id, each]));
  const before = (each: TraceSpan) => (each.parent?.evidence === "wire" ? byId.get(each.parent.span_id) : undefined);
  const next = new Map<string, TraceSpan>();
  for (const each of trace.spans) {
    const parent = before(each);
    if (parent && !next.has(parent.span.id)) next.set(parent.span.id, each);
  }
  let first = item;
  for (let n = 0; n < trace.spans.length; n += 1) first = before(first) ?? first;
  const way: TraceSpan[] = [];
  for (let at: TraceSpan | undefined = first; at && way.length < trace.spans.length; at = next.get(at.span.id)) {
    way.push(at);
  }
  if (!way.includes(item) || !way.some((each) => isNetworkTap(each.span.tap))) return [];

  const legs = way.map(({ hop }, n) => ({
    request: (n > 0 && hop?.there) || null,
    response: (n > 0 && hop?.back) || null,
    both: (n > 0 && hop?.both) || null,
  }));
  const all = legs.reduce((sum, leg) => sum + weight(leg.both), 0);
  return way.map((each, n) => {
    const { span } = each;
    const leg = legs[n] ?? { request: null, response: null, both: null };
    const device = span.attributes["network.interface.name"];
    const place = span.attributes["wirespan.hop.netns"] ?? span.attributes["wirespan.capture.file"] ?? "";
    return {
      item: each,
      id: span.id,
      tap: span.tap,
      ...leg,
      name: String(device ?? (span.service || span.tap)),
      place: String(place),
      share: all > 0 ? weight(leg.both) / all : 0,
      notes: notes(span, duration),
      lossy: Boolean(number(span, "dropped_packets") || number(span, "lost_bytes")),
    };
  });
}
