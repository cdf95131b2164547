/** Whose packets are meant, by spans. Empty texts mean nothing. */
export interface Subject {
  readonly trace: string;
  readonly service: string;
  readonly endpoint: string;
}

/** A packet program for these packets; null if nothing is meant. A trace names its packets alone. */
export function programOf({ trace, service, endpoint }: Subject): string | null {
  const keys = trace.trim() ? { trace } : { service, endpoint };
  const given = Object.entries(keys).filter(([, value]) => value.trim());
  if (!given.length) return null;
  // A JSON string is a string of YAML, too.
  const filter = given.map(([key, value]) => `${key}: ${JSON.stringify(value.trim())}`).join(", ");
  return `filter: {${filter}}\naction: [latency, drops, count]\nfor: 60s\n`;
}
