// Parts of maps for tests.
import type { MapEdge, MapNode } from "../api/types";

export const noCalls = { count: 0, errors: 0, request_bytes: 0, response_bytes: 0, p50_ns: 0, p95_ns: 0, p99_ns: 0 };

export const noTcp = {
  from_flows: false,
  opened: 0,
  failed: 0,
  closed: 0,
  active: 0,
  request_bytes: 0,
  response_bytes: 0,
  request_messages: 0,
  response_messages: 0,
  retransmits: 0,
  resets: 0,
  zero_windows: 0,
  out_of_order: 0,
  drops: {},
  rtt_p50_ns: 0,
  rtt_p95_ns: 0,
  connect_p50_ns: 0,
  connect_p95_ns: 0,
  queue_p50_ns: 0,
  queue_p95_ns: 0,
};

export function aNode(id: string, rest: Partial<MapNode> = {}): MapNode {
  const at = id.indexOf(":");
  return { id, name: id.slice(at + 1), kind: id.slice(0, at), hosts: [], calls: noCalls, ...rest };
}

export function anEdge(from: string, to: string, port: number, calls: Partial<MapEdge["calls"]> = {}): MapEdge {
  return {
    from,
    to,
    transport: "tcp",
    port,
    protocol: "http",
    protocols: ["http"],
    calls: { ...noCalls, ...calls },
    opaque: 0,
    tcp: noTcp,
    client: null,
    server: null,
  };
}
