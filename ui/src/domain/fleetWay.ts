// The usual way of packets over several agents: the parts at each agent, and between them, put together.
import type { FleetView, PacketPlace, TimeView } from "../api/types";
import { placeWords } from "./heat";
import type { Point } from "./hops";
import { number } from "./number";
import { exact, weight } from "./times";

/** A way from one agent to another. Each point has the time from the point before that half of the packets took. */
export interface FleetWay {
  readonly from: string;
  readonly to: string;
  readonly points: readonly Point[];
  /** Packets that went from the one agent to the other. */
  readonly packets: number;
}

interface At {
  readonly agent: string;
  readonly place: PacketPlace;
}

/** A part of the way. */
interface Part {
  readonly from: At;
  readonly to: At;
  readonly packets: number;
  /** That half of the packets did not exceed; null: the clocks were not compared. */
  readonly time: TimeView | null;
  /** That 99 % of them did not exceed. */
  readonly tail: TimeView | null;
  readonly crosses: boolean;
}

const keyOf = ({ agent, place }: At) => `${agent} ${placeWords(place)}`;

function parts(view: FleetView): Part[] {
  const local = view.agents.flatMap(({ agent, view: told }) =>
    told.legs.map((leg) => ({
      from: { agent, place: leg.from },
      to: { agent, place: leg.to },
      packets: leg.times.packets,
      time: exact(leg.times.p50_ns),
      tail: exact(leg.times.p99_ns),
      crosses: false,
    })),
  );
  const between = view.between.map((of) => ({
    from: { agent: of.from_agent, place: of.from },
    to: { agent: of.to_agent, place: of.to },
    packets: of.packets,
    time: of.p50 ?? null,
    tail: of.p99 ?? null,
    crosses: true,
  }));
  return [...local, ...between];
}

/** Drops behind a place, in words. */
function drops(view: FleetView, at: At): string[] {
  const told = view.agents.find(({ agent }) => agent === at.agent)?.view.drops ?? [];
  const here = told.filter(({ after }) => after && placeWords(after) === placeWords(at.place));
  return here.map(({ packets, reason }) => `${number(packets)} dropped behind it: ${reason}`);
}

const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

const most = (of: readonly Part[]) => [...of].sort((a, b) => b.packets - a.packets)[0];

/**
 * The ways that most packets took from each agent to another one. Two agents with most packets between them stand
 * first. There and back have about as many packets, so they go by name: their places do not change while they run.
 */
export function fleetWays(view: FleetView): FleetWay[] {
  const all = parts(view);
  const pairs = new Map<string, Part>();
  for (const part of all.filter(({ crosses }) => crosses)) {
    const pair = `${part.from.agent} ${part.to.agent}`;
    const before = pairs.get(pair);
    if (!before || part.packets > before.packets) pairs.set(pair, part);
  }
  const ways = [...pairs.values()].map((middle) => {
    const way = [middle];
    const seen = new Set([keyOf(middle.from), keyOf(middle.to)]);
    for (;;) {
      const first = way[0] ?? middle;
      const before = most(all.filter(({ from, to }) => keyOf(to) === keyOf(first.from) && !seen.has(keyOf(from))));
      if (!before) break;
      seen.add(keyOf(before.from));
      way.unshift(before);
    }
    for (;;) {
      const last = way[way.length - 1] ?? middle;
      const next = most(all.filter(({ from, to }) => keyOf(from) === keyOf(last.to) && !seen.has(keyOf(to))));
      if (!next) break;
      seen.add(keyOf(next.to));
      way.push(next);
    }
    return { way, middle };
  });
  const told = ways.map(({ way, middle }) => {
    const sum = way.reduce((ns, { time }) => ns + weight(time), 0);
    const point = (at: At, part: Part | undefined): Point => {
      const lost = drops(view, at);
      return {
        id: keyOf(at),
        tap: "",
        name: placeWords(at.place),
        place: `at ${at.agent}`,
        request: part?.time ?? null,
        response: null,
        both: part?.time ?? null,
        tail: part?.tail ?? null,
        share: sum > 0 ? weight(part?.time) / sum : 0,
        notes: lost,
        lossy: lost.length > 0,
      };
    };
    const first = way[0] ?? middle;
    const points = [point(first.from, undefined), ...way.map((part) => point(part.to, part))];
    const last = way[way.length - 1] ?? middle;
    return { from: first.from.agent, to: last.to.agent, points, packets: middle.packets };
  });
  // A way over three agents is found from the first to the second, and from the second to the third.
  const byName = new Map(told.map((way) => [way.points.map(({ id }) => id).join(" → "), way]));
  const found = [...byName.values()];
  const pairOf = ({ from, to }: FleetWay) => [from, to].sort().join(" ");
  const sums = new Map<string, number>();
  for (const way of found) sums.set(pairOf(way), (sums.get(pairOf(way)) ?? 0) + way.packets);
  const sum = (way: FleetWay) => sums.get(pairOf(way)) ?? 0;
  return found.sort((a, b) => sum(b) - sum(a) || compare(pairOf(a), pairOf(b)) || compare(a.from, b.from));
}
