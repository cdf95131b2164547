// Why requests are slow: the panel, and the order to record what they wait for.
import { act, fireEvent, screen, waitFor, within } from "@testing-library/react";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { SlowWait, TraceList, WhySlow } from "../../api/types";
import { flameBox, item, span, summary, trace } from "../../testing/data";
import { show } from "../../testing/render";

const MS = 1_000_000;
const found: TraceList = { traces: [summary("t1")], limited: false };
const flame = {
  slow_spans: 2,
  usual_spans: 9,
  boxes: [flameBox(0, 0, 9 * MS, "shop"), flameBox(1, 0, 8 * MS, "price")],
};

const lock: SlowWait = {
  kind: "lock",
  words: "waited for a lock held by thread keeper",
  stack: ["price (shop.c:104)", "main (shop.c:9)"],
  place: "price (shop.c:104) ← main (shop.c:9)",
  in_call: false,
  slow: { mean_ns: 88 * MS, median_ns: 90 * MS, spans: 12, waits: 14 },
  usual: { mean_ns: 2 * MS, median_ns: 0, spans: 3, waits: 3 },
  more_ns: 86 * MS,
};
const now = (changes: Partial<WhySlow> = {}): WhySlow => ({
  requests: 42,
  recorded: 42,
  takes_orders: true,
  recording: [],
  now_ns: "1795297683000000000",
  compared: {
    sides: "sample",
    slow: { spans: 12, least_ns: 60 * MS, mean_ns: 100 * MS, median_ns: 99 * MS },
    usual: { spans: 30, least_ns: 3 * MS, mean_ns: 10 * MS, median_ns: 9 * MS },
    slowest: "00000000000000aa",
    words: ["Slow ones wait 86.0ms longer for a lock held by thread keeper, in price (shop.c:104)."],
    parts: [
      { key: "wirespan.wait.on_cpu", slow_ns: 2 * MS, usual_ns: 2 * MS },
      { key: "wirespan.wait.blocked", slow_ns: 90 * MS, usual_ns: 3 * MS },
    ],
    waits: {
      slow_spans: 12,
      usual_spans: 30,
      ranked: [lock, { ...lock, kind: "sleep", words: "slept", stack: [], more_ns: -MS }],
      left_out: 0,
      shorter_slow_ns: 0,
      shorter_usual_ns: 0,
    },
  },
  ...changes,
});
const bare = () => {
  const { waits: _, ...compared } = now().compared ?? expect.fail();
  return now({ recorded: 0, compared: { ...compared, sides: "tenth" } });
};
const recording = { service: "cart", endpoint: "", threshold: "50ms", until_ns: "1795297693000000000" };
const answers = { "/api/v1/traces": found, "/api/v1/flame": flame };

afterEach(() => {
  vi.useRealTimers();
});

describe("why slow", () => {
  test("in words, then what has grown most first, then the parts, with the code beside", async () => {
    const server = show("/?service=cart", { ...answers, "/api/v1/why": now() });
    fireEvent.click(await screen.findByRole("button", { name: "Why slow" }));
    expect(window.location.search).toBe("?service=cart&why=1");
    const words = await screen.findByRole("list", { name: "In words" });
    expect(words.textContent).toContain("wait 86.0ms longer for a lock held by thread keeper, in price");
    const rows = within(screen.getByRole("table", { name: "Waits" }))
      .getAllByRole("row")
      .slice(1);
    expect(rows.map((row) => row.querySelector("strong")?.textContent)).toEqual(["+86 ms", "−1 ms"]);
    expect(rows[0]?.textContent).toContain("88 msmedian 90 msin 12 of 12");
    expect(rows[0]?.textContent).toContain("in 3 of 30");
    expect(rows[0]?.textContent).toContain("price (shop.c:104)\nmain (shop.c:9)");
    const parts = within(screen.getByRole("table", { name: "Where the time goes" }))
      .getAllByRole("row")
      .slice(1);
    expect(parts.map((row) => row.textContent)).toEqual(["+87 ms90 ms3 msblocked", "02 ms2 mson a processor"]);
    expect(await screen.findByTitle(/^price: 8 ms/)).toBeTruthy();
    const asked = server.asked.find((url) => url.pathname === "/api/v1/why");
    expect(asked?.searchParams.get("service")).toBe("cart");
    expect(screen.queryByRole("form", { name: "Record waits" })).toBeNull();
    fireEvent.click(screen.getByRole("button", { name: "Record more" }));
    expect(screen.getByRole("form", { name: "Record waits" })).toBeTruthy();
  });

  test("without recorded waits it says so, and orders them", async () => {
    const begun = { until_ns: "1", processes: 2 };
    const server = show("/?service=cart&why=1&endpoint=GET+%2Fcart%2F*", {
      ...answers,
      "/api/v1/why": bare(),
      "POST /api/v1/why": begun,
    });
    expect(await screen.findByText(/was not recorded: 0 of 42 requests/)).toBeTruthy();
    const form = screen.getByRole("form", { name: "Record waits" });
    expect(within(form).getByLabelText<HTMLInputElement>("Endpoint").value).toBe("GET /cart/*");
    fireEvent.change(within(form).getByLabelText("Slow from"), { target: { value: "50ms" } });
    fireEvent.change(within(form).getByLabelText("For"), { target: { value: "30s" } });
    fireEvent.click(within(form).getByRole("button", { name: /Record what slow requests of cart wait for/ }));
    await waitFor(() => expect(server.orders.length).toBe(1));
    expect(server.orders[0]).toEqual({
      path: "/api/v1/why",
      body: { service: "cart", endpoint: "GET /cart/*", threshold: "50ms", for: "30s" },
    });
  });

  test("while it records, the time is counted down, and it can be ended", async () => {
    vi.useFakeTimers({ shouldAdvanceTime: true });
    const server = show("/?service=cart&why=1", {
      ...answers,
      "/api/v1/why": { ...bare(), recording: [recording] },
      "POST /api/v1/why": { until_ns: "1", processes: 2 },
    });
    expect(await screen.findByText("10 s")).toBeTruthy();
    expect(screen.getByText(/Records what requests of cart wait for that take 50ms or more/)).toBeTruthy();
    act(() => vi.advanceTimersByTime(3000));
    expect(screen.getByText("7 s")).toBeTruthy();
    fireEvent.click(screen.getByRole("button", { name: "End it now" }));
    await waitFor(() => expect(server.orders[0]?.body).toEqual({ service: "cart", endpoint: "", end: true }));
  });

  test("a wrong threshold says what is wrong; a view that traces nothing says where to ask", async () => {
    const error = { code: "bad_query", message: "`soon` is not a duration", param: "threshold" };
    show("/?service=cart&why=1", {
      ...answers,
      "/api/v1/why": bare(),
      "POST /api/v1/why": { status: 400, body: { error } },
    });
    fireEvent.click(await screen.findByRole("button", { name: /Record what slow/ }));
    expect((await screen.findByRole("alert")).textContent).toContain("`soon` is not a duration");
  });

  test("agents of which none records are told", async () => {
    const agents = [{ agent: "web-1", state: "refused", why: "it was started without --why-orders", processes: 0 }];
    show("/?service=cart&why=1", {
      ...answers,
      "/api/v1/why": bare(),
      "POST /api/v1/why": { until_ns: "0", processes: 0, agents },
    });
    fireEvent.click(await screen.findByRole("button", { name: /Record what slow/ }));
    expect((await screen.findByRole("alert")).textContent).toContain("web-1 does not record: it was started without");
  });

  test("a view that traces nothing", async () => {
    show("/?service=cart&why=1", { ...answers, "/api/v1/why": { ...bare(), takes_orders: false } });
    expect(await screen.findByText(/Here is no wirespan that traces/)).toBeTruthy();
  });

  test("a span without waits orders those of requests like it, and leads to the reasons", async () => {
    const cart = span("a", { service: "cart", target: "/cart/7" });
    const server = show("/trace/t?span=a", {
      "/api/v1/trace/t": trace([item(cart), item(span("b"))]),
      "/api/v1/why": bare(),
      "POST /api/v1/why": { until_ns: "1", processes: 1 },
    });
    const panel = await screen.findByRole("complementary");
    expect(server.asked.some((url) => url.pathname === "/api/v1/why")).toBe(false);
    const link = within(panel).getByText("Why requests like this are slow");
    expect(link.getAttribute("href")).toContain("why=1&endpoint=GET+%2Fcart%2F*&q=endpoint%3D%2Fcart%2F");
    fireEvent.click(within(panel).getByRole("button", { name: "Record requests like this one" }));
    fireEvent.click(await within(panel).findByRole("button", { name: /Record what slow requests of cart/ }));
    await waitFor(() => expect(server.orders[0]?.body).toMatchObject({ service: "cart", endpoint: "GET /cart/*" }));
  });
});
