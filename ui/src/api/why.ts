// Why requests are slow, and the order to record what they wait for.
import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";
import { get, post } from "./client";
import type { WhyBegun, WhySlow } from "./types";

const WHY = "/api/v1/why";
/** How often the page asks while waits are recorded, ms. */
const RECORDS_MS = 2000;

/** Slow requests beside usual ones, of those that meet these conditions; and what is being recorded. */
export function useWhy(params: Record<string, string>) {
  return useQuery({
    queryKey: ["why", params],
    queryFn: ({ signal }) => get<WhySlow>(WHY, params, signal),
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) => (state.data && state.data.recording.length > 0 ? RECORDS_MS : false),
  });
}

export interface WhyOrder {
  readonly service: string;
  readonly endpoint: string;
  readonly threshold?: string;
  readonly for?: string;
  /** What was ordered before ends. */
  readonly end?: boolean;
}

export function useWhyOrder() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (order: WhyOrder) => post<WhyBegun>(WHY, order),
    onSettled: () => client.invalidateQueries({ queryKey: ["why"] }),
  });
}

/** Asks anew for everything that recorded waits change. */
export function useAskAnew(): () => void {
  const client = useQueryClient();
  return useCallback(() => {
    for (const key of ["why", "flame", "traces"]) void client.invalidateQueries({ queryKey: [key] });
  }, [client]);
}
