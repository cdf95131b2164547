import { expect, test } from "vitest";
import { formatAgo, formatExact, formatTime, toMs } from "./time";

test("no digit is lost", () => {
  expect(formatExact("1795297682000000001")).toBe("2026-11-21T21:48:02.000000001Z");
  expect(toMs("1795297682123456789")).toBeCloseTo(1795297682123.4568, 3);
});

test("the date is shown only when it is another day", () => {
  const now = new Date(2026, 10, 21, 12, 0, 0).getTime();
  const ns = (date: Date) => `${BigInt(date.getTime()) * 1_000_000n}`;
  expect(formatTime(ns(new Date(2026, 10, 21, 9, 5, 3, 7)), now)).toBe("09:05:03.007");
  expect(formatTime(ns(new Date(2026, 10, 20, 9, 5, 3, 7)), now)).toBe("2026-11-20 09:05:03.007");
});

test.each([
  [0, "now"],
  [12_000, "12 s ago"],
  [190_000, "3 m ago"],
  [7_300_000, "2 h ago"],
  [200_000_000, "2 d ago"],
])("%d ms ago", (ms, text) => {
  expect(formatAgo("1000000000000000000", 1e12 + ms)).toBe(text);
});
