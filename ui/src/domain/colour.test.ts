import { expect, test } from "vitest";
import { hueOf, hues } from "./colour";

test("services of one picture differ, up to the number of hues", () => {
  const names = Array.from({ length: 12 }, (_, n) => `service-${n}`);
  expect(new Set(hues(names).values()).size).toBe(12);
  expect(hues([...names, "one-more", "and-another"]).size).toBe(14);
});

test("a service alone has its own hue whatever the order", () => {
  expect(hues(["cart"]).get("cart")).toBe(hueOf("cart"));
  expect([...hues(["b", "a"])].sort()).toEqual([...hues(["a", "b"])].sort());
});

test("no service takes no hue", () => {
  expect(hues(["", "cart"])).toEqual(hues(["cart"]));
});
