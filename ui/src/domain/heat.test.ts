import { expect, test } from "vitest";
import type { HeatView } from "../api/types";
import { begin, picture, place, placeWords, SECONDS } from "./heat";

const heat = (halves: [number, number][], seconds: [number, [number, number][]][]): HeatView => ({
  packets: halves.reduce((sum, [, count]) => sum + count, 0),
  mean_ns: 0,
  p50_ns: 0,
  p99_ns: 0,
  p999_ns: 0,
  halves,
  seconds: seconds.map(([second, halves]) => ({ second, halves })),
});

test("halves of doublings, and where a time lies among them", () => {
  expect([0, 1, 2, 3, 4, 5, 20, 21].map(begin)).toEqual([1, 1.5, 2, 3, 4, 6, 1024, 1536]);
  expect([1024, 1280, 1536, 2048].map(place)).toEqual([20, 20.5, 21, 22]);
  expect(place(0)).toBe(0);
});

test("the picture shows the last minute, and the fullest cell is full", () => {
  const seen = picture(
    heat(
      [
        [24, 30],
        [26, 10],
      ],
      [
        [900, [[24, 5]]],
        [1000, [[24, 20]]],
        [
          1001,
          [
            [24, 5],
            [26, 10],
          ],
        ],
      ],
    ),
  );
  expect(seen?.first).toBe(1001 - SECONDS + 1);
  expect(seen?.cells.map(({ second, half, share }) => [second, half, share])).toEqual([
    [1000, 24, 1],
    [1001, 24, 0.25],
    [1001, 26, 0.5],
  ]);
  expect(seen?.bars.map(({ share }) => share)).toEqual([1, 1 / 3]);
  // 4 µs to 12 µs are few rows, so more are shown around them.
  expect(seen && seen.high - seen.low).toBeGreaterThanOrEqual(8);
  expect(seen?.ticks).toEqual([2_000, 5_000, 10_000, 20_000]);
  for (const { half } of seen?.cells ?? []) {
    expect(half).toBeGreaterThanOrEqual(seen?.low ?? Infinity);
    expect(half).toBeLessThan(seen?.high ?? 0);
  }
});

test("a program that has just begun fills the picture, and far times have round marks", () => {
  const of = (seconds: number[]) =>
    picture(
      heat(
        [
          [20, 1],
          [40, 1],
        ],
        seconds.map((second) => [second, [[20, 1]]]),
      ),
    );
  expect([of([1000]), of([980, 1000]), of([900, 1000])].map((seen) => [seen?.first, seen?.seconds])).toEqual([
    [986, 15],
    [980, 21],
    [941, 60],
  ]);
  expect(of([1000])?.ticks).toEqual([10_000, 100_000, 1_000_000]);
});

test("no time, no picture", () => {
  expect(picture(heat([], []))).toBeNull();
});

test("a place in words", () => {
  expect(placeWords({ point: "queue", device: "eth0", netns: "web", tunnel: "vxlan" })).toBe(
    "queue eth0 in web (vxlan)",
  );
  expect(placeWords({ point: "copied", device: "", netns: "", tunnel: "" })).toBe("copied");
});
