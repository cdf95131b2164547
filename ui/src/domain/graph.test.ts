import { expect, test } from "vitest";
import { layout } from "./graph";

const edges = (...pairs: string[]) => pairs.map((pair) => ({ from: pair[0] ?? "", to: pair[1] ?? "" }));
const layers = (ids: string, ...pairs: string[]) =>
  Object.fromEntries(layout([...ids], edges(...pairs)).map((node) => [node.id, node.layer]));

test("callers stand left of callees, by the longest way", () => {
  expect(layers("abcd", "ab", "bc", "ac", "cd")).toEqual({ a: 0, b: 1, c: 2, d: 3 });
});

test("cycles, self calls and unknown nodes do no harm", () => {
  const placed = layers("abc", "ab", "ba", "bc", "aa", "zz", "az");
  expect(placed.a).toBe(0);
  expect(placed.b).toBe(1);
  expect(placed.c).toBe(2);
});

test("a node without edges is placed, and every node once", () => {
  expect(layout(["x", "y"], []).map((node) => node.id)).toEqual(["x", "y"]);
  expect(layout([], [])).toEqual([]);
});

test("an order without crossings is found where there is one", () => {
  const placed = new Map(layout([..."abxy"], edges("ay", "bx")).map((node) => [node.id, node.row]));
  const a = (placed.get("a") ?? 0) - (placed.get("b") ?? 0);
  const y = (placed.get("y") ?? 0) - (placed.get("x") ?? 0);
  expect(a * y).toBeGreaterThan(0);
});

test("a thousand nodes in a chain", () => {
  const ids = Array.from({ length: 1000 }, (_, n) => `n${n}`);
  const chain = ids.slice(1).map((to, n) => ({ from: ids[n] ?? "", to }));
  expect(Math.max(...layout(ids, chain).map((node) => node.layer))).toBe(999);
});
