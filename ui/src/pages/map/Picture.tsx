import { useMemo, useState } from "react";
import type { MapEdge, MapNode, ServiceMap } from "../../api/types";
import { formatDuration } from "../../domain/duration";
import { layout, type Place } from "../../domain/graph";
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
  const { spots, stops, width, height } = useMemo(() => spread(map), [map]);
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
        {map.edges.map((edge, n) => (
          <Arrow
            key={`${edge.from} ${edge.to} ${edge.protocol}`}
            edge={edge}
            from={spots.get(edge.from)}
            to={spots.get(edge.to)}
            stops={stops[n] ?? []}
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

interface Drawing {
  spots: ReadonlyMap<string, Spot>;
  /** Points between the ends of each edge. */
  stops: readonly (readonly Spot[])[];
  width: number;
  height: number;
}

function spread(map: ServiceMap): Drawing {
  const { nodes, stops } = layout(
    map.nodes.map((node) => node.id),
    map.edges,
  );
  const all = [...nodes.values(), ...stops.flat()];
  const top = Math.min(0, ...all.map((place) => place.row));
  const bottom = Math.max(0, ...all.map((place) => place.row));
  const layers = Math.max(0, ...all.map((place) => place.layer));
  const spot = (place: Place): Spot => ({
    x: MARGIN + place.layer * (NODE.width + GAP.x),
    y: MARGIN + (place.row - top) * (NODE.height + GAP.y),
  });
  return {
    spots: new Map([...nodes].map(([id, place]) => [id, spot(place)])),
    stops: stops.map((places) => places.map(spot)),
    width: 2 * MARGIN + (layers + 1) * NODE.width + layers * GAP.x,
    height: 2 * MARGIN + (bottom - top) * (NODE.height + GAP.y) + NODE.height,
  };
}

interface ArrowProps {
  edge: MapEdge;
  from: Spot | undefined;
  to: Spot | undefined;
  stops: readonly Spot[];
  weight: number;
  faded: boolean;
}

function Arrow({ edge, from, to, stops, weight, faded }: ArrowProps) {
  if (!from || !to) return null;
  const bad = edge.calls.errors > 0;
  const forward = to.x > from.x;
  const middle = NODE.height / 2;
  // An edge back leaves and enters below, in a bow.
  const points = forward
    ? [
        { x: from.x + NODE.width, y: from.y + middle },
        ...stops.flatMap((stop) => [
          { x: stop.x, y: stop.y + middle },
          { x: stop.x + NODE.width, y: stop.y + middle },
        ]),
        { x: to.x - 2, y: to.y + middle },
      ]
    : [
        { x: from.x + NODE.width / 2, y: from.y + NODE.height },
        { x: to.x + NODE.width / 2, y: to.y + NODE.height + 2 },
      ];
  const pieces = points.slice(1).map((end, n) => bend(points[n] ?? end, end, forward));
  const path = pieces.map(([a, b, c, d], n) => `${n === 0 ? `M${a.x} ${a.y}` : ""}C${b.x} ${b.y} ${c.x} ${c.y} ${d.x} ${d.y}`).join("");
  // On the last piece, near the callee: there the labels of one caller do not pile up.
  const last = pieces.at(-1);
  const label = last ? curve(...last, forward ? 0.62 : 0.5) : to;
  return (
    <g className={css.edge} data-bad={bad || undefined} data-faded={faded || undefined}>
      <path d={path} strokeWidth={1.2 + 3 * Math.sqrt(weight)} markerEnd={bad ? "url(#arrow-bad)" : "url(#arrow)"}>
        <title>
          {`${bare(edge.from)} → ${bare(edge.to)}, ${edge.protocol}: ${edge.calls.count} calls, ${edge.calls.errors} errors, p95 ${formatDuration(edge.calls.p95_ns)}`}
        </title>
      </path>
      <text x={label.x} y={label.y - 7}>
        {compact(edge.calls.count)} · {formatDuration(edge.calls.p95_ns)}
      </text>
    </g>
  );
}

type Bezier = [Spot, Spot, Spot, Spot];

function bend(a: Spot, d: Spot, forward: boolean): Bezier {
  if (!forward) return [a, { x: a.x, y: a.y + 50 }, { x: d.x, y: d.y + 50 }, d];
  const half = (d.x - a.x) / 2;
  return [a, { x: a.x + half, y: a.y }, { x: d.x - half, y: d.y }, d];
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
      ? `${compact(calls.count)} ${calls.count === 1 ? "call" : "calls"} · p95 ${formatDuration(calls.p95_ns)}`
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
