import { expect, test } from "vitest";
import { scatter } from "./scatter";

const item = (id: string, ms: number, duration_ns: number) => ({
  id,
  start_ns: `${BigInt(ms) * 1_000_000n}`,
  duration_ns,
});

test("nothing gives nothing", () => {
  expect(scatter([])).toBeNull();
});

test("one trace lies in the middle, of whatever duration", () => {
  for (const duration of [0, 1, 5_000_000]) {
    expect(scatter([item("a", 5, duration)])?.points).toEqual([{ id: "a", x: 0.5, y: 0.5 }]);
  }
});

test("later is right, slower is up, each ten times is a line", () => {
  const s = scatter([item("a", 1000, 1e6), item("b", 2000, 1e8), item("c", 1500, 1e7)]);
  const [a, b, c] = s?.points ?? [];
  expect([a?.x, c?.x, b?.x]).toEqual([0, 0.5, 1]);
  expect((a?.y ?? 1) < (c?.y ?? 0) && (c?.y ?? 1) < (b?.y ?? 0)).toBe(true);
  expect(c?.y).toBeCloseTo(0.5);
  expect(s?.lines.map((line) => line.ns)).toEqual([1e6, 1e7, 1e8]);
});
