import { describe, expect, test } from "vitest";
import { hop, item, shop, span, trace } from "../testing/data";
import { ancestors, around, foldable, place, readWindow, rows, tree } from "./waterfall";

const shown = (collapsed: string[] = [], hideNetwork = false) =>
  rows(tree(shop()), new Set(collapsed), hideNetwork).map((row) => `${row.item.span.id}${row.depth}`);

describe("rows", () => {
  test("every span in order, one step deeper than its parent", () => {
    expect(shown()).toEqual(["a0", "b1", "c2", "d3", "e4", "f5", "g1"]);
  });

  test("nothing below a collapsed span; it says how much and whether an error hides there", () => {
    const all = rows(tree(shop()), new Set(["b"]), false);
    expect(all.map((row) => row.item.span.id)).toEqual(["a", "b", "g"]);
    expect(all[1]).toMatchObject({ collapsed: true, below: 4, children: 1, hiddenError: true });
    expect(shown(["g"])).toHaveLength(7);
  });

  test("without network taps their children move up to the process", () => {
    expect(shown([], true)).toEqual(["a0", "b1", "e2", "f3", "g1"]);
    expect(shown(["c"], true)).toEqual(["a0", "b1", "e2", "f3", "g1"]);
  });

  test("a hop is that from the point before that is in sight", () => {
    const hops = (hide: boolean) =>
      Object.fromEntries(rows(tree(shop()), new Set(), hide).map((row) => [row.item.span.id, row.hop]));
    expect(hops(false)).toEqual({
      a: null,
      b: null,
      c: hop(10_000, 10_000),
      d: hop(30_000, 30_000),
      e: hop(20_000, 60_000),
      f: null,
      g: null,
    });
    expect(hops(true)).toEqual({ a: null, b: null, e: hop(60_000, 100_000), f: null, g: null });
  });

  test("where the devices before a span are hidden and no process is before them, it has no hop", () => {
    const alone = trace([
      item(span("x", { tap: "server-nic" })),
      item(span("y"), { parent: "x", depth: 1, hop: hop(1, 1) }),
    ]);
    expect(rows(tree(alone), new Set(), true).map((row) => row.hop)).toEqual([null]);
    expect(rows(tree(alone), new Set(), false).map((row) => row.hop)).toEqual([null, hop(1, 1)]);
  });

  test("a parent that is not in the trace makes a root, and a parent further down does no harm", () => {
    const odd = trace([item(span("x"), { parent: "gone" }), item(span("y"), { parent: "z" }), item(span("z"))]);
    expect(rows(tree(odd), new Set(), false).map((row) => row.item.span.id)).toEqual(["x", "y", "z"]);
  });

  test("ten thousand spans in a chain", () => {
    const spans = Array.from({ length: 10_000 }, (_, n) =>
      item(span(`s${n}`), n > 0 ? { parent: `s${n - 1}`, depth: n } : {}),
    );
    const t = tree(trace(spans));
    expect(rows(t, new Set(), false).at(-1)?.depth).toBe(9_999);
    expect(rows(t, new Set(["s1"]), false)).toHaveLength(2);
    expect(ancestors(t, "s9999")).toHaveLength(9_999);
  });
});

test("what can be folded, and what stands above", () => {
  const t = tree(shop());
  expect(foldable(t)).toEqual(["a", "b", "c", "d", "e"]);
  expect(ancestors(t, "e")).toEqual(["d", "c", "b", "a"]);
  expect(ancestors(t, "nobody")).toEqual([]);
});

describe("place on the axis", () => {
  const it = item(span("x", { duration_ns: 200 }), { at: 400, response: 500 });

  test("in the whole trace", () => {
    expect(place(it, { from: 0, to: 1000 })).toEqual({ left: 40, width: 20, response: 50, hidden: null });
  });

  test("in a part of it: cut at the edges, and the first byte stays where it was", () => {
    const bar = place(it, { from: 450, to: 550 });
    expect(bar).toMatchObject({ left: -5, width: 110, hidden: null });
    expect(bar.left + (bar.width * (bar.response ?? 0)) / 100).toBeCloseTo(50);
  });

  test("out of sight", () => {
    expect(place(it, { from: 700, to: 800 }).hidden).toBe("before");
    expect(place(it, { from: 0, to: 100 }).hidden).toBe("after");
  });

  test("no response, no duration, no trace time", () => {
    expect(place(item(span("x", { duration_ns: 0 })), { from: 0, to: 1 })).toMatchObject({ width: 0, response: null });
  });
});

test("windows in the URL", () => {
  expect(readWindow("100-300", 1000)).toEqual({ from: 100, to: 300 });
  expect(readWindow("100-9000", 1000)).toEqual({ from: 100, to: 1000 });
  for (const bad of ["", "300-100", "x-y", "-5-10", "2000-3000"])
    expect(readWindow(bad, 1000)).toEqual({ from: 0, to: 1000 });
  expect(around(item(span("x", { duration_ns: 100 }), { at: 0 }), 105)).toEqual({ from: 0, to: 105 });
});
