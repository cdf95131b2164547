import { expect, test } from "vitest";
import { span } from "../testing/data";
import { housekeeping, statement } from "./housekeeping";

test("what was folded is told in one sentence", () => {
  const of = (attributes: Record<string, string | number>) => housekeeping(span("a", { attributes }));
  expect(of({})).toBeNull();
  expect(
    of({
      "wirespan.housekeeping.count": 2,
      "wirespan.housekeeping.duration_ns": 1_500_000,
      "wirespan.housekeeping.operations": "STARTUP, PREPARE",
    }),
  ).toEqual({ count: 2, words: "2 calls of the driver for this connection, 1.5 ms in all: STARTUP, PREPARE" });
  expect(of({ "wirespan.housekeeping.count": 1 })?.words).toContain("1 call of");
});

test("a statement stands for its short name", () => {
  expect(statement(span("a"))).toBe("GET /a");
  expect(statement(span("a", { attributes: { "db.query.text": "SELECT 1" } }))).toBe("SELECT 1");
});
