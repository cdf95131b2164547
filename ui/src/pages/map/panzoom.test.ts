import { expect, test } from "vitest";
import { kept, zoomed } from "./panzoom";

test("the point under the pointer stays", () => {
  const view = zoomed({ x: 0, y: 0, scale: 1 }, 2, { x: 0.5, y: 0.25 }, 1000, 400);
  expect(view).toEqual({ x: 250, y: 50, scale: 2 });
  expect(zoomed(view, 0.5, { x: 0.5, y: 0.25 }, 1000, 400)).toEqual({ x: 0, y: 0, scale: 1 });
});

test("never farther than whole, never closer than eight, nothing outside", () => {
  expect(zoomed({ x: 0, y: 0, scale: 1 }, 0.5, { x: 1, y: 1 }, 1000, 400)).toEqual({ x: 0, y: 0, scale: 1 });
  expect(zoomed({ x: 0, y: 0, scale: 8 }, 2, { x: 0, y: 0 }, 1000, 400).scale).toBe(8);
  expect(kept({ x: 900, y: -5, scale: 2 }, 1000, 400)).toEqual({ x: 500, y: 0, scale: 2 });
});
