// The usual way of packets over several agents: the parts at each agent, and between them, put together.
import type { FleetView, PacketPlace, TimeView } from "../api/types";
import { placeWords } from "./heat";
import type { Point } from "./hops";
import { number } from "./number";
import { exact, timeWords } from "./times";

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
  readonly time: TimeView | null;
  /** What is known of a time that is not. */
  readonly note: string;
  readonly crosses: boolean;
}

const keyOf = ({ agent, place }: At) => `${agent} ${placeWords(place)}`;

function parts(view: FleetView, duration: (ns: number) => string): Part[] {
  const local = view.agents.flatMap(({ agent, view: told }) =>
    told.legs.map((leg) => ({
      from: { agent, place: leg.from },
      to: { agent, place: leg.to },
      packets: leg.times.packets,
      time: exact(leg.times.p50_ns),
      note: "",
      crosses: false,
    })),
  );
  const between = view.between.map((of) => {
    const { p50 } = of;
    const known = p50?.ns != null ? p50 : null;
    const open = p50 ? timeWords(p50, duration) : "the clocks were not compared";
    return {
      from: { agent: of.from_agent, place: of.from },
      to: { agent: of.to_agent, place: of.to },
      packets: of.packets,
      time: known,
      note: known ? "" : open,
      crosses: true,
    };
  });
  return [...local, ...between];
}

/** Drops behind a place, in words. */
function drops(view: FleetView, at: At): string[] {
  const told = view.agents.find(({ agent }) => agent === at.agent)?.view.drops ?? [];
  const here = told.filter(({ after }) => after && placeWords(after) === placeWords(at.place));
  return here.map(({ packets, reason }) => `${number(packets)} dropped behind it: ${reason}`);
}

const most = (of: readonly Part[]) => [...of].sort((a, b) => b.packets - a.packets)[0];

/**
 * The ways that most packets took from each agent to another one, the one with most packets first. `duration` writes a
 * time.
 */
export function fleetWays(view: FleetView, duration: (ns: number) => string): FleetWay[] {
  const all = parts(view, duration);
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
    const sum = way.reduce((ns, { time }) => ns + (time?.ns ?? 0), 0);
    const point = (at: At, part: Part | undefined): Point => {
      const lost = drops(view, at);
      const ns = part?.time?.ns ?? null;
      return {
        id: keyOf(at),
        tap: "",
        name: placeWords(at.place),
        place: at.agent,
        request: part?.time ?? null,
        response: null,
        both: part?.time ?? null,
        share: sum > 0 ? (ns ?? 0) / sum : 0,
        notes: [...(part?.note ? [part.note] : []), ...lost],
        lossy: lost.length > 0,
      };
    };
    const first = way[0] ?? middle;
    const points = [point(first.from, undefined), ...way.map((part) => point(part.to, part))];
    const to = points[points.length - 1]?.place ?? "";
    return { from: first.from.agent, to, points, packets: middle.packets };
  });
  // A way over three agents is found from the first to the second, and from the second to the third.
  const byName = new Map(told.map((way) => [way.points.map(({ id }) => id).join(" → "), way]));
  return [...byName.values()].sort((a, b) => b.packets - a.packets);
}
