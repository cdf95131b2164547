// The search as the URL holds it. A filter that is empty is not in the URL.

export interface Filters {
  readonly q: string;
  readonly service: string;
  readonly operation: string;
  readonly protocol: string;
  readonly status: string;
  readonly min: string;
  readonly range: string;
  readonly order: string;
}

export const RANGES = [
  ["5m", "last 5 minutes"],
  ["15m", "last 15 minutes"],
  ["1h", "last hour"],
  ["6h", "last 6 hours"],
  ["24h", "last day"],
  ["all", "all time"],
] as const;

export const STATUSES = [
  "error",
  "ok",
  "client-error",
  "server-error",
  "no-response",
  "reset",
  "closed",
  "one-way",
] as const;

export const NO_FILTERS: Filters = {
  q: "",
  service: "",
  operation: "",
  protocol: "",
  status: "",
  min: "",
  range: "1h",
  order: "newest",
};

const NAMES = Object.keys(NO_FILTERS) as (keyof Filters)[];

export function readFilters(search: URLSearchParams): Filters {
  const filters: Record<string, string> = { ...NO_FILTERS };
  for (const name of NAMES) filters[name] = search.get(name) ?? NO_FILTERS[name];
  return filters as unknown as Filters;
}

/** Writes the filters over `search`; other parameters stay. */
export function writeFilters(search: URLSearchParams, filters: Filters): URLSearchParams {
  const next = new URLSearchParams(search);
  for (const name of NAMES) {
    if (filters[name] === NO_FILTERS[name]) next.delete(name);
    else next.set(name, filters[name]);
  }
  return next;
}

/** Parameters of the API's search. */
export function toApi(filters: Filters): Record<string, string> {
  const all: Record<string, string> = {
    q: filters.q.trim(),
    service: filters.service,
    operation: filters.operation,
    protocol: filters.protocol,
    status: filters.status,
    min_duration: filters.min.trim().replace(/\s+/g, ""),
    from: filters.range === "all" ? "" : `-${filters.range}`,
    order: filters.order === "newest" ? "" : filters.order,
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== ""));
}

/** Whether anything but the time narrows the search. */
export function narrows(filters: Filters): boolean {
  return NAMES.some((name) => name !== "range" && name !== "order" && filters[name] !== "");
}

/** `field=value` for the text query, quoted where it must be. */
export function condition(field: string, value: string): string {
  const plain = value !== "" && !/[\s"\\]/.test(value);
  return `${field}=${plain ? value : `"${value.replace(/[\\"]/g, "\\$&")}"`}`;
}

/**
 * The text before, in and after the part that the server did not understand.
 * Offsets count characters, not UTF-16 units.
 */
export function splitAt(text: string, offset: number, part: string): readonly [string, string, string] {
  const chars = Array.from(text);
  const length = Math.max(1, Array.from(part).length);
  return [
    chars.slice(0, offset).join(""),
    chars.slice(offset, offset + length).join(""),
    chars.slice(offset + length).join(""),
  ];
}
