// Points in time. They arrive as strings of Unix ns, because numbers lose digits beyond 2^53.

/** Unix ms of a string of Unix ns, with the fraction. */
export function toMs(ns: string): number {
  const value = BigInt(ns);
  return Number(value / 1_000_000n) + Number(value % 1_000_000n) / 1e6;
}

/** `14:03:22.123` in local time; with the date if it is not of the same day as `nowMs`. */
export function formatTime(ns: string, nowMs: number): string {
  const date = new Date(toMs(ns));
  const two = (n: number) => String(n).padStart(2, "0");
  const milliseconds = String(date.getMilliseconds()).padStart(3, "0");
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${milliseconds}`;
  if (new Date(nowMs).toDateString() === date.toDateString()) return clock;
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock}`;
}

/** RFC 3339 in UTC with all nine digits. */
export function formatExact(ns: string): string {
  const value = BigInt(ns);
  const seconds = new Date(Number(value / 1_000_000_000n) * 1000).toISOString().slice(0, 19);
  return `${seconds}.${String(value % 1_000_000_000n).padStart(9, "0")}Z`;
}

/** `12 s ago`, `3 m ago`. */
export function formatAgo(ns: string, nowMs: number): string {
  const seconds = Math.round((nowMs - toMs(ns)) / 1000);
  if (seconds < 1) return "now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}
