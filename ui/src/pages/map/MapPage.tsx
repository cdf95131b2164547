import { useEffect, useMemo } from "react";
import { useHues, useMap } from "../../api/queries";
import type { MapEdge, ServiceMap } from "../../api/types";
import { formatDuration } from "../../domain/duration";
import { RANGES } from "../../domain/filters";
import { Failure, Loading, Notice } from "../../parts/Notice";
import { Service } from "../../parts/Service";
import { Link } from "../../routing/Link";
import { href, setParams, useUrl } from "../../routing/url";
import css from "./MapPage.module.css";
import { Picture } from "./Picture";

export function MapPage() {
  const { search } = useUrl();
  const range = search.get("range") ?? "1h";
  const { data, error, refetch } = useMap(range);
  useEffect(() => {
    document.title = "Map – wirespan";
  }, []);
  return (
    <div className={css.page}>
      <header className={css.header}>
        <h1>Who calls whom</h1>
        <label>
          <span className="visually-hidden">Time</span>
          <select value={range} onChange={(event) => setParams({ range: event.target.value === "1h" ? "" : event.target.value })}>
            {RANGES.map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        </label>
      </header>
      {error && <Failure error={error} retry={() => void refetch()} />}
      {!error && !data && <Loading what="the map" />}
      {!error && data && data.edges.length === 0 && (
        <Notice title="No calls in this time">
          <p>A map needs spans of processes. Choose a longer time, or trace something that calls something.</p>
        </Notice>
      )}
      {!error && data && data.edges.length > 0 && <Shown map={data} range={range} />}
    </div>
  );
}

function Shown({ map, range }: { map: ServiceMap; range: string }) {
  const colours = useHues(useMemo(() => map.nodes.filter((node) => node.kind === "service").map((node) => node.name), [map]));
  return (
    <>
      <Picture map={map} colours={colours} />
      <table className={css.table}>
        <caption>Calls</caption>
        <thead>
          <tr>
            <th>Caller</th>
            <th>Callee</th>
            <th>Protocol</th>
            <th data-number>Calls</th>
            <th data-number>Errors</th>
            <th data-number>p50</th>
            <th data-number>p95</th>
          </tr>
        </thead>
        <tbody>
          {map.edges.map((edge) => (
            <Row key={`${edge.from} ${edge.to} ${edge.protocol}`} edge={edge} colours={colours} range={range} />
          ))}
        </tbody>
      </table>
    </>
  );
}

function Row({ edge, colours, range }: { edge: MapEdge; colours: ReadonlyMap<string, number>; range: string }) {
  const { calls } = edge;
  const caller = serviceOf(edge.from) ?? serviceOf(edge.to) ?? "";
  const search = new URLSearchParams({ service: caller, protocol: edge.protocol, ...(range === "1h" ? {} : { range }) });
  const errors = new URLSearchParams(search);
  errors.set("status", "error");
  return (
    <tr>
      <td>
        <End id={edge.from} colours={colours} />
      </td>
      <td>
        <End id={edge.to} colours={colours} />
      </td>
      <td>{edge.protocol}</td>
      <td data-number>
        <Link href={href("/", search)}>{calls.count.toLocaleString("en")}</Link>
      </td>
      <td data-number>
        {calls.errors > 0 ? (
          <Link href={href("/", errors)} className={css.bad}>
            {calls.errors.toLocaleString("en")} ({percent(calls.errors, calls.count)})
          </Link>
        ) : (
          "0"
        )}
      </td>
      <td data-number>{formatDuration(calls.p50_ns)}</td>
      <td data-number>{formatDuration(calls.p95_ns)}</td>
    </tr>
  );
}

function End({ id, colours }: { id: string; colours: ReadonlyMap<string, number> }) {
  const service = serviceOf(id);
  if (service !== null) return <Service name={service} hue={colours.get(service)} />;
  return <>{id.slice(id.indexOf(":") + 1)}</>;
}

/** Name of a service from a node's id; null for an address or a caller that is not observed. */
function serviceOf(id: string): string | null {
  return id.startsWith("service:") ? id.slice("service:".length) : null;
}

export function percent(part: number, whole: number): string {
  const value = (part / Math.max(1, whole)) * 100;
  return `${value > 0 && value < 1 ? "<1" : Math.round(value)} %`;
}
