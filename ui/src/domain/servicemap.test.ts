import { expect, test } from "vitest";
import { aNode, anEdge } from "../testing/map";
import { formatBytes, graphOf, spansOf } from "./servicemap";

const map = {
  from_ns: "0",
  to_ns: "1",
  first_ns: "0",
  last_ns: "1",
  unmatched: 0,
  nodes: [
    aNode("service:web", { hosts: ["h1"] }),
    aNode("service:cart", { hosts: ["h1"] }),
    aNode("service:db", { hosts: ["h2"] }),
    aNode("caller:10.0.0.1"),
    aNode("address:10.0.0.2:5432"),
    aNode("internet:internet"),
  ],
  edges: [
    anEdge("service:web", "service:cart", 8080, { count: 10, errors: 1 }),
    anEdge("service:web", "service:cart", 8081, { count: 30 }),
    anEdge("service:cart", "service:db", 5432, { count: 5 }),
    anEdge("caller:10.0.0.1", "service:web", 80, { count: 9 }),
    anEdge("service:cart", "address:10.0.0.2:5432", 5432, { count: 1 }),
    anEdge("service:cart", "internet:internet", 443, { count: 2 }),
    anEdge("service:cart", "service:cart", 1, { count: 1 }),
  ],
};

test("two ports between two services are one arrow", () => {
  const { nodes, arrows } = graphOf(map, "");
  expect(nodes).toHaveLength(6);
  const arrow = arrows.find((a) => a.id === "service:web → service:cart");
  expect(arrow).toMatchObject({ calls: 40, errors: 1 });
  expect(arrow?.edges.map((edge) => edge.port)).toEqual([8081, 8080]);
});

test("groups gather ends, and calls inside them are not drawn", () => {
  const far = graphOf(map, "far");
  expect(far.nodes.map((n) => n.name)).toEqual(["web", "cart", "db", "callers (1)", "unobserved (2)"]);
  expect(far.arrows.find((a) => a.to === "group:unobserved")?.calls).toBe(3);
  const host = graphOf(map, "host");
  expect(host.nodes.map((n) => n.name)).toEqual(["h1 (2)", "h2 (1)", "10.0.0.1", "10.0.0.2:5432", "internet"]);
  expect(host.arrows.some((a) => a.from === a.to && a.edges.some((e) => e.port === 8080))).toBe(false);
  expect(graphOf({ ...map, nodes: [], edges: [] }, "host")).toEqual({ nodes: [], arrows: [] });
});

test("the spans of an edge are searched at the end that was observed", () => {
  const [first, , , outside] = map.edges;
  expect(String(first && spansOf(first, map, "1h"))).toBe(
    "q=tap%3Dclient-process+server.port%3D8080&service=web&protocol=http",
  );
  expect(String(outside && spansOf(outside, map, "5m"))).toBe(
    "q=tap%3Dserver-process&service=web&protocol=http&range=5m",
  );
});

test("bytes", () => {
  expect([0, 999, 1000, 123_456, 5e9].map(formatBytes)).toEqual(["0 B", "999 B", "1.0 kB", "123 kB", "5.0 GB"]);
});
