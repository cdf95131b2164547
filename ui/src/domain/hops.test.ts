import { expect, test } from "vitest";
import type { HopView, TimeView } from "../api/types";
import { item, shop, span, trace } from "../testing/data";
import { formatDuration } from "./duration";
import { corrected, stops } from "./hops";
import { exact } from "./times";
import { hopText } from "./waterfall";

const hops = (of: Record<string, number | string>) =>
  Object.fromEntries(
    Object.entries(of).map(([key, value]) => [key.includes(".") ? key : `wirespan.hop.${key}`, value]),
  );

const slow: TimeView = { low_ns: 4_000_000, high_ns: 6_000_000, ns: 5_000_000, error_ns: 1_000_000 };

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
        }),
      }),
      { parent: "a", depth: 1, hop: { there: exact(10_000), back: exact(30_000), both: exact(40_000) } },
    ),
    item(
      span("c", {
        ...device,
        tap: "gateway",
        tcp: { srtt_ns: 0, retransmits: 1, resets: 0, connect_ns: 0, queue_ns: 0 },
        attributes: hops({
          "network.interface.name": "portb",
          netns: "switch",
          queue_ns: 4_500_000,
          queue_packets: 1,
          dropped_packets: 2,
          drop_reason: "QDISC_DROP",
        }),
      }),
      { parent: "b", depth: 2, hop: { there: slow, both: exact(5_960_000) } },
    ),
    item(span("d", { service: "cart" }), {
      parent: "c",
      depth: 3,
      hop: { there: exact(2_000_000), both: exact(2_000_000) },
    }),
    item(span("e", { kind: "client", tap: "client-process" }), { parent: "d", evidence: "thread", depth: 4 }),
  ]);
}

test("a way has its points in order, with the share of each hop and what happened there", () => {
  const all = congested();
  for (const at of [0, 1, 2, 3]) {
    const way = stops(all, all.spans[at] as never, formatDuration);
    expect(way.map((stop) => stop.name)).toEqual(["web", "eth0", "portb", "cart"]);
    expect(way.map((stop) => stop.both?.ns ?? null)).toEqual([null, 40_000, 5_960_000, 2_000_000]);
    expect(way.map((stop) => stop.share)).toEqual([0, 0.005, 0.745, 0.25]);
    expect(way.map((stop) => stop.request)).toEqual([null, exact(10_000), slow, exact(2_000_000)]);
    expect(way.map((stop) => stop.response)).toEqual([null, exact(30_000), null, null]);
    expect(way[2]?.place).toBe("switch");
    expect(way.map((stop) => stop.lossy)).toEqual([false, false, true, false]);
    expect(way[2]?.notes).toEqual([
      "waited 4.5 ms in its queue behind 1 packet",
      "2 packets dropped: QDISC_DROP",
      "1 packet came again",
    ]);
  }
});

test("a point whose order is not known says so", () => {
  const { spans, ...rest } = congested();
  const unknown = spans.map((each) =>
    each.span.id === "b" ? { ...each, span: { ...each.span, attributes: hops({ evidence: "unknown" }) } } : each,
  );
  const way = stops({ ...rest, spans: unknown }, unknown[0] as never, formatDuration);
  expect(way.map((stop) => stop.notes[0])).toEqual([
    undefined,
    "its place on the way is not known",
    "waited 4.5 ms in its queue behind 1 packet",
    undefined,
  ]);
});

test("a request that no device saw has no way", () => {
  const all = congested();
  expect(stops(all, all.spans[4] as never, formatDuration)).toEqual([]);
  const { spans } = shop();
  expect(stops(shop(), spans[6] as never, formatDuration)).toEqual([]);
});

test("a time that the server does not tell is not told", () => {
  const all = shop();
  const spans = all.spans.map((each) => (each.span.id === "d" ? { ...each, hop: {} } : each));
  const way = stops({ ...all, spans }, spans[3] as never, formatDuration);
  expect(way.map((stop) => stop.name)).toEqual(["web", "client-nic", "server-nic", "cart"]);
  expect(way.map((stop) => stop.both?.ns ?? null)).toEqual([null, 20_000, null, 80_000]);
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
  const both = hopText({ both: exact(50_000) }, formatDuration);
  expect(both.short).toBe("↔ 50 µs");
  expect(both.words).toMatch(/^50 µs for request and response together; the time of one direction is unknown/);
  const drifted = hopText({ both: { low_ns: 40_000, high_ns: 60_000, ns: 50_000, error_ns: 10_000 } }, formatDuration);
  expect(drifted.short).toBe("↔ ≈50 µs");
  expect(drifted.words).toMatch(/^50 µs ± 10 µs for request and response together;/);
  const known: HopView = {
    there: { low_ns: 28_000, high_ns: 32_000, ns: 30_000, error_ns: 2_000 },
    back: { low_ns: 18_000, high_ns: 22_000, ns: 20_000, error_ns: 2_000 },
    both: exact(50_000),
  };
  expect(hopText(known, formatDuration)).toEqual({
    short: "≈30 µs · ≈20 µs",
    words: "request 30 µs ± 2 µs, response 20 µs ± 2 µs; 50 µs for request and response together",
  });
  const open = hopText({ ...known, back: { low_ns: 0, high_ns: 40_000, error_ns: 20_000 } }, formatDuration);
  expect(open.short).toBe("≈30 µs · ≤40 µs");
  expect(open.words).toMatch(/response at most 40 µs;/);
  const oneWay = hopText({ there: exact(9_000) }, formatDuration);
  expect(oneWay).toEqual({ short: "9 µs", words: "request 9 µs" });
  expect(hopText({}, formatDuration)).toEqual({ short: "?", words: "request unknown" });
});
