import { describe, expect, test } from "vitest";
import { span } from "../testing/data";
import { agentsWords, endpointOf, recordingOf, sidesWords, whySearch } from "./why";

const side = (spans: number) => ({ spans, least_ns: 1, mean_ns: 2, median_ns: 2 });

describe("why requests are slow", () => {
  test("requests like a span: parts with digits stand for any such part", () => {
    const cart = span("a", { operation: "PUT", target: "/cart/17/items/a3?x=1" });
    expect(endpointOf(cart)).toBe("PUT /cart/*/items/*");
    expect(Object.fromEntries(whySearch(cart))).toEqual({
      service: "web",
      operation: "PUT",
      why: "1",
      endpoint: "PUT /cart/*/items/*",
      q: "endpoint=/cart/",
    });
    expect(Object.fromEntries(whySearch(span("a", { operation: "", target: "" })))).toEqual({
      service: "web",
      why: "1",
    });
  });

  test("which requests are compared", () => {
    const words = (sides: string) => sidesWords({ sides, slow: side(1), usual: side(30) });
    expect(words("sample")).toBe("1 request above the threshold beside 30 of the sample of usual ones.");
    expect(words("threshold")).toContain("beside the quicker 30 of the others, whose waits were not recorded");
    expect(words("tenth")).toBe("The slowest 1 beside the quicker 30.");
  });

  test("an order of the same requests, and what agents do about it", () => {
    const order = { service: "shop", endpoint: "/cart/*", threshold: "auto", until_ns: "9" };
    expect(recordingOf([order], "shop", "/cart/*")).toBe(order);
    expect(recordingOf([order], "shop", "")).toBeUndefined();
    const agent = (state: "records" | "no-process" | "refused" | "silent", processes = 0) => ({
      agent: "web-1",
      state,
      why: "without --why-orders",
      processes,
    });
    expect(
      agentsWords([agent("records", 1), agent("records", 2), agent("no-process"), agent("refused"), agent("silent")]),
    ).toEqual([
      "web-1 records 1 process",
      "web-1 records 2 processes",
      "web-1 traces no process of that service",
      "web-1 does not record: without --why-orders",
      "web-1 is silent: whether it records is not known",
    ]);
  });
});
