import { expect, test } from "vitest";
import { item, span } from "../testing/data";
import { evidenceLabel, explain, strength, tapWords } from "./evidence";

const EVIDENCE = [
  "carried",
  "wire",
  "request-id",
  "thread",
  "coroutine",
  "child-task",
  "connect",
  "wake-up",
  "event-loop",
  "trace-id",
  "forwarded",
  "inferred",
];

test.each(EVIDENCE)("%s has words of its own", (evidence) => {
  const text = explain(item(span("child"), { parent: "p", evidence }), span("p", { service: "cart" }));
  expect(text).not.toContain("undefined");
  expect(text.length).toBeGreaterThan(40);
  expect(evidenceLabel(evidence)).not.toBe("");
  const others = EVIDENCE.filter((other) => other !== evidence);
  for (const other of others)
    expect(explain(item(span("child"), { parent: "p", evidence: other }), span("p", { service: "cart" }))).not.toBe(
      text,
    );
});

test("facts of the two spans are named", () => {
  const wire = explain(item(span("child"), { parent: "p" }), span("p", { service: "cart", tap: "client-process" }));
  expect(wire).toContain("1234");
  expect(wire).toContain("cart, seen at the sockets of the calling process");
  expect(explain(item(span("child", { tid: 42 }), { parent: "p", evidence: "thread" }), span("p"))).toContain(
    "Thread 42 of web",
  );
});

test("roots, missing parents and evidence of a later release", () => {
  expect(explain(item(span("root")), undefined)).toContain("where the trace begins");
  expect(explain(item(span("x"), { parent: "gone" }), undefined)).toContain("gone is not in this trace");
  expect(explain(item(span("x"), { parent: "p", evidence: "telepathy" }), span("p"))).toBe("telepathy.");
  expect(tapWords("moon")).toBe("moon");
});

test.each([
  ["wire", 1, "strong"],
  ["thread", 0.98, "strong"],
  ["thread", 0.7, "fair"],
  ["event-loop", 0.99, "fair"],
  ["wire", 0.3, "weak"],
  ["inferred", 0.9, "weak"],
])("%s with confidence %d is %s", (evidence, confidence, how) => {
  expect(strength(evidence, confidence)).toBe(how);
});
