import type { MapEdge, ServiceMap } from "../../api/types";
import { formatDuration } from "../../domain/duration";
import { type Arrow, edgeKey, type Graph, percent, serviceOf, spansOf } from "../../domain/servicemap";
import { Service } from "../../parts/Service";
import { Link } from "../../routing/Link";
import { href } from "../../routing/url";
import css from "./MapPage.module.css";

interface Props {
  map: ServiceMap;
  graph: Graph;
  range: string;
  chosen: Arrow | undefined;
  port: string;
  colours: ReadonlyMap<string, number>;
  choose: (id: string, edge?: string) => void;
}

/** The map in words: a row per edge. */
export function EdgeTable({ map, graph, range, chosen, port, colours, choose }: Props) {
  const arrows = new Map(graph.arrows.flatMap((arrow) => arrow.edges.map((edge) => [edgeKey(edge), arrow.id])));
  return (
    <div className={css.scroll}>
      <table className={css.table}>
        <caption>Calls</caption>
        <thead>
          <tr>
            <th>Caller</th>
            <th>Callee</th>
            <th>Port</th>
            <th>Protocol</th>
            <th data-number>Calls</th>
            <th data-number>Errors</th>
            <th data-number>p50</th>
            <th data-number>p95</th>
            <th data-number>Connections</th>
            <th data-number>RTT</th>
            <th data-number>Retrans.</th>
            <th>
              <span className="visually-hidden">Details</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {map.edges.map((edge) => {
            const arrow = arrows.get(edgeKey(edge));
            const open = arrow !== undefined && arrow === chosen?.id && (port === "" || port === portOf(edge));
            return (
              <Row
                key={edgeKey(edge)}
                edge={edge}
                map={map}
                colours={colours}
                range={range}
                open={open}
                {...(arrow ? { details: () => choose(arrow, portOf(edge)) } : {})}
              />
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

export function portOf(edge: MapEdge): string {
  return `${edge.transport}:${edge.port}`;
}

interface RowProps {
  edge: MapEdge;
  map: ServiceMap;
  colours: ReadonlyMap<string, number>;
  range: string;
  open: boolean;
  details?: () => void;
}

function Row({ edge, map, colours, range, open, details }: RowProps) {
  const { calls, tcp } = edge;
  const search = spansOf(edge, map, range);
  const errors = new URLSearchParams(search);
  errors.set("status", "error");
  return (
    <tr data-open={open || undefined}>
      <td>
        <End id={edge.from} colours={colours} />
      </td>
      <td>
        <End id={edge.to} colours={colours} />
      </td>
      <td>{edge.port || "–"}</td>
      <td>{edge.protocol}</td>
      <td data-number>
        {calls.count > 0 ? <Link href={href("/", search)}>{calls.count.toLocaleString("en")}</Link> : "–"}
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
      <td data-number>{known(calls.p50_ns)}</td>
      <td data-number>{known(calls.p95_ns)}</td>
      <td data-number>
        {tcp.from_flows ? tcp.opened.toLocaleString("en") : "–"}
        {tcp.failed > 0 && <span className={css.bad}> + {tcp.failed.toLocaleString("en")} failed</span>}
      </td>
      <td data-number>{known(tcp.rtt_p50_ns)}</td>
      <td data-number>{tcp.retransmits.toLocaleString("en")}</td>
      <td data-number>
        {details && (
          <button type="button" className={css.details} onClick={details} aria-pressed={open}>
            Details
          </button>
        )}
      </td>
    </tr>
  );
}

function known(ns: number): string {
  return ns > 0 ? formatDuration(ns) : "–";
}

export function End({ id, colours }: { id: string; colours: ReadonlyMap<string, number> }) {
  const service = serviceOf(id);
  if (service !== null) return <Service name={service} hue={colours.get(service)} />;
  return <>{id.slice(id.indexOf(":") + 1)}</>;
}
