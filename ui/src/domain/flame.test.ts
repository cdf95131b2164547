import { describe, expect, it } from "vitest";
import { flameBox } from "../testing/data";
import { change, matches, placed } from "./flame";

describe("a flame graph", () => {
  const boxes = [
    flameBox(0, 0, 1000, "shop: GET"),
    flameBox(1, 0, 600, "main"),
    flameBox(2, 0, 600, "price"),
    flameBox(1, 600, 400, "other"),
    flameBox(2, 600, 1, "narrow"),
  ];

  it("places boxes by their share of all time", () => {
    const found = placed(boxes, 0).map(({ box, left, width }) => [box.name, left, width]);
    expect(found).toEqual([
      ["shop: GET", 0, 100],
      ["main", 0, 60],
      ["price", 0, 60],
      ["other", 60, 40],
    ]);
  });

  it("shows one box as wide as the picture, with those above and below it", () => {
    const found = placed(boxes, 3).map(({ box, left, width }) => [box.name, left, width]);
    expect(found).toEqual([
      ["shop: GET", 0, 100],
      ["other", 0, 100],
      ["narrow", 0, 0.25],
    ]);
    expect(placed([], 0)).toEqual([]);
  });

  it("shows more time than usual in red, less in blue, little of either in a light colour", () => {
    const box = (ns: number, usual_ns: number) => change({ ...flameBox(1, 0, ns, "f"), usual_ns }, 1000);
    expect(box(900, 100)).toBe("hsl(6 85% 58%)");
    expect(box(100, 900)).toBe("hsl(216 85% 58%)");
    expect(box(500, 499)).toBe("hsl(6 85% 93%)");
  });

  it("finds functions by a part of their name", () => {
    expect([matches("Price", "pri"), matches("Price", "x"), matches("Price", "")]).toEqual([true, false, false]);
  });
});
