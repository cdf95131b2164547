// A flame graph: boxes of functions, callers above what they call.

import type { FlameBox } from "../api/types";

/** Narrower boxes are left out. */
const NARROWEST_PERCENT = 0.15;

export interface Placed {
  readonly box: FlameBox;
  /** Where it lies in the list of all boxes. */
  readonly at: number;
  /** Percent of the width. */
  readonly left: number;
  readonly width: number;
}

/** The boxes within one of them, which is as wide as the picture, and those above it. Narrow ones are left out. */
export function placed(boxes: readonly FlameBox[], zoomed: number): Placed[] {
  const whole = boxes[zoomed] ?? boxes[0];
  if (!whole) return [];
  const [from, all, to] = [whole.from_ns, Math.max(1, whole.ns), whole.from_ns + whole.ns];
  return boxes.flatMap((box, at) => {
    const left = Math.max(box.from_ns, from);
    const width = Math.min(box.from_ns + box.ns, to) - left;
    const isBeside = at < zoomed && box.depth >= whole.depth;
    if (width <= 0 || isBeside || (width / all) * 100 < NARROWEST_PERCENT) return [];
    return [{ box, at, left: ((left - from) / all) * 100, width: (width / all) * 100 }];
  });
}

/** The colour of how much more time than usual a box takes, against all of a request's time: red is more. */
export function change(box: FlameBox, all: number): string {
  const more = (box.ns - box.usual_ns) / Math.max(1, all);
  const light = 94 - Math.min(40, Math.sqrt(Math.abs(more)) * 40);
  return `hsl(${more >= 0 ? 6 : 216} 85% ${Math.round(light)}%)`;
}

/** Whether a name contains what is searched for, whatever its case. */
export function matches(name: string, searched: string): boolean {
  return searched !== "" && name.toLowerCase().includes(searched.toLowerCase());
}
