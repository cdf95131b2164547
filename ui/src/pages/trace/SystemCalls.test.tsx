import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import type { SpanCalls } from "../../api/types";
import { SystemCalls } from "./SystemCalls";

const calls: SpanCalls = {
  form: "events",
  sums: [
    { name: "openat", count: 3, failed: 1, total_ns: 9000, longest_ns: 7000 },
    { name: "getppid", count: 40, failed: 0, total_ns: 4000, longest_ns: 200 },
  ],
  events: [{ name: "openat", offset_ns: 1500, duration_ns: 7000, result: -2, tid: 8 }],
  left_out: 42,
  lost: 5,
};

test("calls are listed by name, and what is missing is said", () => {
  render(<SystemCalls of={calls} />);
  const row = screen.getByRole("row", { name: /^openat 3/ });
  expect(row.textContent).toMatch(/^openat31.*9.*7/);
  expect(screen.getByRole("row", { name: /^getppid 40/ })).toBeTruthy();
  expect(screen.getByText("ENOENT").closest("tr")?.textContent).toBe("openat+1.5 µs7 µsENOENT");
  expect(screen.getByText(/42 further calls.*5 calls were lost/)).toBeTruthy();
});

test("a request without such calls says so", () => {
  render(<SystemCalls of={{ ...calls, sums: [], events: [], left_out: 0, lost: 0 }} />);
  expect(screen.getByText(/made none of the calls/)).toBeTruthy();
});
