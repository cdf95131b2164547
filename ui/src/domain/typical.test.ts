import { expect, test } from "vitest";
import { item, span } from "../testing/data";
import type { Stop } from "./hops";
import { typical } from "./typical";

const stop = (id: string, name: string, bothNs: number | null, rest: Partial<Stop> = {}): Stop => ({
  item: item(span(id)),
  id,
  tap: "gateway",
  name,
  place: "",
  request: bothNs === null ? null : { ns: bothNs / 2, errorNs: 0 },
  response: null,
  bothNs,
  share: 0,
  notes: [],
  lossy: false,
  ...rest,
});

const way = (id: string, porta: number, rest: Partial<Stop> = {}) => [
  stop(`${id}1`, "web", null),
  stop(`${id}2`, "eth0", 100),
  stop(`${id}3`, "porta", porta, rest),
];

test("the median of each hop, with the largest error; the slowest request", () => {
  const slow = { lossy: true, notes: ["2 packets dropped"], request: { ns: 40, errorNs: 7 } };
  const seen = typical([way("a", 300), way("b", 900, slow), way("c", 200)]);
  expect(seen?.points.map(({ name, bothNs, share }) => [name, bothNs, share])).toEqual([
    ["web", null, 0],
    ["eth0", 100, 0.25],
    ["porta", 300, 0.75],
  ]);
  expect(seen?.points[2]?.request).toEqual({ ns: 100, errorNs: 7 });
  expect(seen?.points[2]?.response).toBeNull();
  expect(seen?.points[2]?.notes).toEqual(["1 of 3, at worst: 2 packets dropped"]);
  expect(seen?.points.map((point) => point.lossy)).toEqual([false, false, true]);
  expect([seen?.requests, seen?.others, seen?.slowest]).toEqual([3, 0, "b1"]);
});

test("the way that most requests took", () => {
  const seen = typical([way("a", 300), [stop("x1", "web", null), stop("x2", "lo", 5)], way("b", 500)]);
  expect(seen?.points.map(({ name }) => name)).toEqual(["web", "eth0", "porta"]);
  expect([seen?.requests, seen?.others]).toEqual([2, 1]);
  expect(typical([])).toBeNull();
});
