// The page of packet programs against a server that is made up.
import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import type { HeatView, PacketsView } from "../../api/types";
import { at, nothing } from "../../testing/packets";
import { show } from "../../testing/render";

const heat = (packets: number, half: number): HeatView => ({
  packets,
  mean_ns: 2 ** (half / 2),
  p50_ns: 2 ** (half / 2),
  p99_ns: 3 * 2 ** (half / 2),
  p999_ns: 4 * 2 ** (half / 2),
  halves: [
    [half, packets - 1],
    [half + 3, 1],
  ],
  seconds: [{ second: 1_795_297_682, halves: [[half, packets]] }],
});
const idle = nothing("idle");
const running: PacketsView = {
  ...idle,
  state: "running",
  program: "filter: {port: 80}\n",
  changes: 1,
  elapsed_ms: 3210,
  limit_ms: 10_000,
  sightings: 1234,
  lost: 5,
  journeys: 100,
  notes: ["this kernel has no point `send`: too old"],
  places: [{ place: at("queue", "eth0", "web"), packets: 100, bytes: 802_500 }],
  legs: [
    { from: at("queue", "eth0", "web"), to: at("xmit", "eth0", "web"), jitter_ns: 70, times: heat(100, 20) },
    { from: at("xmit", "eth0", "web"), to: at("receive", "porta"), jitter_ns: 90, times: heat(100, 30) },
  ],
  total: heat(98, 31),
  drops: [
    {
      place: at("drop", "porta"),
      after: at("queue", "porta"),
      reason: "QDISC_DROP",
      packets: 2,
      resent: 2,
      resent_p50_ns: 19_800_000,
    },
  ],
};

/** What a program with `loss` and `by: flow` has seen. */
const told = { went_on: 88, dropped: 10, missing: 2, under_way: 3 };
const lossy: PacketsView = {
  ...idle,
  state: "ended",
  elapsed_ms: 2000,
  loss: [
    { place: at("queue", "portb"), next: at("xmit", "portb"), loss: { packets: 103, ...told } },
    {
      place: at("xmit", "portb"),
      loss: { packets: 1, went_on: 0, dropped: 1, missing: 0, under_way: 0 },
    },
  ],
  flows: [
    {
      flow: { protocol: "udp", source: "10.0.0.1:7108", destination: "10.0.0.2:7107" },
      packets: 103,
      bytes: 500_000,
      resent: 0,
      timed: 88,
      p50_ns: 30_410_000,
      p99_ns: 79_690_000,
      p999_ns: 81_400_000,
      jitter_ns: 1_660_000,
      loss: { packets: 103, ...told },
    },
    {
      packets: 4,
      bytes: 400,
      resent: 0,
      timed: 0,
      p50_ns: 0,
      p99_ns: 0,
      p999_ns: 0,
      jitter_ns: 0,
      loss: { packets: 4, went_on: 0, dropped: 0, missing: 0, under_way: 0 },
    },
  ],
  flows_left_out: 7,
};

/** The bodies of the orders that were given. */
const orders = () =>
  vi.mocked(fetch).mock.calls.flatMap(([, how]) => (how?.method === "POST" ? [JSON.parse(String(how.body))] : []));

test("without programs the page says how to have them", async () => {
  show("/packets", { "/api/v1/packets": { ...idle, state: "off" } });
  expect((await screen.findByText("No packet programs here")).parentElement?.textContent).toContain(
    "--packet-programs",
  );
});

test("a program is run from the example", async () => {
  show("/packets", { "/api/v1/packets": idle });
  fireEvent.click(await screen.findByRole("button", { name: "Run" }));
  await waitFor(() => expect(orders()[0]?.program).toContain("filter: {"));
});

test("a service, an endpoint or a trace makes the program, and is in the address", async () => {
  show("/packets?service=shop", { "/api/v1/packets": idle });
  const text = await screen.findByLabelText<HTMLTextAreaElement>("Program (YAML)");
  expect(text.value).toMatch('filter: {service: "shop"}');
  fireEvent.change(screen.getByLabelText("Endpoint"), { target: { value: "/pay" } });
  expect(text.value).toMatch('filter: {service: "shop", endpoint: "/pay"}');
  expect(window.location.search).toBe("?service=shop&endpoint=%2Fpay");
  fireEvent.change(screen.getByLabelText("or trace"), { target: { value: "0123456789abcdef" } });
  fireEvent.click(screen.getByRole("button", { name: "Run" }));
  await waitFor(() => expect(orders()[0]?.program).toMatch('filter: {trace: "0123456789abcdef"}'));
});

test("an error of the server stands at the program", async () => {
  show("/packets", { "/api/v1/packets": idle });
  const text = await screen.findByLabelText("Program (YAML)");
  const error = { code: "bad_query", param: "program", message: "line 1: unknown key `prot`", hint: "write it right" };
  vi.mocked(fetch).mockImplementation(async () => new Response(JSON.stringify({ error }), { status: 400 }));
  fireEvent.change(text, { target: { value: "filter: {prot: tcp}" } });
  fireEvent.keyDown(text, { key: "Enter", ctrlKey: true });
  expect((await screen.findByRole("alert")).textContent).toBe("line 1: unknown key `prot` – write it right");
  expect(text.getAttribute("aria-describedby")).toBe("program-error");
});

test("the tables of a program that runs; it is changed and ended", async () => {
  show("/packets", { "/api/v1/packets": running });
  const state = (await screen.findByText("Runs")).parentElement;
  expect(state?.textContent).toBe(
    "Runs3.2 s of 10 s1,234 sightings100 packetschanged once without a gap" +
      "without the ways of the last 3 s5 sightings lost",
  );
  expect(screen.getByText("this kernel has no point `send`: too old")).toBeTruthy();
  const drops = within(screen.getByRole("region", { name: "Drops" })).getAllByRole("row")[1];
  expect(drops?.textContent).toBe("porta, after queue portaQDISC_DROP2219.8 ms");
  const places = within(screen.getByRole("region", { name: "Packets by place" })).getAllByRole("row")[1];
  expect(places?.textContent).toBe("queue eth0 in web100802,5002.00");

  const change = screen.getByRole<HTMLButtonElement>("button", { name: "Change" });
  expect(change.disabled).toBe(true);
  fireEvent.change(screen.getByLabelText("Program (YAML)"), { target: { value: "filter: {port: 81}" } });
  expect(change.disabled).toBe(false);
  fireEvent.click(change);
  await waitFor(() => expect(orders()).toEqual([{ program: "filter: {port: 81}" }]));
  await waitFor(() => expect(screen.getByRole<HTMLButtonElement>("button", { name: "End" }).disabled).toBe(false));
  fireEvent.click(screen.getByRole("button", { name: "End" }));
  await waitFor(() => expect(orders()[1]).toEqual({ program: "" }));
});

test("the heat map is that of the chosen part of the way", async () => {
  show("/packets", { "/api/v1/packets": running });
  const legs = within(await screen.findByRole("region", { name: "Time from place to place" }));
  expect(legs.getByRole("img", { name: /^the whole way by second: 98 packets/ })).toBeTruthy();
  const rows = legs.getAllByRole("row").slice(1);
  expect(rows.map((row) => row.querySelector("th")?.textContent)).toEqual([
    "queue eth0 in web → xmit eth0 in web",
    "xmit eth0 in web → receive porta",
    "the whole way",
  ]);
  fireEvent.click(legs.getByRole("button", { name: "xmit eth0 in web → receive porta" }));
  const map = legs.getByRole("img", { name: /^xmit eth0 in web → receive porta by second: 100 packets, p50 32.8 µs/ });
  // One cell of one second, and two bars.
  expect(map.querySelectorAll("rect")).toHaveLength(3);
  expect(map.querySelector("rect title")?.textContent).toMatch(/: 100 of 32.8 µs to 49.2 µs$/);
});

test("loss by place and by flow, with what is not shown", async () => {
  show("/packets", { "/api/v1/packets": lossy });
  const cells = (region: HTMLElement) =>
    within(region)
      .getAllByRole("row")
      .map((row) => [...row.querySelectorAll("th, td")].map((cell) => cell.textContent));
  const loss = cells(await screen.findByRole("region", { name: "Loss" }));
  expect(loss[1]).toEqual(["queue portb", "xmit portb", "103", "12", "12.00 %", "10", "2", "3"]);
  expect(loss[2]).toEqual(["xmit portb", "", "1", "1", "100.00 %", "1", "0", ""]);
  const region = screen.getByRole("region", { name: "Flows" });
  const flow = "udp 10.0.0.1:7108 → 10.0.0.2:7107";
  const rows = cells(region);
  expect(rows[1]?.slice(0, 5)).toEqual([flow, "103", "500,000", "2.00", "30.4 ms"]);
  expect(rows[1]?.slice(5, 8)).toEqual(["79.7 ms", "81.4 ms", "1.66 ms"]);
  expect(rows[1]?.slice(8)).toEqual(["12", "11.65 %", "3"]);
  expect(rows[2]).toEqual(["all later flows", "4", "400", "0.00", "", "", "", "", "0", "0.00 %", ""]);
  expect(within(region).getByText("7 flows with fewer bytes are not shown.")).toBeTruthy();
});
