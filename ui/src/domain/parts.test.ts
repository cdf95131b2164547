import { describe, expect, it } from "vitest";
import { span } from "../testing/data";
import { most, parts } from "./parts";

const spent = (attributes: Record<string, number>) => span("a", { duration_ns: 100, attributes });

describe("parts", () => {
  it("are those of the attributes, as shares of the duration", () => {
    const list = parts(
      spent({ "wirespan.wait.children": 70, "wirespan.wait.on_cpu": 30, "http.response.status_code": 200 }),
    );
    expect(list.map((p) => [p.key, p.share])).toEqual([
      ["on_cpu", 0.3],
      ["children", 0.7],
    ]);
    expect(most(list)?.key).toBe("children");
  });

  it("are none where no thread was seen", () => {
    expect(parts(spent({}))).toEqual([]);
    expect(most([])).toBeNull();
  });
});
