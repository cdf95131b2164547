// Times counted by size and second: the cells of a heat map, and the bars of a histogram on the same axis.
import type { HeatView, PacketPlace } from "../api/types";

/** Seconds that a heat map shows at most. */
export const SECONDS = 60;
/** And at least, so that the first seconds are no wide stripes. */
const LEAST_SECONDS = 15;
/** Rows of a heat map at least, so that a few times alike make no picture of one stripe. */
const ROWS = 8;

/** Where a half of a doubling begins, ns: 1, 1.5, 2, 3, 4, 6, 8, … */
export function begin(half: number): number {
  return 2 ** Math.floor(half / 2) * (half % 2 === 1 ? 1.5 : 1);
}

/** Where a time lies among the halves: 2.5 is the middle of half 2. */
export function place(ns: number): number {
  const doubling = Math.floor(Math.log2(Math.max(1, ns)));
  const part = Math.max(1, ns) / 2 ** doubling - 1;
  return doubling * 2 + part * 2;
}

export interface Cell {
  readonly second: number;
  readonly half: number;
  readonly count: number;
  /** Of the fullest cell, 0–1. */
  readonly share: number;
}

export interface Picture {
  /** The lowest half that is shown, and the one above the highest. */
  readonly low: number;
  readonly high: number;
  /** The first second that is shown, and how many are. */
  readonly first: number;
  readonly seconds: number;
  readonly cells: readonly Cell[];
  /** All times by size; `second` is 0. */
  readonly bars: readonly Cell[];
  /** Round times within the picture. */
  readonly ticks: readonly number[];
}

/** Cells, bars and axis; null without a time. */
export function picture(heat: HeatView): Picture | null {
  const halves = heat.halves.map(([half]) => half ?? 0);
  if (halves.length === 0) return null;
  const middle = (Math.min(...halves) + Math.max(...halves) + 1) / 2;
  const rows = Math.max(ROWS, Math.max(...halves) + 1 - Math.min(...halves));
  const low = Math.max(0, Math.floor(middle - rows / 2));
  const high = low + rows + 1;
  const last = Math.max(0, ...heat.seconds.map(({ second }) => second));
  const oldest = Math.min(last, ...heat.seconds.map(({ second }) => second));
  const seconds = Math.min(SECONDS, Math.max(LEAST_SECONDS, last - oldest + 1));
  const first = last - seconds + 1;
  const cells = heat.seconds
    .filter(({ second }) => second >= first)
    .flatMap(({ second, halves }) => halves.map(([half, count]) => ({ second, half: half ?? 0, count: count ?? 0 })));
  const bars = heat.halves.map(([half, count]) => ({ second: 0, half: half ?? 0, count: count ?? 0 }));
  return { low, high, first, seconds, cells: shared(cells), bars: shared(bars), ticks: round(low, high) };
}

function shared(cells: readonly Omit<Cell, "share">[]): Cell[] {
  const most = Math.max(1, ...cells.map((cell) => cell.count));
  return cells.map((cell) => ({ ...cell, share: cell.count / most }));
}

/** Powers of ten; with their doubles and halves where there are few of them. */
function round(low: number, high: number): number[] {
  const within = (factors: readonly number[]) => {
    const all = [];
    for (let ns = 1; place(ns) <= high; ns *= 10) all.push(...factors.map((factor) => factor * ns));
    return all.filter((ns) => place(ns) >= low && place(ns) <= high);
  };
  const decades = within([1]);
  return decades.length > 2 ? decades : within([1, 2, 5]);
}

/** A place in words: `queue eth0 in web (vxlan)`. */
export function placeWords({ point, device, netns, tunnel }: PacketPlace): string {
  const parts = [point, device, netns && `in ${netns}`, tunnel && `(${tunnel})`];
  return parts.filter(Boolean).join(" ");
}
