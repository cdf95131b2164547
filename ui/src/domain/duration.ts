// Durations in ns: as people read and write them.

const UNITS: readonly (readonly [string, number])[] = [
  ["s", 1e9],
  ["ms", 1e6],
  ["µs", 1e3],
  ["ns", 1],
];

/** Three significant digits with the largest unit that fits: `1.24 ms`, `340 µs`, `2 m 5 s`. */
export function formatDuration(ns: number): string {
  if (ns === 0) return "0";
  const sign = ns < 0 ? "−" : "";
  const size = Math.abs(ns);
  if (size >= 60e9) {
    const seconds = Math.round(size / 1e9);
    const [h, m, s] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60), seconds % 60];
    const parts = h > 0 ? [`${h} h`, m > 0 ? `${m} m` : ""] : [`${m} m`, s > 0 ? `${s} s` : ""];
    return sign + parts.filter(Boolean).join(" ");
  }
  for (const [unit, scale] of UNITS) {
    // 999.6 µs would round up to 1000 µs: the next unit takes over where three digits end.
    if (size >= scale * 0.9995 || scale === 1) {
      return `${sign}${threeDigits(size / scale)} ${unit}`;
    }
  }
  return "";
}

function threeDigits(n: number): string {
  if (n >= 99.95) return n.toFixed(0);
  return String(Number(n.toPrecision(3)));
}

const PARSE: Record<string, number> = { ns: 1, us: 1e3, µs: 1e3, μs: 1e3, ms: 1e6, s: 1e9, m: 60e9, h: 3600e9 };

/** Reads `10ms`, `1.5 s`; null if it is not a duration. */
export function parseDuration(text: string): number | null {
  const match = /^\s*(\d+(?:\.\d+)?)\s*([a-zµμ]+)\s*$/i.exec(text);
  const scale = PARSE[match?.[2]?.toLowerCase() ?? ""];
  return match && scale !== undefined ? Number(match[1]) * scale : null;
}

/** Round values within a window of time, about `count` of them: for an axis that does not begin at 0. */
export function ticksBetween(from: number, to: number, count: number): number[] {
  const step = ticks(to - from, count)[1] ?? to - from;
  const values = [];
  for (let n = Math.ceil(from / step); n * step <= to * 1.000001; n += 1) values.push(n * step);
  return values;
}

/** Round values from 0 to about `max`, at most `count` steps: for an axis. */
export function ticks(max: number, count: number): number[] {
  if (!(max > 0) || count < 1) return [0];
  const raw = max / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5, 10].find((m) => m * power >= raw) ?? 10) * power;
  const values = [];
  for (let n = 0; n * step <= max * 1.000001; n += 1) values.push(n * step);
  return values;
}
