import { useEffect, useMemo } from "react";
import { useHues, useMap } from "../../api/queries";
import type { ServiceMap } from "../../api/types";
import { RANGES } from "../../domain/filters";
import { GROUPS, graphOf } from "../../domain/servicemap";
import { Failure, Loading, Notice } from "../../parts/Notice";
import { useKeys } from "../../routing/keys";
import { setParams, useUrl } from "../../routing/url";
import { EdgePanel } from "./EdgePanel";
import { EdgeTable } from "./EdgeTable";
import css from "./MapPage.module.css";
import { Picture } from "./Picture";

export function MapPage() {
  const { search } = useUrl();
  const range = search.get("range") ?? "1h";
  const group = search.get("group") ?? "";
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
          <select
            value={range}
            onChange={(event) => setParams({ range: event.target.value === "1h" ? "" : event.target.value })}
          >
            {RANGES.map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        </label>
        <label>
          Show{" "}
          <select value={group} onChange={(event) => setParams({ group: event.target.value, edge: "" })}>
            {GROUPS.map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        </label>
        {data && data.edges.length > 0 && (
          <span className={css.note}>
            {data.nodes.length} nodes, {data.edges.length} edges
            {data.unmatched > 0 && `; the ends of ${data.unmatched} connections were too many to match`}
          </span>
        )}
      </header>
      {error && <Failure error={error} retry={() => void refetch()} />}
      {!error && !data && <Loading what="the map" />}
      {!error && data && data.edges.length === 0 && (
        <Notice title="No calls in this time">
          <p>A map needs spans or flows of processes. Choose a longer time, or trace something that calls something.</p>
        </Notice>
      )}
      {!error && data && data.edges.length > 0 && (
        <Shown
          map={data}
          range={range}
          group={group}
          chosen={search.get("edge") ?? ""}
          port={search.get("port") ?? ""}
        />
      )}
    </div>
  );
}

interface ShownProps {
  map: ServiceMap;
  range: string;
  group: string;
  /** Id of the arrow that is open. */
  chosen: string;
  /** Which of its edges, `tcp:8080`. */
  port: string;
}

function Shown({ map, range, group, chosen, port }: ShownProps) {
  const colours = useHues(
    useMemo(() => map.nodes.filter((node) => node.kind === "service").map((node) => node.name), [map]),
  );
  const graph = useMemo(() => graphOf(map, group), [map, group]);
  const arrow = graph.arrows.find((a) => a.id === chosen);
  const choose = (id: string, edge = "") => setParams({ edge: id, port: edge });
  useKeys({ Escape: () => choose("") });
  return (
    <div className={css.split} data-open={arrow !== undefined || undefined}>
      <Picture graph={graph} colours={colours} chosen={chosen} choose={choose} />
      {arrow && (
        <EdgePanel key={arrow.id} arrow={arrow} map={map} range={range} port={port} colours={colours} choose={choose} />
      )}
      <EdgeTable map={map} graph={graph} range={range} chosen={arrow} port={port} colours={colours} choose={choose} />
    </div>
  );
}
