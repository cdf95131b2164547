// Traces as points: when they began, how long they took (log scale).
import { toMs } from "./time";

export interface Point {
  readonly id: string;
  /** 0 (oldest) to 1 (newest). */
  readonly x: number;
  /** 0 (fastest) to 1 (slowest). */
  readonly y: number;
}

export interface Scatter {
  readonly points: readonly Point[];
  readonly startMs: number;
  readonly endMs: number;
  /** Powers of ten between the fastest and the slowest, ns, with their place. */
  readonly lines: readonly { readonly ns: number; readonly y: number }[];
}

interface Item {
  readonly id: string;
  readonly start_ns: string;
  readonly duration_ns: number;
}

export function scatter(items: readonly Item[]): Scatter | null {
  if (items.length === 0) return null;
  const times = items.map((item) => toMs(item.start_ns));
  const logs = items.map((item) => Math.log10(Math.max(1, item.duration_ns)));
  const startMs = Math.min(...times);
  const endMs = Math.max(...times);
  // A little air above and below, and at least one power of ten, so that equal durations lie in the middle.
  const middle = (Math.min(...logs) + Math.max(...logs)) / 2;
  const half = Math.max(0.5, (Math.max(...logs) - Math.min(...logs)) / 2) * 1.1;
  const [low, high] = [middle - half, middle + half];
  const span = endMs - startMs;
  const points = items.map((item, n) => ({
    id: item.id,
    x: span > 0 ? ((times[n] ?? startMs) - startMs) / span : 0.5,
    y: ((logs[n] ?? low) - low) / (high - low),
  }));
  const lines = [];
  for (let power = Math.ceil(low); power <= Math.floor(high); power += 1)
    lines.push({ ns: 10 ** power, y: (power - low) / (high - low) });
  return { points, startMs, endMs, lines };
}
