// Loss and flows of one machine or of several, as rows of tables.
import type { FleetView, FlowEnds, LossView, PacketsView } from "../api/types";
import { placeWords } from "./heat";

/** What became of the packets at one place. */
export interface LossRow {
  /** The agent, or `web → db` between two; missing where there is one machine. */
  readonly agent?: string;
  readonly at: string;
  readonly next: string;
  readonly loss: LossView;
  /** Some of the missing ones may have arrived. */
  readonly atMost?: boolean;
}

/** One flow. */
export interface FlowRow {
  readonly name: string;
  readonly agents?: string;
  readonly packets: number;
  readonly bytes: number;
  readonly elapsedMs: number;
  /** p50, p99, p99.9 and jitter in ns; missing without a time, and for several machines. */
  readonly times?: readonly [number, number, number, number];
  readonly lost: number;
  /** Of these, on the way from one agent to another. */
  readonly between?: number;
  readonly atMost?: boolean;
  readonly unknown: number;
}

export function flowWords(flow: FlowEnds | null | undefined): string {
  if (!flow) return "all later flows";
  return flow.source ? `${flow.protocol} ${flow.source} → ${flow.destination}` : flow.protocol;
}

/** The lost ones of all whose end is known, in percent. */
export function percent(lost: number, all: number): string {
  return `${((lost * 100) / Math.max(1, all)).toFixed(2)} %`;
}

export const lost = ({ dropped, missing }: LossView): number => dropped + missing;

export function lossRows(of: PacketsView, agent?: string): LossRow[] {
  const named = agent === undefined ? {} : { agent };
  return of.loss.map(({ place, next, loss }) => ({
    ...named,
    at: placeWords(place),
    next: next ? placeWords(next) : "",
    loss,
  }));
}

export function flowRows(of: PacketsView): FlowRow[] {
  return of.flows.map(({ flow, packets, bytes, timed, p50_ns, p99_ns, p999_ns, jitter_ns, loss }) => ({
    name: flowWords(flow),
    packets,
    bytes,
    elapsedMs: of.elapsed_ms,
    ...(timed > 0 ? { times: [p50_ns, p99_ns, p999_ns, jitter_ns] as const } : {}),
    lost: lost(loss),
    unknown: loss.under_way,
  }));
}

/** What is lost between agents stands first, because nothing else shows it. */
export function fleetLossRows(view: FleetView): LossRow[] {
  const between = view.loss.map(({ from_agent, from, to_agent, to, loss, at_most }) => ({
    agent: `${from_agent} → ${to_agent}`,
    at: placeWords(from),
    next: to ? placeWords(to) : "",
    loss,
    atMost: at_most,
  }));
  const told = view.agents.filter(({ state }) => state !== "refused");
  return [...between, ...told.flatMap(({ agent, view: at }) => lossRows(at, agent))];
}

/** The flows of all agents; those of the only one if it is alone. */
export function fleetFlowRows(view: FleetView): FlowRow[] {
  const [alone, ...others] = view.agents;
  if (view.flows.length === 0) return alone && others.length === 0 ? flowRows(alone.view) : [];
  return view.flows.map((of) => ({
    name: flowWords(of.flow),
    agents: of.agents.join(", "),
    packets: of.packets,
    bytes: of.bytes,
    elapsedMs: of.elapsed_ms,
    lost: of.lost_at_agents + of.lost_between,
    between: of.lost_between,
    atMost: of.at_most,
    unknown: of.unknown,
  }));
}
