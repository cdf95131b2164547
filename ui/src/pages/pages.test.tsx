// The pages against a server that is made up: what they ask, what they show, and what they say when it goes wrong.
import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { describe, expect, test, vi } from "vitest";
import type { ServiceMap, StatusView, TraceList } from "../api/types";
import { flameBox, item, shop, span, summary, trace, wait } from "../testing/data";
import { aNode, anEdge, noCalls, noTcp } from "../testing/map";
import { show } from "../testing/render";

const found: TraceList = {
  traces: [summary("t1"), summary("t2", { error: true, errors: 2, matched: ["f"] })],
  limited: false,
};
const status = (store: Partial<StatusView["store"]> = {}): StatusView => ({
  version: "0.1.0",
  now_ns: "1795297683000000000",
  store: { spans: 0, disk_bytes: 0, refused: 0, damaged: [], ...store },
  agent: {
    mode: "up",
    targets: "pid 7",
    notes: ["no kprobes here"],
    stages: [{ name: "capture", counters: [{ name: "ring full", value: 3, loss: true }] }],
    memory: { kernel_tables: 45_000_000, kernel_programs: 1_500_000, resident: 32_000_000 },
  },
});
const here = () => window.location.pathname + window.location.search;
const press = (key: string) => fireEvent.keyDown(document.activeElement ?? document.body, { key });

describe("search", () => {
  test("the URL's filters are asked for, and shown", async () => {
    const server = show("/?service=cart&status=error&min=10ms&range=all&q=http.route%3D%2Fx", {
      "/api/v1/traces": found,
    });
    await screen.findByText("GET /t1");
    const asked = server.asked.find((url) => url.pathname === "/api/v1/traces");
    expect(Object.fromEntries(asked?.searchParams ?? [])).toEqual({
      service: "cart",
      status: "error",
      min_duration: "10ms",
      q: "http.route=/x",
      limit: "100",
    });
    expect(screen.getByLabelText<HTMLSelectElement>("Service").value).toBe("cart");
    expect(screen.getByRole("textbox", { name: "Query" })).toHaveProperty("value", "http.route=/x");
    expect(screen.getByText("2 errors")).toBeTruthy();
  });

  test("a filter that is chosen goes to the URL and the server", async () => {
    const server = show("/", { "/api/v1/traces": found });
    await screen.findByText("GET /t1");
    fireEvent.change(screen.getByLabelText("Status"), { target: { value: "error" } });
    expect(here()).toBe("/?status=error");
    await waitFor(() => expect(server.asked.at(-1)?.searchParams.get("status")).toBe("error"));
  });

  test("keys: / to the query, j and k choose, Enter opens at the span that matched", async () => {
    show("/", { "/api/v1/traces": found, "/api/v1/trace/t2": shop() });
    await screen.findByText("GET /t1");
    press("/");
    expect(document.activeElement).toBe(screen.getByRole("textbox", { name: "Query" }));
    press("j");
    fireEvent.keyDown(document.activeElement ?? document.body, { key: "Escape" });
    press("j");
    press("j");
    press("k");
    press("j");
    const chosen = document.activeElement as HTMLAnchorElement;
    expect(chosen.textContent).toContain("GET /t2");
    fireEvent.click(chosen);
    expect(here()).toBe("/trace/t2?span=f");
  });

  test("in which code: slow requests that were searched for, beside usual ones", async () => {
    const boxes = [
      { ...flameBox(0, 0, 9_000_000, "cart"), usual_ns: 3_000_000 },
      { ...flameBox(1, 0, 8_000_000, "price"), usual_ns: 1_000_000 },
    ];
    const server = show("/?service=cart", {
      "/api/v1/traces": found,
      "/api/v1/flame": { slow_spans: 3, usual_spans: 40, boxes },
    });
    fireEvent.click(await screen.findByRole("button", { name: "In which code" }));
    expect(here()).toBe("/?service=cart&code=1");
    const price = await screen.findByTitle("price: 8 ms, 88.9 %, usually 1 ms");
    expect(price.style.background).not.toBe("");
    expect(screen.getByText("3 slow beside 40 usual requests, as means.")).toBeTruthy();
    const asked = server.asked.find((url) => url.pathname === "/api/v1/flame");
    expect([asked?.searchParams.get("service"), asked?.searchParams.get("tap")]).toEqual(["cart", "server-process"]);
    fireEvent.click(price);
    fireEvent.click(await screen.findByText("Show all"));
    fireEvent.click(screen.getByRole("button", { name: "In which code" }));
    expect(here()).toBe("/?service=cart");
  });

  test("in which code: what to do if that was not recorded", async () => {
    const error = { code: "not_found", message: "fewer than two say it", hint: "start with --threshold" };
    show("/?code=1", { "/api/v1/traces": found, "/api/v1/flame": { status: 404, body: { error } } });
    expect((await screen.findByText(/fewer than two say it/)).textContent).toContain("start with --threshold");
  });

  test("a query that is not understood shows which part", async () => {
    const error = {
      code: "bad_query",
      message: "`servce` is not a field",
      param: "q",
      offset: 8,
      part: "servce",
      hint: "did you mean `service`?",
    };
    show("/?q=op%3DGET++servce%3Dx", { "/api/v1/traces": { status: 400, body: { error } } });
    const alert = await screen.findByRole("alert");
    expect(within(alert).getByText("servce").tagName).toBe("MARK");
    expect(alert.textContent).toContain("did you mean `service`?");
  });

  test("an empty store says what to do, an empty answer how to widen the search", async () => {
    const none = { traces: [], limited: false };
    show("/", { "/api/v1/traces": none, "/api/v1/status": status() });
    expect((await screen.findByText("No spans yet")).parentElement?.textContent).toContain("wirespan run");
  });

  test("nothing found: search all time", async () => {
    show("/?service=cart", {
      "/api/v1/traces": { traces: [], limited: false },
      "/api/v1/status": status({ spans: 9 }),
    });
    fireEvent.click(await screen.findByText("Search all time"));
    expect(here()).toBe("/?service=cart&range=all");
    fireEvent.click(await screen.findByText("Clear the filters"));
    expect(here()).toBe("/?range=all");
  });

  test("a store that does not write says why", async () => {
    show("/", {
      "/api/v1/traces": { traces: [], limited: false },
      "/api/v1/status": status({ stopped: "disk full: 3 MB left" }),
    });
    expect((await screen.findByRole("alert")).textContent).toContain("disk full: 3 MB left");
  });

  test("a server that does not answer", async () => {
    const server = show("/", { "/api/v1/traces": new Error("refused") });
    expect(await screen.findByText("The server does not answer", {}, { timeout: 3000 })).toBeTruthy();
    const before = server.asked.length;
    fireEvent.click(screen.getByText("Try again"));
    await waitFor(() => expect(server.asked.length).toBeGreaterThan(before));
  });
});

describe("trace", () => {
  const answers = { "/api/v1/trace/t": shop() };

  test("a tree with depth, taps, evidence and errors", async () => {
    show("/trace/t", answers);
    const rows = (await screen.findAllByRole("row")).slice(1);
    expect(rows.map((row) => row.getAttribute("aria-level"))).toEqual(["1", "2", "3", "4", "5", "6", "2"]);
    expect(rows[1]?.textContent).toContain("thread 98 %");
    expect(rows[2]?.textContent).toContain("client NIC");
    expect(
      within(rows[5] as HTMLElement)
        .getByRole("img")
        .getAttribute("aria-label"),
    ).toBe("error: server-error");
    expect(rows[5]?.textContent).toContain("inferred 40 %");
  });

  test("fold and unfold by key and by button", async () => {
    show("/trace/t", answers);
    await screen.findAllByRole("row");
    press("j");
    press("ArrowLeft");
    expect(screen.getAllByRole("row")).toHaveLength(4);
    expect(screen.getByText("+4")).toBeTruthy();
    press("ArrowRight");
    expect(screen.getAllByRole("row")).toHaveLength(8);
    fireEvent.click(screen.getByText("Collapse all"));
    expect(screen.getAllByRole("row")).toHaveLength(2);
    fireEvent.click(screen.getByText("Expand all"));
    expect(screen.getAllByRole("row")).toHaveLength(8);
  });

  test("network taps can be hidden, and the URL keeps it", async () => {
    show("/trace/t", answers);
    fireEvent.click(await screen.findByLabelText("network taps"));
    expect(here()).toBe("/trace/t?net=0");
    expect(screen.getAllByRole("row")).toHaveLength(6);
  });

  test("a span opens by key with its facts and evidence, moves, and closes", async () => {
    show("/trace/t", answers);
    await screen.findAllByRole("row");
    press("e");
    press("Enter");
    expect(here()).toBe("/trace/t?span=f");
    const panel = screen.getByRole("complementary", { name: "Span SET cart:7" });
    expect(panel.textContent).toContain("READONLY");
    expect(panel.textContent).toContain("Take it as a guess");
    expect(panel.textContent).toContain("http.request.method");
    press("k");
    expect(here()).toBe("/trace/t?span=e");
    press("Escape");
    expect(here()).toBe("/trace/t");
  });

  test("a deep link opens its span, and a link in the panel goes to the parent", async () => {
    show("/trace/t?span=e", answers);
    const panel = await screen.findByRole("complementary");
    expect(panel.textContent).toContain("TCP sequence number 1234");
    fireEvent.click(within(panel).getByText(/^↑/));
    expect(here()).toBe("/trace/t?span=d");
  });

  test("the way of a request has its points, and each leads to its span", async () => {
    show("/trace/t?span=d", answers);
    const panel = await screen.findByRole("complementary");
    const way = within(panel).getByRole("list", { name: "Points of the way" });
    const points = within(way).getAllByRole("listitem");
    expect(points.map((point) => point.textContent)).toEqual([
      "web client-process",
      "20 µs↓ 10 µs ↑ 10 µsclient-nic",
      "60 µs↓ 30 µs ↑ 30 µsserver-nic",
      "80 µs↓ 20 µs ↑ 60 µscart server-process",
    ]);
    expect(points.map((point) => point.getAttribute("aria-current"))).toEqual([null, null, "true", null]);
    fireEvent.click(within(way).getByText("cart"));
    expect(here()).toBe("/trace/t?span=e");
  });

  test("a bar and the panel say where the time went", async () => {
    const attributes = { "wirespan.wait.run_queue": 9_000_000, "wirespan.wait.on_cpu": 1_000_000 };
    show("/trace/t?span=a", { "/api/v1/trace/t": trace([item(span("a", { attributes })), item(span("b"))]) });
    const panel = await screen.findByRole("complementary");
    const list = within(panel).getAllByRole("listitem");
    expect(list.map((row) => row.textContent)).toEqual(["on a processor1 ms10 %", "ready, no processor9 ms90 %"]);
    expect(panel.textContent).toContain("For 9 ms it was ready and got no processor");
    const rows = screen.getAllByRole("row").filter((row) => row.id.startsWith("span-"));
    expect(rows.map((row) => row.querySelectorAll("[data-part]").length)).toEqual([2, 0]);
  });

  test("the panel tells the waits of a slow span in words, the longest first", async () => {
    const lock = wait("worker-1", 1_000_000, 8_000_000, {
      words: "waited for a lock held by thread keeper, which wrote to /srv/app.log for 7.00ms",
      ready_ns: 500_000,
      woken_by_span: "00a1",
      ran_by: "service shop",
      ran_by_span: "00b2",
      stack: ["price (cart.c:17)", "main (cart.c:40)"],
      kernel_stack: ["futex_do_wait"],
    });
    const short = Array.from({ length: 7 }, (_, n) =>
      wait("worker-2", n * 1000, 500, { kind: "socket", in_call: true }),
    );
    const flame = [flameBox(0, 0, 9_000_000, "shop: GET"), flameBox(1, 0, 8_000_000, "price")];
    const waits = { reason: "slow", waits: [...short, lock], left_out: 3, flame };
    show("/trace/t?span=a", { "/api/v1/trace/t": trace([{ ...item(span("a")), waits }, item(span("b"))]) });
    const panel = await screen.findByRole("complementary");
    expect(panel.textContent).toContain("held by thread keeper, which wrote to /srv/app.log for 7.00ms");
    expect(panel.textContent).toContain("lock, from 1 ms on, then 500 µs ready, while service shop ran");
    const other = (words: string) => within(panel).getByText(words).getAttribute("href");
    expect(other("the request that ended it")).toBe("/trace/00a1?span=00a1");
    expect(other("the request that ran")).toBe("/trace/00b2?span=00b2");
    expect(panel.textContent).toContain("price (cart.c:17)\nmain (cart.c:40)kernel:\nfutex_do_wait");
    expect(panel.querySelectorAll("details").length).toBe(1);
    expect(panel.textContent).toContain("because the request was slow. 3 shorter waits are not kept.");
    const line = within(panel).getByRole("img", { name: /Waits in the time/ });
    expect(line.querySelectorAll("[data-kind]").length).toBe(8);
    expect(line.textContent).toContain("worker-2");
    expect(within(panel).getAllByRole("listitem").length).toBe(6);
    expect(within(panel).getByTitle("price: 8 ms, 88.9 %").textContent).toBe("price");
    fireEvent.click(within(panel).getByText("2 shorter waits"));
    expect(within(panel).getAllByRole("listitem").length).toBe(8);
  });

  test("what a span got through a broker leads to who sent it", async () => {
    const fetch = item(span("a", { name: "poll orders", kind: "consumer" }));
    const links = [
      { span_id: "p1", trace_id: "t1", way: "from-producer", evidence: "broker", confidence: 1 },
      { span_id: "p2", way: "from-producer", evidence: "broker", confidence: 1 },
      { span_id: "c1", trace_id: "t3", way: "to-consumer", evidence: "broker", confidence: 0.9 },
    ];
    show("/trace/t?span=a", { "/api/v1/trace/t": trace([{ ...fetch, links }]) });
    const panel = await screen.findByRole("complementary");
    expect(panel.textContent).toContain("Messages (3)");
    const hrefs = within(panel)
      .getAllByText(/^[←→] span/)
      .map((a) => a.getAttribute("href"));
    expect(hrefs).toEqual(["/trace/t1?span=p1", "/trace/p2?span=p2", "/trace/t3?span=c1"]);
    expect(panel.textContent).toContain("Received what this span sent");
  });

  test("a call that waits for work says so", async () => {
    const fetch = span("f", { name: "Fetch orders", protocol: "kafka", waits_for_work: true });
    show("/trace/t", { "/api/v1/trace/t": trace([item(span("a")), item(fetch, { parent: "a", depth: 1 })]) });
    expect((await screen.findByTitle(/how long it takes is no speed/)).textContent).toBe("waits for work");
  });

  test("copy as JSON", async () => {
    const writeText = vi.fn().mockResolvedValue(undefined);
    vi.stubGlobal("navigator", { clipboard: { writeText } });
    show("/trace/t?span=f", answers);
    const panel = await screen.findByRole("complementary");
    fireEvent.click(within(panel).getByText("Copy JSON"));
    await within(panel).findByText("Copied");
    expect(JSON.parse(writeText.mock.calls[0]?.[0]).span.id).toBe("f");
    vi.unstubAllGlobals();
  });

  test("a part of the time by key", async () => {
    show("/trace/t", answers);
    await screen.findAllByRole("row");
    press("End");
    press("z");
    expect(here()).toBe("/trace/t?zoom=8000000-10000000");
    press("0");
    expect(here()).toBe("/trace/t");
  });

  test("a trace that is gone", async () => {
    const error = {
      code: "not_found",
      message: "the store has no trace t",
      hint: "it may have been removed by age or size",
    };
    show("/trace/t", { "/api/v1/trace/t": { status: 404, body: { error } } });
    expect((await screen.findByRole("alert")).textContent).toContain("removed by age or size");
  });
});

describe("map and status", () => {
  const calls = { ...noCalls, count: 10, errors: 2, p50_ns: 1_000_000, p95_ns: 5_000_000 };
  const edge = {
    ...anEdge("service:web", "address:10.0.0.9:5432", 5432, calls),
    protocol: "postgresql",
    protocols: ["postgresql"],
  };
  const map: ServiceMap = {
    from_ns: "0",
    to_ns: "60000000000",
    first_ns: "0",
    last_ns: "60000000000",
    unmatched: 0,
    nodes: [aNode("service:web", { calls }), aNode("address:10.0.0.9:5432", { calls })],
    edges: [{ ...edge, tcp: { ...noTcp, rtt_p50_ns: 50_000, retransmits: 3 }, client: { calls, tcp: noTcp } }],
  };

  test("the map says the same in words, and leads to the traces", async () => {
    show("/map", { "/api/v1/map": map });
    const row = (await screen.findAllByRole("row"))[1];
    expect(row?.textContent).toBe("web10.0.0.9:54325432postgresql102 (20 %)1 ms5 ms–50 µs3Details");
    expect(
      within(row as HTMLElement)
        .getByText("2 (20 %)")
        .getAttribute("href"),
    ).toBe("/?q=tap%3Dclient-process&service=web&protocol=postgresql&status=error");
    expect(screen.getByRole("link", { name: /^web: 10 calls/ }).getAttribute("href")).toBe("/?service=web");
  });

  test("connections that nobody understood have a round trip, no latency; what cannot connect is red", async () => {
    const tcp = { ...noTcp, from_flows: true, opened: 4, failed: 2, rtt_p50_ns: 50_000 };
    show("/map", {
      "/api/v1/map": {
        ...map,
        edges: [
          { ...anEdge("service:web", "address:10.0.0.9:5432", 5432, noCalls), protocol: "tcp", protocols: [], tcp },
        ],
      },
    });
    const row = (await screen.findAllByRole("row"))[1];
    expect(row?.textContent).toBe("web10.0.0.9:54325432tcp–0––4 + 2 failed50 µs0Details");
    const name = "web → 10.0.0.9:5432, tcp: 4 connections, 0 errors, 2 failed to connect, RTT 50 µs";
    expect(screen.getByRole("button", { name }).getAttribute("data-bad")).toBe("true");
  });

  test("an edge is opened by the keyboard, shows both views and its history, and is closed", async () => {
    const point = { start_ns: "0", calls: 10, errors: 2, p50_ns: 1_000_000, p95_ns: 5_000_000, bytes: 9, tcp: noTcp };
    const history = { edge: map.edges[0], step_ns: 1e9, points: [point, { ...point, calls: 0, errors: 0 }] };
    show("/map", { "/api/v1/map": map, "/api/v1/map/edge": history });
    fireEvent.keyDown(await screen.findByRole("button", { name: /^web → 10\.0\.0\.9:5432/ }), { key: "Enter" });
    expect(new URLSearchParams(here().split("?")[1]).get("edge")).toBe("service:web → address:10.0.0.9:5432");
    const panel = await screen.findByRole("complementary", { name: "Edge" });
    expect(within(panel).getByRole("row", { name: /^p95/ }).textContent).toBe("p955 ms–");
    expect(await within(panel).findByRole("img", { name: "calls over time, at most 10" })).toBeTruthy();
    press("Escape");
    expect(here()).toBe("/map");
  });

  test("unobserved ends are gathered", async () => {
    show("/map?group=far", { "/api/v1/map": map });
    expect((await screen.findAllByText("unobserved (1)")).length).toBeGreaterThan(0);
  });

  test("no calls", async () => {
    show("/map", { "/api/v1/map": { ...map, nodes: [], edges: [] } });
    expect(await screen.findByText("No calls in this time")).toBeTruthy();
  });

  test("losses and notes are seen", async () => {
    const dropped = [{ name: "disk full", value: 4, loss: true, todo: "give it room" }];
    const told = status({ spans: 5 });
    const stages = [...told.agent.stages, { name: "store", counters: dropped }];
    show("/status", { "/api/v1/status": { ...told, agent: { ...told.agent, stages } } });
    expect(await screen.findByText("no kprobes here")).toBeTruthy();
    expect(screen.getByText("Lost").nextElementSibling?.textContent).toBe("7");
    expect(screen.getByRole("table", { name: "capture" }).textContent).toContain("ring full3");
    expect(screen.getByRole("table", { name: "store" }).textContent).toContain("disk full4");
    expect(screen.getByRole("list", { name: "Lost" }).textContent).toContain("store: disk full: 4; give it room");
  });
});

test("the theme goes round and is kept", async () => {
  show("/status", { "/api/v1/status": status() });
  const button = screen.getByRole("button", { name: /theme/ });
  fireEvent.click(button);
  expect(document.documentElement.dataset.theme).toBe("dark");
  expect(localStorage.getItem("wirespan.theme")).toBe("dark");
  fireEvent.click(button);
  expect(document.documentElement.dataset.theme).toBe("light");
  fireEvent.click(button);
  expect(document.documentElement.dataset.theme).toBeUndefined();
  expect(localStorage.getItem("wirespan.theme")).toBeNull();
});

test("an unknown page", () => {
  show("/nowhere", {});
  expect(screen.getByText("There is no such page")).toBeTruthy();
});
