import { describe, expect, it } from "vitest";
import { flameBox } from "../testing/data";
import { matches, placed } from "./flame";

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

  it("finds functions by a part of their name", () => {
    expect([matches("Price", "pri"), matches("Price", "x"), matches("Price", "")]).toEqual([true, false, false]);
  });
});
