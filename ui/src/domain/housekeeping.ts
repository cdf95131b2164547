// What a driver did for a call's connection: folded into the call (docs/housekeeping.md).
import type { SpanView } from "../api/types";
import { formatDuration } from "./duration";

export interface Housekeeping {
  readonly count: number;
  /** One sentence. */
  readonly words: string;
}

export function housekeeping({ attributes }: Pick<SpanView, "attributes">): Housekeeping | null {
  const count = Number(attributes["wirespan.housekeeping.count"] ?? 0);
  if (!(count > 0)) return null;
  const time = formatDuration(Number(attributes["wirespan.housekeeping.duration_ns"] ?? 0));
  const calls = count === 1 ? "1 call" : `${count} calls`;
  const names = attributes["wirespan.housekeeping.operations"];
  return { count, words: `${calls} of the driver for this connection, ${time} in all: ${names}` };
}

/** What a call asked in full, where its name is a short form. */
export function statement({ attributes, name }: Pick<SpanView, "attributes" | "name">): string {
  const text = attributes["db.query.text"];
  return typeof text === "string" && text !== "" ? text : name;
}
