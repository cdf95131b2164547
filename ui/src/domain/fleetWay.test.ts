import { expect, test } from "vitest";
import type { BetweenView, FleetView, HeatView, LegView, PacketPlace } from "../api/types";
import { at, nothing } from "../testing/packets";
import { fleetWays } from "./fleetWay";

const heat = (packets: number, p50_ns: number): HeatView => ({
  packets,
  mean_ns: p50_ns,
  p50_ns,
  p99_ns: p50_ns,
  p999_ns: p50_ns,
  halves: [],
  seconds: [],
});
const leg = (from: PacketPlace, to: PacketPlace, packets: number, ns: number): LegView => ({
  from,
  to,
  jitter_ns: 0,
  times: heat(packets, ns),
});
const between = (from: string, left: PacketPlace, to: string, came: PacketPlace, more = {}): BetweenView => ({
  from_agent: from,
  from: left,
  to_agent: to,
  to: came,
  packets: 90,
  unknown: 0,
  p50: { low_ns: 28_000, high_ns: 32_000, ns: 30_000, error_ns: 2_000 },
  times: heat(90, 30_000),
  ...more,
});
const fleet = (agents: Record<string, LegView[]>, crossings: BetweenView[]): FleetView => ({
  state: "running",
  number: 1,
  program: "",
  changes: 0,
  elapsed_ms: 1,
  limit_ms: 1,
  connected: [],
  agents: Object.entries(agents).map(([agent, legs]) => ({
    agent,
    state: "running",
    why: "",
    heard_ms: 0,
    incomplete: 0,
    lost_lines: 0,
    malformed: 0,
    view: { ...nothing("running"), legs },
  })),
  lines: [],
  first_line: 0,
  lost_lines: 0,
  between: crossings,
  clocks: [],
  loss: [],
  flows: [],
  flows_left_out: 0,
});
const [queue, xmit, receive, copied] = [
  at("queue", "eth0"),
  at("xmit", "eth0"),
  at("receive", "eth0"),
  at("copied", ""),
];

test("the parts at each agent and between them are one way for each direction", () => {
  const both = [leg(queue, xmit, 90, 10_000), leg(receive, copied, 80, 60_000)];
  const back = between("db", xmit, "web", receive, { packets: 70 });
  const ways = fleetWays(fleet({ web: both, db: both }, [back, between("web", xmit, "db", receive)]));
  expect(ways.map(({ from, to, packets }) => [from, to, packets])).toEqual([
    ["db", "web", 70],
    ["web", "db", 90],
  ]);
  const points = ways[1]?.points ?? [];
  expect(points.map(({ name, place }) => `${name} ${place}`)).toEqual([
    "queue eth0 at web",
    "xmit eth0 at web",
    "receive eth0 at db",
    "copied at db",
  ]);
  expect(points.map(({ both }) => both?.ns ?? null)).toEqual([null, 10_000, 30_000, 60_000]);
  expect(points[2]?.request).toMatchObject({ ns: 30_000, error_ns: 2_000 });
  expect(points[3]?.share).toBe(0.6);
});

test("a time that the clocks leave open has its upper bound, and drops stand where they were", () => {
  const p50 = { low_ns: 0, high_ns: 50_000, error_ns: 25_000 };
  const open = { p50, p99: { low_ns: 80_000, high_ns: 90_000, ns: 85_000, error_ns: 5_000 } };
  const told = fleet({ web: [leg(queue, xmit, 90, 10_000)], db: [] }, [between("web", xmit, "db", receive, open)]);
  const drop = {
    place: at("drop", "eth0"),
    after: queue,
    reason: "QDISC_DROP",
    packets: 4,
    resent: 0,
    resent_p50_ns: 0,
  };
  const [first, ...rest] = told.agents;
  const agents = first ? [{ ...first, view: { ...first.view, drops: [drop] } }, ...rest] : [];
  const [way] = fleetWays({ ...told, agents });
  expect(way?.points.map(({ notes, lossy }) => [notes, lossy])).toEqual([
    [["4 dropped behind it: QDISC_DROP"], true],
    [[], false],
    [[], false],
  ]);
  expect(way?.points[2]?.both).toEqual(p50);
  expect(way?.points[2]?.tail).toEqual(open.p99);
});

test("a machine between two others is on one way, and places that lead back end it", () => {
  const out = at("queue", "eth1");
  const view = fleet(
    { web: [leg(queue, xmit, 90, 1)], router: [leg(receive, out, 90, 5), leg(out, receive, 1, 5)], db: [] },
    [between("web", xmit, "router", receive), between("router", out, "db", receive)],
  );
  const ways = fleetWays(view);
  expect(ways.map(({ points }) => points.map(({ place }) => place).join(" "))).toEqual([
    "at web at web at router at router at db",
  ]);
});

test("without packets between agents there is no way", () => {
  expect(fleetWays(fleet({ web: [leg(queue, xmit, 90, 1)] }, []))).toEqual([]);
});

test("two agents with most packets between them stand first, and there and back keep their places", () => {
  const way = (from: string, to: string, packets: number) => between(from, xmit, to, receive, { packets });
  const agents = { a: [], b: [], c: [], d: [] };
  const order = (crossings: BetweenView[]) => fleetWays(fleet(agents, crossings)).map(({ from, to }) => from + to);
  const quiet = [way("a", "b", 5), way("b", "a", 6)];
  expect(order([...quiet, way("c", "d", 40), way("d", "c", 41)])).toEqual(["cd", "dc", "ab", "ba"]);
  expect(order([way("d", "c", 41), way("c", "d", 42), ...quiet])).toEqual(["cd", "dc", "ab", "ba"]);
});
