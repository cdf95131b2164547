// Server state: one hook per question.
import { keepPreviousData, QueryClient, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { hues } from "../domain/colour";
import { type Filters, toApi } from "../domain/filters";
import { ApiProblem, get } from "./client";
import type { EdgeHistory, MapEdge, Names, ServiceMap, StatusView, TraceList, TraceView } from "./types";

/** How often a live page asks again, ms. */
export const LIVE_MS = 3000;
/** How often a page asks again while the server does not answer, ms. */
const RETRY_MS = 4000;

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

export function useTrace(id: string) {
  return useQuery({
    queryKey: ["trace", id],
    queryFn: ({ signal }) => get<TraceView>(`/api/v1/trace/${encodeURIComponent(id)}`, {}, signal),
    staleTime: 60_000,
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
