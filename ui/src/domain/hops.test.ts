import { expect, test } from "vitest";
import { item, shop, span, trace } from "../testing/data";
import { formatDuration } from "./duration";
import { corrected, stops } from "./hops";
import { hopText, measured, rows, tree } from "./waterfall";

const hops = (of: Record<string, number | string>) =>
  Object.fromEntries(
    Object.entries(of).map(([key, value]) => [key.includes(".") ? key : `wirespan.hop.${key}`, value]),
  );

/** web → eth0 → portb → cart; portb is slow and drops. */
function congested() {
  const device = { service: "", kind: "client" } as const;
  return trace([
    item(span("a", { kind: "client", tap: "client-process" }), { response: 9_000_000 }),
    item(
      span("b", {
        ...device,
        tap: "client-nic",
        attributes: hops({
          "network.interface.name": "eth0",
          request_ns: 10_000,
          request_error_ns: 0,
          response_ns: 30_000,
          response_error_ns: 0,
          round_trip_ns: 40_000,
        }),
      }),
      { parent: "a", at: 10_000, response: 8_970_000, depth: 1 },
    ),
    item(
      span("c", {
        ...device,
        tap: "gateway",
        tcp: { srtt_ns: 0, retransmits: 1, resets: 0, connect_ns: 0, queue_ns: 0 },
        attributes: hops({
          "network.interface.name": "portb",
          netns: "switch",
          request_ns: 5_000_000,
          request_error_ns: 1_000_000,
          round_trip_ns: 5_960_000,
          queue_ns: 4_500_000,
          queue_packets: 1,
          dropped_packets: 2,
          drop_reason: "QDISC_DROP",
        }),
      }),
      { parent: "b", at: 5_010_000, response: 8_010_000, depth: 2 },
    ),
    item(span("d", { service: "cart" }), { parent: "c", at: 7_010_000, response: 8_010_000, depth: 3 }),
    item(span("e", { kind: "client", tap: "client-process" }), { parent: "d", evidence: "thread", depth: 4 }),
  ]);
}

test("a way has its points in order, with the share of each hop and what happened there", () => {
  const all = congested();
  for (const at of [0, 1, 2, 3]) {
    const way = stops(all, all.spans[at] as never, formatDuration);
    expect(way.map((stop) => stop.name)).toEqual(["web", "eth0", "portb", "cart"]);
    expect(way.map((stop) => stop.bothNs)).toEqual([null, 40_000, 5_960_000, 2_000_000]);
    expect(way.map((stop) => stop.share)).toEqual([0, 0.005, 0.745, 0.25]);
    expect(way[2]?.request).toEqual({ ns: 5_000_000, errorNs: 1_000_000 });
    // Two views of processes and devices have offsets where no attribute tells the time.
    expect(way[3]?.request).toEqual({ ns: 2_000_000, errorNs: 0 });
    expect(way[2]?.place).toBe("switch");
    expect(way.map((stop) => stop.lossy)).toEqual([false, false, true, false]);
    expect(way[2]?.notes).toEqual([
      "waited 4.5 ms in its queue behind 1 packet",
      "2 packets dropped: QDISC_DROP",
      "1 packet came again",
    ]);
  }
});

test("a request that no device saw has no way", () => {
  const all = congested();
  expect(stops(all, all.spans[4] as never, formatDuration)).toEqual([]);
  const { spans } = shop();
  expect(stops(shop(), spans[6] as never, formatDuration)).toEqual([]);
});

test("points of captures without attributes have times by their offsets", () => {
  const all = shop();
  const way = stops(all, all.spans[3] as never, formatDuration);
  expect(way.map((stop) => stop.name)).toEqual(["web", "client-nic", "server-nic", "cart"]);
  expect(way.map((stop) => stop.bothNs)).toEqual([null, 20_000, 60_000, 80_000]);
});

test("between two hosts a time of one direction has an error, or is unknown", () => {
  const of = (more: Record<string, number | string>) =>
    trace([
      item(span("a", { kind: "client", tap: "client-process" }), { response: 100_000 }),
      item(
        span("b", { service: "cart", attributes: hops({ clocks: "two hosts", ...more }) }),
        // The other clock is three seconds behind.
        { parent: "a", at: -3_000_000_000, response: -2_999_950_000, depth: 1 },
      ),
    ]);
  const unknown = of({ round_trip_ns: 50_000 });
  const row = rows(tree(unknown), new Set(), false)[1];
  expect(row?.hop).toEqual({ request: null, response: null, bothNs: 50_000 });
  expect(measured(row?.hop?.request ?? null, formatDuration)).toBe("unknown");
  const known = rows(
    tree(of({ round_trip_ns: 50_000, request_ns: 30_000, request_error_ns: 2_000, response_ns: 20_000 })),
    new Set(),
    false,
  )[1];
  expect(known?.hop?.request).toEqual({ ns: 30_000, errorNs: 2_000 });
  expect(measured(known?.hop?.request ?? null, formatDuration)).toBe("30 µs ± 2 µs");
});

test("two hosts that contradict each other tell no time", () => {
  const t = trace([
    item(span("a", { kind: "client", tap: "client-process" }), { response: 100_000 }),
    // It says that it took longer than its caller waited.
    item(span("b", { attributes: hops({ clocks: "two hosts" }) }), { parent: "a", at: 0, response: 200_000, depth: 1 }),
  ]);
  expect(rows(tree(t), new Set(), false)[1]?.hop).toEqual({ request: null, response: null, bothNs: null });
});

test("where devices are hidden, a hop over them that leaves the host has no time of one direction", () => {
  const t = trace([
    item(span("a", { kind: "client", tap: "client-process" }), { response: 100_000 }),
    item(
      span("b", { tap: "server-nic", service: "", attributes: hops({ clocks: "two hosts", round_trip_ns: 40_000 }) }),
      {
        parent: "a",
        at: -3_000_000_000,
        response: -2_999_940_000,
        depth: 1,
      },
    ),
    item(span("c", { service: "cart" }), { parent: "b", at: -2_999_995_000, response: -2_999_945_000, depth: 2 }),
  ]);
  const shown = rows(tree(t), new Set(), true);
  expect(shown.map((row) => row.item.span.id)).toEqual(["a", "c"]);
  expect(shown[1]?.hop).toEqual({ request: null, response: null, bothNs: 50_000 });
});

test("a clock that was corrected says by how much it is wrong", () => {
  const of = (ahead_ns?: number) =>
    corrected(
      span("a", {
        attributes:
          ahead_ns === undefined ? {} : hops({ "wirespan.clock.ahead_ns": ahead_ns, "wirespan.clock.error_ns": 4_000 }),
      }),
      formatDuration,
    );
  expect(of()).toBeNull();
  expect(of(-3_123_456_789)).toBe("3.12 s ± 4 µs behind; times corrected");
  expect(of(20_000_000)).toBe("20 ms ± 4 µs ahead; times corrected");
});

test("a hop fits its narrow column, and its words say the rest", () => {
  const both = hopText({ request: null, response: null, bothNs: 50_000 }, formatDuration);
  expect(both.short).toBe("↔ 50 µs");
  expect(both.words).toMatch(/^50 µs for request and response together; the time of one direction is unknown/);
  const known = { request: { ns: 30_000, errorNs: 2_000 }, response: { ns: 20_000, errorNs: 2_000 }, bothNs: 50_000 };
  expect(hopText(known, formatDuration)).toEqual({
    short: "≈30 µs · ≈20 µs",
    words: "request 30 µs ± 2 µs, response 20 µs ± 2 µs; 50 µs for request and response together",
  });
  const open = hopText({ ...known, response: { ns: 20_000, errorNs: 20_000 } }, formatDuration);
  expect(open.short).toBe("≈30 µs · ≤40 µs");
  expect(open.words).toMatch(/response at most 40 µs;/);
  const oneWay = hopText({ request: { ns: 9_000, errorNs: 0 }, response: null, bothNs: null }, formatDuration);
  expect(oneWay).toEqual({ short: "9 µs", words: "request 9 µs" });
});
