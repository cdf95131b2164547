import { describe, expect, test } from "vitest";
import { condition, NO_FILTERS, narrows, readFilters, splitAt, toApi, writeFilters } from "./filters";

describe("filters in the URL", () => {
  test("what is written is read again, and nothing that is default is written", () => {
    const filters = { ...NO_FILTERS, q: 'name="GET /cart" é', service: "cart", range: "all" };
    const search = writeFilters(new URLSearchParams("live=1"), filters);
    expect(search.toString()).not.toContain("order");
    expect(search.get("live")).toBe("1");
    expect(readFilters(search)).toEqual(filters);
    expect(writeFilters(search, NO_FILTERS).toString()).toBe("live=1");
  });

  test("the API gets only what is set", () => {
    expect(toApi(NO_FILTERS)).toEqual({ from: "-1h" });
    expect(toApi({ ...NO_FILTERS, range: "all", min: " 10 ms", order: "slowest", status: "error" })).toEqual({
      min_duration: "10ms",
      order: "slowest",
      status: "error",
    });
  });

  test("time and order do not narrow", () => {
    expect(narrows({ ...NO_FILTERS, range: "5m", order: "slowest" })).toBe(false);
    expect(narrows({ ...NO_FILTERS, q: "x" })).toBe(true);
  });
});

test.each([
  ["service", "cart", "service=cart"],
  ["name", "GET /cart", 'name="GET /cart"'],
  ["a.b", 'say "hi" \\', 'a.b="say \\"hi\\" \\\\"'],
  ["a.b", "", 'a.b=""'],
])("condition %s %s", (field, value, text) => {
  expect(condition(field, value)).toBe(text);
});

test("the wrong part is cut out by characters", () => {
  expect(splitAt("🦀 servce=x", 2, "servce")).toEqual(["🦀 ", "servce", "=x"]);
  expect(splitAt("a", 9, "zz")).toEqual(["a", "", ""]);
});
