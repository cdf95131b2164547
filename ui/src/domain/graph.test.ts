import { expect, test } from "vitest";
import cases from "../../../crates/view/tests/layouts.json";
import { layout } from "./graph";

const edges = (...pairs: string[]) => pairs.map((pair) => ({ from: pair[0] ?? "", to: pair[1] ?? "" }));
const layers = (ids: string, ...pairs: string[]) =>
  Object.fromEntries([...layout([...ids], edges(...pairs)).nodes].map(([id, place]) => [id, place.layer]));

test("callers stand left of callees, by the longest way", () => {
  expect(layers("abcd", "ab", "bc", "ac", "cd")).toEqual({ a: 0, b: 1, c: 2, d: 3 });
});

test("cycles, self calls and unknown nodes do no harm", () => {
  expect(layers("abc", "ab", "ba", "bc", "aa", "zz", "az")).toEqual({ a: 0, b: 1, c: 2 });
});

test("a node without edges is placed, and every node once", () => {
  expect([...layout(["x", "y"], []).nodes.keys()]).toEqual(["x", "y"]);
  expect(layout([], []).nodes.size).toBe(0);
});

test("an order without crossings is found where there is one", () => {
  const { nodes } = layout([..."abxy"], edges("ay", "bx"));
  const row = (id: string) => nodes.get(id)?.row ?? 0;
  expect((row("a") - row("b")) * (row("y") - row("x"))).toBeGreaterThan(0);
});

test("a long edge goes round the nodes between its ends", () => {
  const { nodes, stops } = layout([..."abc"], edges("ab", "bc", "ac"));
  expect(stops.map((s) => s.length)).toEqual([0, 0, 1]);
  const stop = stops[2]?.[0];
  expect(stop?.layer).toBe(1);
  expect(Math.abs((stop?.row ?? 0) - (nodes.get("b")?.row ?? 0))).toBeGreaterThan(0.5);
});

test("a thousand nodes in a chain", () => {
  const ids = Array.from({ length: 1000 }, (_, n) => `n${n}`);
  const chain = ids.slice(1).map((to, n) => ({ from: ids[n] ?? "", to }));
  expect(Math.max(...[...layout(ids, chain).nodes.values()].map((place) => place.layer))).toBe(999);
});

// `wirespan map --format svg` draws without a browser: both have to put everything at the same place (docs/map.md).
test.each(cases)("$name: as the picture has it", (shared) => {
  const ids = Array.from({ length: shared.nodes }, (_, n) => `${n}`);
  const drawn = layout(
    ids,
    shared.edges.map(([from, to]) => ({ from: `${from}`, to: `${to}` })),
  );
  const places = ids.map((id) => drawn.nodes.get(id)).map((place) => [place?.layer, place?.row]);
  expect(places).toEqual(shared.places);
  expect(drawn.stops.map((stops) => stops.map((place) => [place.layer, place.row]))).toEqual(shared.stops);
});
