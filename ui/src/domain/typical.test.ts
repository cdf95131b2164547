import { expect, test } from "vitest";
import { item, span } from "../testing/data";
import type { Stop } from "./hops";
import { exact } from "./times";
import { typical } from "./typical";

const stop = (id: string, name: string, bothNs: number | null, rest: Partial<Stop> = {}): Stop => ({
  item: item(span(id)),
  id,
  tap: "gateway",
  name,
  place: "",
  request: bothNs === null ? null : exact(bothNs / 2),
  response: null,
  both: bothNs === null ? null : exact(bothNs),
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

test("the median of each hop and of its bounds; the slowest request", () => {
  const slow = {
    lossy: true,
    notes: ["2 packets dropped"],
    request: { low_ns: 140, high_ns: 180, ns: 160, error_ns: 20 },
  };
  const seen = typical([way("a", 300), way("b", 900, slow), way("c", 200)]);
  expect(seen?.points.map(({ name, both, share }) => [name, both?.ns ?? null, share])).toEqual([
    ["web", null, 0],
    ["eth0", 100, 0.25],
    ["porta", 300, 0.75],
  ]);
  // Of 150, 140 to 180, and 100.
  expect(seen?.points[2]?.request).toEqual({ low_ns: 140, high_ns: 150, ns: 145, error_ns: 5 });
  expect(seen?.points[2]?.response).toBeNull();
  expect(seen?.points[2]?.notes).toEqual(["1 of 3, at worst: 2 packets dropped"]);
  expect(seen?.points.map((point) => point.lossy)).toEqual([false, false, true]);
  expect([seen?.requests, seen?.others, seen?.slowest]).toEqual([3, 0, "b1"]);
});

test("times of which one is not known have an upper bound together", () => {
  const open = { request: { low_ns: 0, high_ns: 400, error_ns: 200 } };
  const seen = typical([way("a", 300), way("b", 900, open), way("c", 200)]);
  expect(seen?.points[2]?.request).toEqual({ low_ns: 100, high_ns: 150, error_ns: 25 });
});

test("the way that most requests took", () => {
  const seen = typical([way("a", 300), [stop("x1", "web", null), stop("x2", "lo", 5)], way("b", 500)]);
  expect(seen?.points.map(({ name }) => name)).toEqual(["web", "eth0", "porta"]);
  expect([seen?.requests, seen?.others]).toEqual([2, 1]);
  expect(typical([])).toBeNull();
});
