// The ways of many requests as one: what is usual for an edge of the map.
import type { TimeView } from "../api/types";
import type { Point, Stop } from "./hops";
import { weight } from "./times";

export interface TypicalWay {
  readonly points: readonly Point[];
  /** Requests that went this way. */
  readonly requests: number;
  /** Requests that went other ways. */
  readonly others: number;
  /** Id of the first span of the request that was longest between the processes. */
  readonly slowest: string;
}

const nameOf = (way: readonly Stop[]) => way.map(({ name, place }) => `${name} ${place}`).join(" → ");
const whole = (way: readonly Stop[]) => way.reduce((sum, { both }) => sum + weight(both), 0);

/** The value in the middle; null without one. */
function median(values: readonly number[]): number | null {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor((sorted.length - 1) / 2)] ?? null;
}

const known = <T>(values: readonly (T | null)[]) => values.filter((value) => value !== null);

/** The median of times lies between those of their bounds. Unless all are known, it has an upper bound only. */
function usual(values: readonly (TimeView | null)[]): TimeView | null {
  const all = known(values);
  const low_ns = median(all.map((value) => value.low_ns));
  const high_ns = median(all.map((value) => value.high_ns));
  if (low_ns === null || high_ns === null) return null;
  const error_ns = (high_ns - low_ns) / 2;
  const middle = all.every(({ ns }) => ns != null) ? { ns: low_ns + error_ns } : {};
  return { low_ns, high_ns, ...middle, error_ns };
}

/** The way that most requests took, each time the median; null without a request. */
export function typical(ways: readonly (readonly Stop[])[]): TypicalWay | null {
  const byName = new Map<string, (readonly Stop[])[]>();
  for (const way of ways) {
    const name = nameOf(way);
    byName.set(name, [...(byName.get(name) ?? []), way]);
  }
  const [same] = [...byName.values()].sort((a, b) => b.length - a.length);
  const first = same?.[0];
  if (!same || !first) return null;
  const both = first.map((_, n) => usual(same.map((way) => way[n]?.both ?? null)));
  const all = both.reduce((sum, time) => sum + weight(time), 0);
  const points = first.map((stop, n) => {
    const here = same.flatMap((way) => way[n] ?? []);
    const lossy = here.filter((point) => point.lossy).length;
    const noted = here.filter((point) => point.notes.length > 0).length;
    const most = [...here].sort((a, b) => weight(b.both) - weight(a.both)).find((point) => point.notes.length > 0);
    return {
      id: `${n} ${stop.name} ${stop.place}`,
      tap: stop.tap,
      name: stop.name,
      place: stop.place,
      request: usual(here.map((point) => point.request)),
      response: usual(here.map((point) => point.response)),
      both: both[n] ?? null,
      share: all > 0 ? weight(both[n]) / all : 0,
      // What happened to the slowest of them stands for all.
      notes: most ? [`${noted} of ${same.length}, at worst: ${most.notes.join(", ")}`] : [],
      lossy: lossy > 0,
    };
  });
  const [slowest] = [...same].sort((a, b) => whole(b) - whole(a));
  return { points, requests: same.length, others: ways.length - same.length, slowest: slowest?.[0]?.id ?? "" };
}
