// The way of the requests of an edge, against a server that is made up.
import { screen, waitFor, within } from "@testing-library/react";
import { expect, test } from "vitest";
import type { MapEdge } from "../../api/types";
import { shop, span, summary } from "../../testing/data";
import { aNode, anEdge } from "../../testing/map";
import { show } from "../../testing/render";

const edge: MapEdge = anEdge("service:web", "service:cart", 80, { count: 1 });
const map = {
  nodes: [aNode("service:web"), aNode("service:cart")],
  edges: [edge],
  spans: 1,
  flows: 0,
  limited: false,
  first_ns: "1795297682000000000",
  last_ns: "1795297683000000000",
};

/** The panel of the edge, with these spans next to a process that asks. */
const open = (spans: object[]) =>
  show("/map?edge=service:web+→+service:cart", {
    "/api/v1/map": map,
    "/api/v1/map/edge": { edge, step_ns: 1e9, points: [] },
    "/api/v1/spans": { spans, limited: false },
    "/api/v1/traces": { traces: [summary("t", { matched: ["b"] })], limited: false },
    "/api/v1/trace/t": shop(),
  });

test("an edge shows the usual way of its requests, where devices were watched", async () => {
  const server = open([span("c", { tap: "client-nic" })]);
  const way = await screen.findByRole("region", { name: "Way of its requests" });
  const points = within(way).getAllByRole("listitem");
  const names = points.map((point) => point.querySelector("strong")?.textContent);
  expect(names).toEqual(["web", "client-nic", "server-nic", "cart"]);
  expect(points[2]?.textContent).toContain("60 µs");
  expect(way.textContent).toContain("median of 1 request");
  const slowest = within(way).getByText("the slowest one");
  expect(slowest.getAttribute("href")).toBe("/trace/0123456789abcdef0123456789abcdef?span=b");
  const asked = server.asked.find((url) => url.pathname === "/api/v1/spans");
  expect(asked?.searchParams.get("q")).toBe("wirespan.hop.position=2");
});

test("an edge without devices asks for no traces", async () => {
  const server = open([]);
  await screen.findByRole("complementary", { name: "Edge" });
  await waitFor(() => expect(server.asked.some((url) => url.pathname === "/api/v1/spans")).toBe(true));
  expect(screen.queryByRole("region", { name: "Way of its requests" })).toBeNull();
  expect(server.asked.some((url) => url.pathname === "/api/v1/traces")).toBe(false);
});
