// From the server's map to what is drawn: nodes, perhaps grouped, and one arrow between two of them.
import type { MapEdge, MapNode, ServiceMap } from "../api/types";
import { formatDuration } from "./duration";

export const GROUPS = [
  ["", "every node"],
  ["far", "unobserved ends together"],
  ["host", "services of a host together"],
] as const;

export interface GraphNode {
  readonly id: string;
  readonly name: string;
  readonly kind: string;
  readonly members: readonly MapNode[];
  readonly calls: number;
  readonly errors: number;
  readonly p95: number;
}

export interface Arrow {
  /** `from` and `to` with an arrow between: also what the URL holds. */
  readonly id: string;
  readonly from: string;
  readonly to: string;
  /** Most calls first. */
  readonly edges: readonly MapEdge[];
  /** Calls; connections where no call was understood. */
  readonly calls: number;
  readonly errors: number;
  /** Attempts to connect that failed. */
  readonly failed: number;
  readonly p95: number;
  /** Median round trip, of the slowest edge; 0 if unknown. */
  readonly rtt: number;
}

export interface Graph {
  readonly nodes: readonly GraphNode[];
  readonly arrows: readonly Arrow[];
}

export function graphOf(map: ServiceMap, group: string): Graph {
  const home = new Map(map.nodes.map((node) => [node.id, groupOf(node, group)]));
  const members = new Map<string, MapNode[]>();
  for (const node of map.nodes) {
    const id = home.get(node.id) ?? node.id;
    members.set(id, [...(members.get(id) ?? []), node]);
  }
  const between = new Map<string, MapEdge[]>();
  for (const edge of map.edges) {
    const [from, to] = [home.get(edge.from), home.get(edge.to)];
    if (!from || !to) continue;
    // Calls inside a group are not drawn; a service that calls itself is.
    if (from === to && edge.from !== edge.to) continue;
    const id = arrowId(from, to);
    between.set(id, [...(between.get(id) ?? []), edge]);
  }
  return {
    nodes: [...members].map(([id, nodes]) => nodeOf(id, nodes)),
    arrows: [...between].map(([id, edges]) => arrowOf(id, home, edges)),
  };
}

export function arrowId(from: string, to: string): string {
  return `${from} → ${to}`;
}

export function edgeKey(edge: MapEdge): string {
  return `${edge.from} ${edge.to} ${edge.transport} ${edge.port}`;
}

function groupOf(node: MapNode, group: string): string {
  if (group === "far" && node.kind !== "service") return node.kind === "caller" ? "group:callers" : "group:unobserved";
  if (group === "host" && node.kind === "service" && node.hosts.length > 0) return `host:${node.hosts.join(", ")}`;
  return node.id;
}

function nodeOf(id: string, members: MapNode[]): GraphNode {
  const [first] = members;
  const whole = first?.id === id;
  const total = (key: "count" | "errors") => members.reduce((sum, node) => sum + node.calls[key], 0);
  const name = whole ? first.name : id.slice(id.indexOf(":") + 1);
  return {
    id,
    name: whole ? name : `${name} (${members.length})`,
    kind: whole ? first.kind : "group",
    members,
    calls: total("count"),
    errors: total("errors"),
    p95: Math.max(0, ...members.map((node) => node.calls.p95_ns)),
  };
}

function arrowOf(id: string, home: ReadonlyMap<string, string>, edges: MapEdge[]): Arrow {
  const sorted = [...edges].sort((a, b) => callsOf(b) - callsOf(a));
  const first = sorted[0];
  return {
    id,
    from: home.get(first?.from ?? "") ?? "",
    to: home.get(first?.to ?? "") ?? "",
    edges: sorted,
    calls: edges.reduce((sum, edge) => sum + callsOf(edge), 0),
    errors: edges.reduce((sum, edge) => sum + edge.calls.errors, 0),
    failed: edges.reduce((sum, edge) => sum + edge.tcp.failed, 0),
    p95: Math.max(0, ...edges.map((edge) => edge.calls.p95_ns)),
    rtt: Math.max(0, ...edges.map((edge) => edge.tcp.rtt_p50_ns)),
  };
}

function callsOf(edge: MapEdge): number {
  return edge.calls.count || edge.tcp.opened;
}

/** How fast an arrow is: its calls, or else its round trips; empty if unknown. */
export function pace(arrow: Arrow): string {
  if (arrow.p95 > 0) return `p95 ${formatDuration(arrow.p95)}`;
  return arrow.rtt > 0 ? `RTT ${formatDuration(arrow.rtt)}` : "";
}

/** An arrow in words. */
export function factsOf(arrow: Arrow): string {
  const understood = arrow.edges.some((edge) => edge.protocols.length > 0);
  const facts = [`${arrow.calls} ${understood ? "calls" : "connections"}`, `${arrow.errors} errors`];
  if (arrow.failed > 0) facts.push(`${arrow.failed} failed to connect`);
  const fast = pace(arrow);
  return [...facts, ...(fast ? [fast] : [])].join(", ");
}

/** Search parameters that find the spans of an edge. */
export function spansOf(edge: MapEdge, map: ServiceMap, range: string): URLSearchParams {
  const caller = serviceOf(edge.from);
  const service = caller ?? serviceOf(edge.to) ?? "";
  // The port is needed only where the caller speaks the same protocol with others.
  const alike = map.edges.filter((other) => other.from === edge.from && other.protocol === edge.protocol);
  const port = alike.length > 1 && edge.port > 0 ? ` server.port=${edge.port}` : "";
  const params = new URLSearchParams({
    q: `tap=${caller ? "client" : "server"}-process${port}`,
    service,
    protocol: edge.protocol,
  });
  if (range !== "1h") params.set("range", range);
  return params;
}

/** Name of a service from a node's id; null for an end that is not observed. */
export function serviceOf(id: string): string | null {
  return id.startsWith("service:") ? id.slice("service:".length) : null;
}

/** A node's name from its id. */
export function bare(id: string): string {
  return id.slice(id.indexOf(":") + 1);
}

export function percent(part: number, whole: number): string {
  const value = (part / Math.max(1, whole)) * 100;
  return `${value > 0 && value < 1 ? "<1" : Math.round(value)} %`;
}

export function compact(count: number): string {
  return Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(count);
}

export function formatBytes(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit + 1 < units.length) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}
