// Times with their errors, in words. What is known of them is the server's to say.
import type { TimeView } from "../api/types";

type Time = TimeView | null | undefined;
type Duration = (ns: number) => string;

/** A time that one clock measured. */
export const exact = (ns: number): TimeView => ({ low_ns: ns, high_ns: ns, ns, error_ns: 0 });

/** What a time weighs in a share; 0 without one. */
export const weight = (time: Time): number => (time ? (time.low_ns + time.high_ns) / 2 : 0);

/** `4.0 µs ± 1.0 µs`, `at most 5.0 µs` or `unknown`. */
export function timeWords(time: Time, duration: Duration): string {
  if (!time) return "unknown";
  if (time.ns == null) return `at most ${duration(time.high_ns)}`;
  return time.error_ns > 0 ? `${duration(time.ns)} ± ${duration(time.error_ns)}` : duration(time.ns);
}

/** The same in a narrow column: `≈4.0 µs`, `≤5.0 µs` or `?`. */
export function shortTime(time: Time, duration: Duration): string {
  if (!time) return "?";
  if (time.ns == null) return `≤${duration(time.high_ns)}`;
  return `${time.error_ns > 0 ? "≈" : ""}${duration(time.ns)}`;
}
