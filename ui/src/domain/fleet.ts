// What the agents of a server tell of their packets, in words.
import type { ClockView, FleetAgent } from "../api/types";
import { formatDuration } from "./duration";
import { number } from "./number";

/** How two clocks differ. */
export function clockWords(clock: ClockView): string {
  const { agent, than, low_ns: low, high_ns: high, set } = clock;
  const jumps = set > 0 ? `; a clock was set ${set === 1 ? "once" : `${set} times`}` : "";
  if (low == null || high == null) {
    return `The clocks of ${agent} and ${than} cannot be compared: no packets went each way${jumps}`;
  }
  const middle = (low + high) / 2;
  const size = Math.abs(middle);
  const ahead = size >= 1e9 ? `${(size / 1e9).toFixed(6)} s` : formatDuration(size);
  const way = middle < 0 ? "behind" : "ahead of";
  const signed = (ppm: number) => `${ppm < 0 ? "−" : "+"}${Math.abs(ppm).toFixed(1)}`;
  const drift = `${signed(clock.drift_low_ppm)} to ${signed(clock.drift_high_ppm)} ppm`;
  const error = formatDuration((high - low) / 2);
  const at = new Date(clock.at_ns / 1e6).toISOString().slice(11, 23);
  return `The clock of ${agent} was ${ahead} ${way} that of ${than} at ${at} UTC, ± ${error}; gains ${drift}${jumps}`;
}

/** What an agent does, and since when it was not heard of if that matters. */
export function stateWords({ state, heard_ms, why }: FleetAgent): string {
  const ago = `heard of ${formatDuration(Math.round(heard_ms / 100) * 1e8)} ago`;
  if (state === "refused") return `refused: ${why}`;
  if (state === "silent" || state === "gone") return `${state}, ${ago}`;
  return why ? `${state}; ${why}` : state;
}

/** What is missing of an agent's result. */
export function missingWords(agent: FleetAgent): string[] {
  const counts: [number, string][] = [
    [agent.incomplete, "packets that were under way are left out"],
    [agent.view.lost, "sightings were lost"],
    [agent.lost_lines, "lines did not arrive"],
    [agent.malformed, "records could not be read"],
    [agent.met?.unclear ?? 0, "packets have no time between agents: the same bytes were sent more than once"],
    [agent.met?.unordered ?? 0, "packets have no time between agents: several passed them on"],
    [agent.met?.left_out ?? 0, "packets were not compared, for want of room"],
  ];
  const said = counts.filter(([n]) => n > 0).map(([n, what]) => `${number(n)} ${what}`);
  return [...said, ...agent.view.notes];
}
