// Server state: one hook per question.
import {
  keepPreviousData,
  QueryClient,
  queryOptions,
  useMutation,
  useQueries,
  useQuery,
  useQueryClient,
} from "@tanstack/react-query";
import { useMemo } from "react";
import { hues } from "../domain/colour";
import { type Filters, NO_FILTERS, toApi } from "../domain/filters";
import { ApiProblem, get, post } from "./client";
import type {
  EdgeHistory,
  FlameView,
  FleetView,
  MapEdge,
  Names,
  PacketsView,
  ServiceMap,
  SpanList,
  StatusView,
  TraceList,
  TraceView,
} from "./types";

/** How often a live page asks again, ms. */
export const LIVE_MS = 3000;
/** How often a page asks again while the server does not answer, ms. */
const RETRY_MS = 4000;
/** How often the tables of a packet program that runs are asked for, ms. */
const PACKETS_MS = 1000;

export function makeClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 2000,
        refetchOnWindowFocus: false,
        // A question that was understood and refused is refused again.
        retry: (count, error) => !(error instanceof ApiProblem) && count < 1,
        retryDelay: 300,
        refetchInterval: (query) =>
          query.state.error && !(query.state.error instanceof ApiProblem) ? RETRY_MS : false,
      },
    },
  });
}

const LIMIT = "100";

export function useTraces(filters: Filters, live: boolean) {
  const params = { ...toApi(filters), limit: LIMIT };
  return useQuery({
    queryKey: ["traces", params],
    queryFn: ({ signal }) => get<TraceList>("/api/v1/traces", params, signal),
    placeholderData: keepPreviousData,
    ...(live ? { refetchInterval: LIVE_MS } : {}),
  });
}

/** Requests that are looked at for a flame graph. */
const FLAME_LIMIT = "2000";

/** In which code the requests that meet the filters were, slow ones beside usual ones. */
export function useFlame(filters: Filters) {
  const params = { ...toApi({ ...filters, order: "newest" }), tap: "server-process", limit: FLAME_LIMIT };
  return useQuery({
    queryKey: ["flame", params],
    queryFn: ({ signal }) => get<FlameView>("/api/v1/flame", params, signal),
    placeholderData: keepPreviousData,
  });
}

const traceQuery = (id: string) =>
  queryOptions({
    queryKey: ["trace", id],
    queryFn: ({ signal }) => get<TraceView>(`/api/v1/trace/${encodeURIComponent(id)}`, {}, signal),
    staleTime: 60_000,
  });

export function useTrace(id: string) {
  return useQuery(traceQuery(id));
}

/** Newest requests of an edge whose way is looked at. */
const WAYS = "12";

/** Whether any device was seen on the way of a request in this time, by the span next to the process that asks. */
export function useHopsSeen(range: string) {
  const params = { ...toApi({ ...NO_FILTERS, q: "wirespan.hop.position=2", range }), limit: "1" };
  return useQuery({
    queryKey: ["hops seen", params],
    queryFn: ({ signal }) => get<SpanList>("/api/v1/spans", params, signal),
    select: (list) => list.spans.length > 0,
    staleTime: 10_000,
  });
}

/** The newest traces with such spans, and the ids of these spans; nothing while `wanted` is false. */
export function useTracesOf(filters: Filters, wanted: boolean) {
  const params = { ...toApi(filters), limit: WAYS };
  const { data } = useQuery({
    queryKey: ["traces", params],
    queryFn: ({ signal }) => get<TraceList>("/api/v1/traces", params, signal),
    enabled: wanted,
    staleTime: 10_000,
  });
  const found = data?.traces ?? [];
  return useQueries({
    queries: found.map(({ id }) => traceQuery(id)),
    combine: (answers) =>
      answers.flatMap((answer, n) => (answer.data ? [{ trace: answer.data, matched: found[n]?.matched ?? [] }] : [])),
  });
}

export function useNames(field: string) {
  return useQuery({
    queryKey: ["names", field],
    queryFn: ({ signal }) => get<Names>("/api/v1/suggest", { field, limit: "200" }, signal),
    staleTime: 15_000,
  });
}

/** Hues of all known services and of these, so that a service has the same colour on every page. */
export function useHues(services: readonly string[]): ReadonlyMap<string, number> {
  const known = useNames("service").data?.values;
  return useMemo(() => hues([...new Set([...(known ?? []), ...services])]), [known, services]);
}

export function useMap(range: string) {
  return useQuery({
    queryKey: ["map", range],
    queryFn: ({ signal }) => get<ServiceMap>("/api/v1/map", { from: range === "all" ? "0" : `-${range}` }, signal),
    placeholderData: keepPreviousData,
    staleTime: 10_000,
  });
}

/** One edge over the time for which the map has evidence. */
export function useEdge(edge: MapEdge, firstNs: string, lastNs: string) {
  const params = {
    client: edge.from,
    server: edge.to,
    transport: edge.transport,
    port: String(edge.port),
    from: firstNs,
    to: String(BigInt(lastNs) + 1n),
  };
  return useQuery({
    queryKey: ["edge", params],
    queryFn: ({ signal }) => get<EdgeHistory>("/api/v1/map/edge", params, signal),
    placeholderData: keepPreviousData,
    staleTime: 10_000,
  });
}

export function useStatus(live = false) {
  return useQuery({
    queryKey: ["status"],
    queryFn: ({ signal }) => get<StatusView>("/api/v1/status", {}, signal),
    ...(live ? { refetchInterval: LIVE_MS } : {}),
  });
}

const PACKETS = "/api/v1/packets";

/** The packet program that runs or ran last, and its tables. */
export function usePackets() {
  return useQuery({
    queryKey: ["packets"],
    queryFn: ({ signal }) => get<PacketsView>(PACKETS, {}, signal),
    refetchInterval: ({ state }) => (state.data?.state === "running" ? PACKETS_MS : LIVE_MS),
  });
}

/** Runs a packet program, changes the one that runs, or ends it (an empty program). */
export function usePacketOrder() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (program: string) => post<PacketsView>(PACKETS, { program }),
    onSuccess: (now) => client.setQueryData(["packets"], now),
  });
}

const AGENTS = "/api/v1/packets/agents";

/** The packet program that the agents of a server run or ran last, and what each of them tells. */
export function useFleet(wanted: boolean) {
  return useQuery({
    queryKey: ["fleet"],
    queryFn: ({ signal }) => get<FleetView>(AGENTS, {}, signal),
    enabled: wanted,
    retry: false,
    refetchInterval: ({ state }) => (state.data?.state === "running" ? PACKETS_MS : LIVE_MS),
    // The server ends a program for which nobody asks any more.
    refetchIntervalInBackground: true,
  });
}

export interface FleetOrder {
  readonly program: string;
  /** By name; empty: all. */
  readonly agents: readonly string[];
  /** The program that is changed, by number. */
  readonly change?: number;
}

/** Runs a packet program on agents, changes the one that runs, or ends it (an empty program). */
export function useFleetOrder() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (order: FleetOrder) => post<FleetView>(AGENTS, order),
    onSuccess: (now) => client.setQueryData(["fleet"], now),
  });
}
