import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { SdkEvents, SdkLinks } from "./SdkTold";

const told = {
  events: [
    { name: "cache miss", offset_ns: 1_000_000, attributes: { row: 7 } },
    { name: "exception", offset_ns: 2_000_000, attributes: { "exception.stacktrace": "KeyError\n  at shop.py:7" } },
  ],
  links: [{ trace_id: "0".repeat(31).concat("a"), span_id: "00000000000000ab", attributes: {} }],
  events_left_out: 3,
  links_left_out: 0,
};

test("events have their time and their attributes, stack traces keep their lines", () => {
  render(<SdkEvents of={told} />);
  expect(screen.getByText("cache miss").textContent).toMatch(/\+1\sms/);
  expect(screen.getByText(/at shop.py:7/).tagName).toBe("PRE");
  expect(screen.getByText("3 further events were left out.")).toBeTruthy();
});

test("a link leads to the other span in its trace", () => {
  render(<SdkLinks of={told} />);
  const link = screen.getByRole("link", { name: "span 00000000000000ab" });
  expect(link.getAttribute("href")).toContain("/trace/0000000000000000000000000000000a?span=00000000000000ab");
  expect(screen.queryByText(/left out/)).toBeNull();
});
