// Why requests are slow: words, and the requests that a span stands for.

import type { Recording, Slow, SpanView, WhyAgent } from "../api/types";

/** The endpoint of a span: parts of its path that have digits stand for any such part. */
export function endpointOf(span: Pick<SpanView, "operation" | "target">): string {
  const path = span.target.split(/[?#]/)[0] ?? "";
  const form = path
    .split("/")
    .map((part) => (/[0-9]/.test(part) ? "*" : part))
    .join("/");
  return [span.operation, form].filter(Boolean).join(" ");
}

/** The search for requests like a span, with the reasons why they are slow. */
export function whySearch(span: SpanView): URLSearchParams {
  const endpoint = endpointOf(span);
  const search = new URLSearchParams({ service: span.service, operation: span.operation, why: "1", endpoint });
  // What is the same in the paths of all of them.
  const same = /\/[^*]*/.exec(endpoint)?.[0] ?? "";
  if (same.length > 1 && !/[\s"\\]/.test(same)) search.set("q", `endpoint=${same}`);
  for (const name of ["operation", "endpoint"]) if (!search.get(name)) search.delete(name);
  return search;
}

/** Which requests are compared. */
export function sidesWords({ sides, slow, usual }: Pick<Slow, "sides" | "slow" | "usual">): string {
  const many = (n: number, words: string) => `${n} ${n === 1 ? "request" : "requests"} ${words}`;
  switch (sides) {
    case "sample":
      return `${many(slow.spans, "above the threshold")} beside ${usual.spans} of the sample of usual ones.`;
    case "threshold":
      return [
        many(slow.spans, "above the threshold"),
        `beside the quicker ${usual.spans} of the others, whose waits were not recorded.`,
      ].join(" ");
    default:
      return `The slowest ${slow.spans} beside the quicker ${usual.spans}.`;
  }
}

/** The order that runs for these requests, if there is one. */
export function recordingOf(all: readonly Recording[], service: string, endpoint: string): Recording | undefined {
  return all.find((one) => one.service === service && one.endpoint === endpoint);
}

/** What the agents of a server do about an order. */
export function agentsWords(agents: readonly WhyAgent[]): string[] {
  return agents.map(({ agent, state, why, processes }) => {
    switch (state) {
      case "records":
        return `${agent} records ${processes === 1 ? "1 process" : `${processes} processes`}`;
      case "no-process":
        return `${agent} traces no process of that service`;
      case "refused":
        return `${agent} does not record: ${why}`;
      default:
        return `${agent} is silent: whether it records is not known`;
    }
  });
}
