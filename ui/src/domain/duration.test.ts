import { expect, test } from "vitest";
import { formatDuration, parseDuration, ticks, ticksBetween } from "./duration";

test.each([
  [0, "0"],
  [1, "1 ns"],
  [999, "999 ns"],
  [1_000, "1 µs"],
  [1_240, "1.24 µs"],
  [999_600, "1 ms"],
  [45_300, "45.3 µs"],
  [12_345_678, "12.3 ms"],
  [999_499_999, "999 ms"],
  [999_960_000, "1 s"],
  [59_900_000_000, "59.9 s"],
  [125_000_000_000, "2 m 5 s"],
  [3_600_000_000_000, "1 h"],
  [-1_500_000, "−1.5 ms"],
])("formats %d ns as %s", (ns, text) => {
  expect(formatDuration(ns)).toBe(text);
});

test.each([
  ["10ms", 10e6],
  [" 1.5 s ", 1.5e9],
  ["250us", 250e3],
  ["250µs", 250e3],
  ["2m", 120e9],
  ["10", null],
  ["fast", null],
  ["10 parsecs", null],
])("reads %s", (text, ns) => {
  expect(parseDuration(text)).toBe(ns);
});

test("ticks are round and end before the maximum", () => {
  expect(ticks(9.7e6, 5)).toEqual([0, 2e6, 4e6, 6e6, 8e6]);
  expect(ticks(10e6, 5)).toEqual([0, 2e6, 4e6, 6e6, 8e6, 10e6]);
  expect(ticks(0, 5)).toEqual([0]);
});

test("ticks of a window are the same round values wherever it begins", () => {
  expect(ticksBetween(0, 10e6, 5)).toEqual(ticks(10e6, 5));
  expect(ticksBetween(3.1e6, 7.9e6, 5)).toEqual([4e6, 5e6, 6e6, 7e6]);
});
