import { useHopsSeen, useTracesOf } from "../../api/queries";
import type { MapEdge, ServiceMap } from "../../api/types";
import { formatDuration } from "../../domain/duration";
import { NO_FILTERS, readFilters } from "../../domain/filters";
import { type Stop, stops } from "../../domain/hops";
import { serviceOf, spansOf } from "../../domain/servicemap";
import { typical } from "../../domain/typical";
import { Way } from "../../parts/Way";
import { Link } from "../../routing/Link";
import css from "./EdgePanel.module.css";

/** The devices between the two ends, as its newest requests passed them. Nothing where no device was watched. */
export function EdgePath({ edge, map, range }: { edge: MapEdge; map: ServiceMap; range: string }) {
  const seen = useHopsSeen(range).data === true;
  const found = useTracesOf({ ...NO_FILTERS, ...readFilters(spansOf(edge, map, range)), range }, seen);
  if (!seen) return null;
  const callee = serviceOf(edge.to);
  const toHere = (way: readonly Stop[]) => {
    const end = way.at(-1)?.item.span;
    return callee === null || end?.tap !== "server-process" || end.service === callee;
  };
  const ways = found.flatMap(({ trace, matched }) =>
    trace.spans
      .filter(({ span }) => matched.includes(span.id))
      .map((item) => ({ trace, way: stops(trace, item, formatDuration) }))
      .filter(({ way }) => way.length > 0 && toHere(way)),
  );
  const usual = typical(ways.map(({ way }) => way));
  if (!usual) return null;
  const slowest = ways.find(({ way }) => way[0]?.id === usual.slowest);
  return (
    <section aria-label="Way of its requests" className={css.path}>
      <h3>Way of its requests</h3>
      <p className={css.links}>
        <span>
          median of {usual.requests} {usual.requests === 1 ? "request" : "requests"}
          {usual.others > 0 && `, ${usual.others} took other ways`}
        </span>
        {slowest && <Link href={`/trace/${slowest.trace.id}?span=${usual.slowest}`}>the slowest one</Link>}
      </p>
      <Way points={usual.points} />
    </section>
  );
}
