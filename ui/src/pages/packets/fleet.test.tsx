// The page of packet programs on agents, against a server that is made up.
import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import type { FleetAgent, FleetView, HeatView } from "../../api/types";
import { at, nothing } from "../../testing/packets";
import { show } from "../../testing/render";

const heat: HeatView = {
  packets: 90,
  mean_ns: 1000,
  p50_ns: 1000,
  p99_ns: 3000,
  p999_ns: 4000,
  halves: [[20, 90]],
  seconds: [],
};
const off = nothing("off");
const agent = (name: string, more: Partial<FleetAgent>): FleetAgent => ({
  agent: name,
  state: "running",
  why: "",
  heard_ms: 300,
  incomplete: 0,
  lost_lines: 0,
  malformed: 0,
  view: { ...off, state: "running" },
  ...more,
});
const idle: FleetView = {
  state: "idle",
  number: 0,
  program: "",
  changes: 0,
  elapsed_ms: 0,
  limit_ms: 0,
  connected: [
    { agent: "web-1", takes_orders: true },
    { agent: "db-1", takes_orders: true },
    { agent: "old", takes_orders: false },
  ],
  agents: [],
  lines: [],
  first_line: 0,
  lost_lines: 0,
  between: [],
  clocks: [],
  loss: [],
  flows: [],
  flows_left_out: 0,
};
const met = { whole: 1, met: 90, only_left: 2, only_came: 3, dropped: 4, unclear: 5, unordered: 0, left_out: 0 };
const running: FleetView = {
  ...idle,
  state: "running",
  number: 7,
  program: "filter: {port: 80}\n",
  changes: 1,
  elapsed_ms: 3210,
  limit_ms: 10_000,
  agents: [
    agent("web-1", {
      met,
      view: {
        ...off,
        state: "running",
        sightings: 180,
        journeys: 90,
        legs: [{ from: at("queue", "eth0"), to: at("xmit", "eth0"), jitter_ns: 70, times: heat }],
        total: heat,
        drops: [{ place: at("drop", "eth0"), reason: "QDISC_DROP", packets: 4, resent: 0, resent_p50_ns: 0 }],
      },
    }),
    agent("db-1", { state: "silent", heard_ms: 6500, incomplete: 9 }),
    agent("old", { state: "refused", why: "it was started without --packet-programs" }),
  ],
  between: [
    {
      from_agent: "web-1",
      from: at("xmit", "eth0"),
      to_agent: "db-1",
      to: at("receive", "eth1"),
      packets: 90,
      unknown: 0,
      p50: { low_ns: 0, high_ns: 6200, error_ns: 3100 },
      p99: { low_ns: 148_000, high_ns: 154_000, ns: 151_000, error_ns: 3000 },
      times: heat,
    },
  ],
  clocks: [
    {
      agent: "db-1",
      than: "web-1",
      at_ns: 1_700_000_000_000_000_000,
      low_ns: -3_000_020_000,
      high_ns: -2_999_980_000,
      drift_low_ppm: -0.5,
      drift_high_ppm: 40.5,
      packets_to: 90,
      packets_back: 80,
      set: 0,
    },
  ],
};
const answers = (view: FleetView) => ({ "/api/v1/packets": off, "/api/v1/packets/agents": view });
const orders = () =>
  vi.mocked(fetch).mock.calls.flatMap(([, how]) => (how?.method === "POST" ? [JSON.parse(String(how.body))] : []));

test("a server runs a program on the agents that are chosen", async () => {
  show("/packets", answers(idle));
  expect(await screen.findByText("Packets of 3 agents")).toBeTruthy();
  expect(screen.getByLabelText<HTMLInputElement>(/^old/).disabled).toBe(true);
  fireEvent.click(screen.getByLabelText("db-1"));
  fireEvent.click(screen.getByRole("button", { name: "Run" }));
  await waitFor(() => expect(orders()[0]?.agents).toEqual(["web-1"]));
  expect(orders()[0]?.change).toBeUndefined();
});

test("what each agent does is told, and who is silent", async () => {
  show("/packets", answers(running));
  const state = (await screen.findByText("Runs")).parentElement;
  expect(state?.textContent).toContain("on 2 of 3 agents");
  expect(state?.textContent).toContain("partial: db-1 is silent");
  const rows = within(screen.getByRole("region", { name: "Agents" })).getAllByRole("row");
  const cells = rows.map((row) => [...row.querySelectorAll("th, td")].map((cell) => cell.textContent));
  expect(cells[1]).toEqual([
    "web-1",
    "running",
    "180",
    "90",
    "90",
    "2",
    "3",
    "1",
    "4",
    expect.stringMatching(/^5 packets/),
  ]);
  expect(cells[2]?.[1]).toBe("silent, heard of 6.5 s ago");
  expect(cells[2]?.at(-1)).toBe("9 packets that were under way are left out");
  expect(cells[3]?.[1]).toBe("refused: it was started without --packet-programs");
});

test("a time between agents has its error, and clocks are told with their sign", async () => {
  show("/packets", answers(running));
  const legs = within(await screen.findByRole("region", { name: "Time from place to place" }));
  const rows = legs.getAllByRole("row").slice(1);
  expect(rows[0]?.textContent).toBe("web-1 → db-1xmit eth0 → receive eth190at most 6.2 µs151 µs ± 3 µsunknown");
  expect(rows[1]?.textContent).toMatch(/^web-1queue eth0 → xmit eth0/);
  fireEvent.click(legs.getByRole("button", { name: "xmit eth0 → receive eth1" }));
  expect(
    legs.getByRole("img", {
      name: /^web-1 → db-1: xmit eth0 → receive eth1 by second: 90 packets, p50 at most 6.2/,
    }),
  ).toBeTruthy();
  expect(screen.getByRole("list", { name: "Clocks" }).textContent).toBe(
    "The clock of db-1 was 3.000000 s behind that of web-1 at 22:13:20.000 UTC, ± 20 µs; gains −0.5 to +40.5 ppm",
  );
  const drops = within(screen.getByRole("region", { name: "Drops" })).getAllByRole("row")[1];
  expect(drops?.textContent).toBe("web-1eth0QDISC_DROP40");
});

test("the program that runs is changed and ended", async () => {
  show("/packets", answers(running));
  fireEvent.change(await screen.findByLabelText("Program (YAML)"), { target: { value: "filter: {port: 81}" } });
  fireEvent.click(screen.getByRole("button", { name: "Change" }));
  await waitFor(() => expect(orders()).toEqual([{ program: "filter: {port: 81}", agents: [], change: 7 }]));
  await waitFor(() => expect(screen.getByRole<HTMLButtonElement>("button", { name: "End" }).disabled).toBe(false));
  fireEvent.click(screen.getByRole("button", { name: "End" }));
  await waitFor(() => expect(orders()[1]?.program).toBe(""));
});

test("a process without programs and without agents says how to have them", async () => {
  const none = { status: 404, body: { error: { code: "not_found", message: "this wirespan has no agents" } } };
  show("/packets", { "/api/v1/packets": off, "/api/v1/packets/agents": none });
  expect(await screen.findByText("No packet programs here")).toBeTruthy();
});

test("loss between agents stands before that at each of them, and an upper bound is said", async () => {
  const nothingLost = { packets: 90, went_on: 90, dropped: 0, missing: 0, under_way: 0 };
  const [web, ...others] = running.agents;
  if (!web) throw new Error("no agent");
  const place = { place: at("queue", "eth0"), next: at("xmit", "eth0"), loss: nothingLost };
  const lossy: FleetView = {
    ...running,
    agents: [{ ...web, view: { ...web.view, loss: [place] } }, ...others],
    loss: [
      {
        from_agent: "web-1",
        from: at("xmit", "eth0"),
        to_agent: "db-1",
        to: at("receive", "eth1"),
        loss: { packets: 90, went_on: 80, dropped: 0, missing: 5, under_way: 5 },
        at_most: true,
      },
    ],
    flows: [
      {
        flow: { protocol: "udp", source: "10.0.0.1:1", destination: "10.0.0.2:2" },
        agents: ["web-1", "db-1"],
        packets: 90,
        bytes: 9000,
        elapsed_ms: 1000,
        resent: 0,
        lost_at_agents: 1,
        lost_between: 5,
        unknown: 5,
        at_most: true,
      },
    ],
    flows_left_out: 2,
  };
  show("/packets", answers(lossy));
  const cells = (region: HTMLElement) =>
    within(region)
      .getAllByRole("row")
      .map((row) => [...row.querySelectorAll("th, td")].map((cell) => cell.textContent));
  const rows = cells(await screen.findByRole("region", { name: "Loss" }));
  const bounds = ["90", "at most 5", "5.88 %", "0", "at most 5", "5"];
  expect(rows[1]).toEqual(["web-1 → db-1", "xmit eth0", "receive eth1", ...bounds]);
  expect(rows[2]).toEqual(["web-1", "queue eth0", "xmit eth0", "90", "0", "0.00 %", "0", "0", ""]);
  const flows = screen.getByRole("region", { name: "Flows" });
  const ends = ["at most 6", "at most 5", "6.67 %", "5"];
  const [flow, seen] = ["udp 10.0.0.1:1 → 10.0.0.2:2", "web-1, db-1"];
  expect(cells(flows)[1]).toEqual([flow, seen, "90", "9,000", "0.07", ...ends]);
  expect(within(flows).getByText("2 flows with fewer bytes are not shown.")).toBeTruthy();
});
