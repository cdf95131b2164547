import { describe, expect, it } from "vitest";
import { wait } from "../testing/data";
import { kindLabel, lanes, longest, reasonWords } from "./waits";

describe("waits", () => {
  it("lie in the span's time, a lane for each thread, and are cut at the end", () => {
    const found = lanes([wait("b", 50, 100), wait("a", 0, 10), wait("b", 20, 10), wait("a", 120, 5)], 100);
    expect(found.map((lane) => [lane.thread, lane.marks.map((m) => [m.left, m.width])])).toEqual([
      [
        "a",
        [
          [0, 10],
          [100, 0],
        ],
      ],
      [
        "b",
        [
          [20, 10],
          [50, 50],
        ],
      ],
    ]);
    expect(lanes([], 0)).toEqual([]);
  });

  it("are shortened to the longest, and stay in order", () => {
    const few = longest([wait("a", 0, 5), wait("a", 10, 1), wait("a", 20, 9), wait("a", 30, 7)], 3);
    expect(few.map((w) => w.offset_ns)).toEqual([0, 20, 30]);
  });

  it("have words", () => {
    expect(kindLabel("run-queue")).toBe("no processor");
    expect(kindLabel("of-a-newer-agent")).toBe("of-a-newer-agent");
    expect(reasonWords("slow")).toContain("slow");
    expect(reasonWords("sample")).toContain("usual");
    expect(reasonWords("error")).toContain("failed");
  });
});
