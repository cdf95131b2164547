import { useMemo, useState } from "react";
import type { MapEdge, MapNode, ServiceMap } from "../../api/types";
import { formatDuration } from "../../domain/duration";
import { layout } from "../../domain/graph";
import { hueStyle } from "../../parts/Service";
import { go, href } from "../../routing/url";
import { percent } from "./MapPage";
import css from "./Picture.module.css";

const NODE = { width: 168, height: 56 };
const GAP = { x: 150, y: 34 };
const MARGIN = 24;

interface Spot {
  x: number;
  y: number;
}

/** The map as a picture: callers left, callees right; thicker is more calls, red is errors. */
export function Picture({ map, colours }: { map: ServiceMap; colours: ReadonlyMap<string, number> }) {
  const [focus, setFocus] = useState<string | null>(null);
  const { spots, width, height } = useMemo(() => spread(map), [map]);
  const most = Math.max(1, ...map.edges.map((edge) => edge.calls.count));
  const near = new Set(map.edges.filter((e) => e.from === focus || e.to === focus).flatMap((e) => [e.from, e.to]));
  return (
    <div className={css.frame}>
      <svg
        viewBox={`0 0 ${width} ${height}`}
        style={{ width: `min(100%, ${width * 1.15}px)` }}
        role="group"
        aria-label="Map of services; the table below says the same"
      >
        <defs>
          <marker
            id="arrow"
            viewBox="0 0 8 8"
            refX="7"
            refY="4"
            markerWidth="9"
            markerHeight="9"
            markerUnits="userSpaceOnUse"
            orient="auto"
          >
            <path d="M0 0 8 4 0 8z" className={css.head} />
          </marker>
          <marker
            id="arrow-bad"
            viewBox="0 0 8 8"
            refX="7"
            refY="4"
            markerWidth="9"
            markerHeight="9"
            markerUnits="userSpaceOnUse"
            orient="auto"
          >
            <path d="M0 0 8 4 0 8z" className={css.headBad} />
          </marker>
        </defs>
        {map.edges.map((edge) => (
          <Arrow
            key={`${edge.from} ${edge.to} ${edge.protocol}`}
            edge={edge}
            from={spots.get(edge.from)}
            to={spots.get(edge.to)}
            weight={edge.calls.count / most}
            faded={focus !== null && edge.from !== focus && edge.to !== focus}
          />
        ))}
        {map.nodes.map((node) => {
          const spot = spots.get(node.id);
          return (
            spot && (
              <Box
                key={node.id}
                node={node}
                spot={spot}
                hue={colours.get(node.name)}
                faded={focus !== null && node.id !== focus && !near.has(node.id)}
                focus={setFocus}
              />
            )
          );
        })}
      </svg>
    </div>
  );
}

function spread(map: ServiceMap): { spots: Map<string, Spot>; width: number; height: number } {
  const placed = layout(
    map.nodes.map((node) => node.id),
    map.edges,
  );
  const rows = placed.map((p) => p.row);
  const top = Math.min(0, ...rows);
  const bottom = Math.max(0, ...rows);
  const layers = Math.max(0, ...placed.map((p) => p.layer));
  const spots = new Map(
    placed.map((p) => [p.id, { x: MARGIN + p.layer * (NODE.width + GAP.x), y: MARGIN + (p.row - top) * (NODE.height + GAP.y) }]),
  );
  return {
    spots,
    width: 2 * MARGIN + (layers + 1) * NODE.width + layers * GAP.x,
    height: 2 * MARGIN + (bottom - top) * (NODE.height + GAP.y) + NODE.height,
  };
}

interface ArrowProps {
  edge: MapEdge;
  from: Spot | undefined;
  to: Spot | undefined;
  weight: number;
  faded: boolean;
}

function Arrow({ edge, from, to, weight, faded }: ArrowProps) {
  if (!from || !to) return null;
  const bad = edge.calls.errors > 0;
  const forward = to.x > from.x;
  const start = { x: from.x + (forward ? NODE.width : NODE.width / 2), y: from.y + (forward ? NODE.height / 2 : NODE.height) };
  const end = { x: forward ? to.x - 2 : to.x + NODE.width / 2, y: forward ? to.y + NODE.height / 2 : to.y + NODE.height + 2 };
  const bend = forward ? Math.max(40, (end.x - start.x) / 2) : 0;
  const drop = forward ? 0 : 50;
  const path = `M${start.x} ${start.y}C${start.x + bend} ${start.y + drop} ${end.x - bend} ${end.y + drop} ${end.x} ${end.y}`;
  // The label sits where the curve is near its callee, so that the labels of one caller do not pile up.
  const at = forward ? 0.68 : 0.5;
  const label = curve(start, { x: start.x + bend, y: start.y + drop }, { x: end.x - bend, y: end.y + drop }, end, at);
  return (
    <g className={css.edge} data-bad={bad || undefined} data-faded={faded || undefined}>
      <path d={path} strokeWidth={1.2 + 3 * Math.sqrt(weight)} markerEnd={bad ? "url(#arrow-bad)" : "url(#arrow)"}>
        <title>
          {`${bare(edge.from)} → ${bare(edge.to)}, ${edge.protocol}: ${edge.calls.count} calls, ${edge.calls.errors} errors, p95 ${formatDuration(edge.calls.p95_ns)}`}
        </title>
      </path>
      <text x={label.x} y={label.y - 6}>
        {compact(edge.calls.count)} · {formatDuration(edge.calls.p95_ns)}
      </text>
    </g>
  );
}

function curve(a: Spot, b: Spot, c: Spot, d: Spot, t: number): Spot {
  const mix = (k: keyof Spot) => (1 - t) ** 3 * a[k] + 3 * (1 - t) ** 2 * t * b[k] + 3 * (1 - t) * t * t * c[k] + t ** 3 * d[k];
  return { x: mix("x"), y: mix("y") };
}

/** A node's name from its id. */
function bare(id: string): string {
  return id.slice(id.indexOf(":") + 1);
}

function compact(count: number): string {
  return Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(count);
}

interface BoxProps {
  node: MapNode;
  spot: Spot;
  hue: number | undefined;
  faded: boolean;
  focus: (name: string | null) => void;
}

function Box({ node, spot, hue, faded, focus }: BoxProps) {
  const service = node.kind === "service";
  const { calls } = node;
  const facts =
    calls.count > 0
      ? `${compact(calls.count)} calls · p95 ${formatDuration(calls.p95_ns)}`
      : node.kind === "caller"
        ? "caller, not observed"
        : service
          ? "only calls others"
          : "not observed";
  const target = service ? href("/", new URLSearchParams({ service: node.name })) : undefined;
  const body = (
    <>
      <rect width={NODE.width} height={NODE.height} rx="9" />
      {service && <rect width="5" height={NODE.height - 16} x="8" y="8" rx="2.5" className={css.stripe} />}
      <text x={service ? 22 : 14} y="24" className={css.name}>
        {node.name.length > 21 ? `${node.name.slice(0, 20)}…` : node.name}
        <title>{node.name}</title>
      </text>
      <text x={service ? 22 : 14} y="42" className={css.facts}>
        {facts}
      </text>
      {calls.errors > 0 && (
        <g transform={`translate(${NODE.width - 8} 0)`} className={css.errors}>
          <rect x="-46" y="-9" width="50" height="18" rx="9" />
          <text x="-21" y="4">
            {percent(calls.errors, calls.count)}
          </text>
        </g>
      )}
    </>
  );
  const shared = {
    className: `service-colour ${css.node}`,
    style: hueStyle(hue ?? 210),
    "data-kind": node.kind,
    "data-faded": faded || undefined,
    transform: `translate(${spot.x} ${spot.y})`,
    onMouseEnter: () => focus(node.id),
    onMouseLeave: () => focus(null),
  };
  if (!target) return <g {...shared}>{body}</g>;
  return (
    <a
      {...shared}
      href={target}
      aria-label={`${node.name}: ${facts}. Search for its traces`}
      onFocus={() => focus(node.id)}
      onBlur={() => focus(null)}
      onClick={(event) => {
        event.preventDefault();
        go(target);
      }}
    >
      {body}
    </a>
  );
}
