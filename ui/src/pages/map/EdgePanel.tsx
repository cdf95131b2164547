import { useEffect, useRef } from "react";
import { useEdge } from "../../api/queries";
import type { EdgePoint, MapEdge, ServiceMap, TcpStats } from "../../api/types";
import { formatDuration } from "../../domain/duration";
import { type Arrow, compact, edgeKey, formatBytes, percent, spansOf } from "../../domain/servicemap";
import { Failure, Loading } from "../../parts/Notice";
import { Spark } from "../../parts/Spark";
import { Link } from "../../routing/Link";
import { href } from "../../routing/url";
import css from "./EdgePanel.module.css";
import { EdgePath } from "./EdgePath";
import { End, portOf } from "./EdgeTable";

interface Props {
  arrow: Arrow;
  map: ServiceMap;
  range: string;
  port: string;
  colours: ReadonlyMap<string, number>;
  choose: (id: string, edge?: string) => void;
}

/** One arrow: its edges, what both ends say, and the chosen edge over time. */
export function EdgePanel({ arrow, map, range, port, colours, choose }: Props) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus({ preventScroll: true }), []);
  const edge = arrow.edges.find((e) => portOf(e) === port) ?? arrow.edges[0];
  if (!edge) return null;
  const { calls, tcp } = edge;
  return (
    <aside className={css.panel} aria-label="Edge">
      <header>
        <h2 ref={heading} tabIndex={-1}>
          <End id={edge.from} colours={colours} /> <span aria-hidden="true">→</span>
          <span className="visually-hidden"> calls </span> <End id={edge.to} colours={colours} />
        </h2>
        <button type="button" className={css.close} onClick={() => choose("")} aria-label="Close (Esc)">
          ✕
        </button>
      </header>
      {arrow.edges.length > 1 && (
        <ul className={css.edges} aria-label="Edges of this arrow">
          {arrow.edges.slice(0, 20).map((e) => (
            <li key={edgeKey(e)}>
              <button type="button" aria-pressed={e === edge} onClick={() => choose(arrow.id, portOf(e))}>
                {e.protocol} :{e.port}
              </button>
            </li>
          ))}
          {arrow.edges.length > 20 && <li>and {arrow.edges.length - 20} more: see the table</li>}
        </ul>
      )}
      <p className={css.what}>
        {edge.protocols.length > 0 ? edge.protocols.join(", ") : `${edge.transport}, not understood`}
        {edge.port > 0 && ` on ${edge.transport} port ${edge.port}`}
      </p>
      <p className={css.links}>
        <Link href={href("/", spansOf(edge, map, range))}>Its spans</Link>
        {calls.errors > 0 && (
          <Link href={href("/", withErrors(spansOf(edge, map, range)))} className={css.bad}>
            {calls.errors.toLocaleString("en")} errors ({percent(calls.errors, calls.count)})
          </Link>
        )}
      </p>
      <History edge={edge} map={map} />
      <EdgePath edge={edge} map={map} range={range} />
      <Views edge={edge} />
      {Object.keys(tcp.drops).length > 0 && (
        <p className={css.bad}>
          Dropped by the kernel:{" "}
          {Object.entries(tcp.drops)
            .map(([reason, n]) => `${reason} ${n}`)
            .join(", ")}
        </p>
      )}
    </aside>
  );
}

function withErrors(search: URLSearchParams): URLSearchParams {
  const errors = new URLSearchParams(search);
  errors.set("status", "error");
  return errors;
}

const time = (ns: number) => (ns > 0 ? formatDuration(ns) : "–");
const flows = (tcp: TcpStats, text: string) => (tcp.from_flows ? text : "–");

type Row = readonly [string, (view: NonNullable<MapEdge["client"]>) => string];

const DURATIONS: Row[] = [
  ["p50", (v) => time(v.calls.p50_ns)],
  ["p95", (v) => time(v.calls.p95_ns)],
  ["p99", (v) => time(v.calls.p99_ns)],
];

/** The two ends side by side. */
function Views({ edge }: { edge: MapEdge }) {
  const ends = [edge.client, edge.server];
  const always: Row[] = [
    ["calls", (v) => compact(v.calls.count)],
    ["errors", (v) => compact(v.calls.errors)],
    ...(edge.calls.p95_ns > 0 ? DURATIONS : []),
    ["RTT p50", (v) => time(v.tcp.rtt_p50_ns)],
    ["handshake p50", (v) => time(v.tcp.connect_p50_ns)],
    ["in the socket p50", (v) => time(v.tcp.queue_p50_ns)],
    ["retransmitted", (v) => compact(v.tcp.retransmits)],
    ["sent", (v) => formatBytes(v.tcp.from_flows ? v.tcp.request_bytes : v.calls.request_bytes)],
    ["answered", (v) => formatBytes(v.tcp.from_flows ? v.tcp.response_bytes : v.calls.response_bytes)],
  ];
  const flowing: Row[] = [
    ["connections", (v) => flows(v.tcp, `${compact(v.tcp.opened)} (${compact(v.tcp.active)} open)`)],
    ["failed", (v) => flows(v.tcp, compact(v.tcp.failed))],
    ["resets", (v) => flows(v.tcp, compact(v.tcp.resets))],
    ["out of order", (v) => flows(v.tcp, compact(v.tcp.out_of_order))],
    ["zero windows", (v) => flows(v.tcp, compact(v.tcp.zero_windows))],
  ];
  const rows = edge.tcp.from_flows ? [...always, ...flowing] : always;
  return (
    <table className={css.views}>
      <thead>
        <tr>
          <td />
          <th scope="col">caller saw</th>
          <th scope="col">callee saw</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, value]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            {ends.map((view, n) => (
              <td key={n === 0 ? "client" : "server"}>{view ? value(view) : n === 0 ? "not observed" : "–"}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function History({ edge, map }: { edge: MapEdge; map: ServiceMap }) {
  const { data, error, refetch } = useEdge(edge, map.first_ns, map.last_ns);
  if (error) return <Failure error={error} retry={() => void refetch()} />;
  if (!data) return <Loading what="its history" />;
  const { points, step_ns } = data;
  const start = Number(BigInt(map.first_ns) / 1_000_000n);
  const series = (value: (point: EdgePoint) => number) => points.map(value);
  const shared = { startMs: start, stepMs: step_ns / 1e6 };
  return (
    <div className={css.charts}>
      <Spark
        {...shared}
        title="calls"
        values={series((p) => p.calls)}
        over={series((p) => p.errors)}
        overTitle="errors"
        format={compact}
      />
      {edge.calls.p95_ns > 0 && <Spark {...shared} title="p95" values={series((p) => p.p95_ns)} format={time} />}
      <Spark {...shared} title="RTT p50" values={series((p) => p.tcp.rtt_p50_ns)} format={time} />
      {edge.tcp.from_flows && (
        <>
          <Spark
            {...shared}
            title="connections opened"
            values={series((p) => p.tcp.opened)}
            over={series((p) => p.tcp.failed)}
            overTitle="failed"
            format={compact}
          />
          <Spark
            {...shared}
            title="retransmitted"
            values={series((p) => p.tcp.retransmits)}
            over={series((p) => p.tcp.resets)}
            overTitle="resets"
            format={compact}
          />
        </>
      )}
    </div>
  );
}
