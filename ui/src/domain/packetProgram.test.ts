import { expect, test } from "vitest";
import { programOf } from "./packetProgram";

const nothing = { trace: "", service: "", endpoint: "" };

test("a program names what is given, and quotes it", () => {
  expect(programOf(nothing)).toBeNull();
  expect(programOf({ ...nothing, service: " " })).toBeNull();
  const [filter] = programOf({ ...nothing, service: "a: shop", endpoint: '/pay "now"' })?.split("\n") ?? [];
  expect(filter).toBe('filter: {service: "a: shop", endpoint: "/pay \\"now\\""}');
});

test("a trace is alone", () => {
  const id = "0123456789abcdef";
  expect(programOf({ trace: id, service: "shop", endpoint: "/pay" })).toMatch(`filter: {trace: "${id}"}\n`);
});
