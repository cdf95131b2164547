import { expect, test } from "vitest";
import { crowdedOut } from "./labels";

const label = (id: string, x: number, y: number, weight: number) => ({ id, x, y, width: 100, weight });

test("of labels on each other the one of most weight stays", () => {
  const out = crowdedOut(
    [label("few", 0, 0, 1), label("many", 60, 10, 9), label("beside", 161, 10, 1), label("below", 0, 40, 2)],
    22,
  );
  expect([...out]).toEqual(["few"]);
});

test("what is left out does not push others out", () => {
  const out = crowdedOut([label("a", 0, 0, 3), label("b", 0, 20, 2), label("c", 0, 40, 1)], 22);
  expect([...out]).toEqual(["b"]);
});
