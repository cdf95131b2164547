import { useMemo, useState } from "react";
import { formatDuration } from "../../domain/duration";
import { layout, type Place } from "../../domain/graph";
import { crowdedOut } from "../../domain/labels";
import { type Arrow, bare, compact, factsOf, type Graph, type GraphNode, pace, percent } from "../../domain/servicemap";
import { hueStyle } from "../../parts/Service";
import { go, href } from "../../routing/url";
import css from "./Picture.module.css";
import { usePanZoom } from "./panzoom";

const NODE = { width: 168, height: 56 };
const GAP = { x: 150, y: 34 };
const MARGIN = 24;
/** A character of a label, on average; and how far two labels are apart that can both be read. */
const LETTER = 5.6;
const LINES = 22;

interface Spot {
  x: number;
  y: number;
}

interface Props {
  graph: Graph;
  colours: ReadonlyMap<string, number>;
  /** Id of the arrow that is open. */
  chosen: string;
  choose: (id: string) => void;
}

/** The map as a picture: callers left, callees right; thicker is more calls, red is errors. */
export function Picture({ graph, colours, chosen, choose }: Props) {
  const [focus, setFocus] = useState<string | null>(null);
  const { spots, stops, width, height } = useMemo(() => spread(graph), [graph]);
  const lines = useMemo(
    () => graph.arrows.map((arrow, n) => draw(arrow, spots, stops[n] ?? [])),
    [graph, spots, stops],
  );
  const crowded = useMemo(
    () =>
      crowdedOut(
        lines.flatMap((line) => line?.label ?? []),
        LINES,
      ),
    [lines],
  );
  const pan = usePanZoom(width, height);
  const most = Math.max(1, ...graph.arrows.map((arrow) => arrow.calls));
  const near = new Set(graph.arrows.filter((a) => a.from === focus || a.to === focus).flatMap((a) => [a.from, a.to]));
  const { x, y, scale } = pan.view;
  return (
    <div className={css.frame}>
      <fieldset className={css.tools}>
        <legend className="visually-hidden">Zoom</legend>
        <button type="button" onClick={() => pan.zoom(1.25)} aria-label="Closer (+)" title="Closer (+)">
          +
        </button>
        <button type="button" onClick={() => pan.zoom(0.8)} aria-label="Farther (−)" title="Farther (−)">
          −
        </button>
        <button
          type="button"
          onClick={pan.reset}
          aria-label="All of it (0)"
          title="All of it (0)"
          disabled={pan.isWhole}
        >
          ⤢
        </button>
      </fieldset>
      <svg
        ref={pan.ref}
        viewBox={`${x} ${y} ${width / scale} ${height / scale}`}
        style={{ width: `min(100%, ${width * 1.15}px)` }}
        data-moving={pan.moving || undefined}
        role="group"
        aria-label="Map of services; the table below says the same"
        {...pan.handlers}
      >
        <defs>
          {["arrow", "arrow-bad", "arrow-chosen"].map((id) => (
            <marker
              key={id}
              id={id}
              viewBox="0 0 8 8"
              refX="7"
              refY="4"
              markerWidth="9"
              markerHeight="9"
              markerUnits="userSpaceOnUse"
              orient="auto"
            >
              <path d="M0 0 8 4 0 8z" className={css.head} data-kind={id} />
            </marker>
          ))}
        </defs>
        {graph.arrows.map((arrow, n) => (
          <Line
            key={arrow.id}
            arrow={arrow}
            line={lines[n]}
            weight={arrow.calls / most}
            faded={focus !== null && arrow.from !== focus && arrow.to !== focus}
            quiet={focus === null && crowded.has(arrow.id)}
            chosen={arrow.id === chosen}
            choose={choose}
          />
        ))}
        {graph.nodes.map((node) => {
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

function spread(graph: Graph): Drawing {
  const { nodes, stops } = layout(
    graph.nodes.map((node) => node.id),
    graph.arrows,
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

/** The way of an arrow, and its label. */
interface Drawn {
  path: string;
  label: { id: string; x: number; y: number; width: number; weight: number };
  texts: readonly [string, string];
}

function draw(arrow: Arrow, spots: ReadonlyMap<string, Spot>, stops: readonly Spot[]): Drawn | undefined {
  const [from, to] = [spots.get(arrow.from), spots.get(arrow.to)];
  if (!from || !to) return undefined;
  const forward = to.x > from.x;
  const middle = NODE.height / 2;
  // An edge back, or to itself, leaves and enters below, in a bow.
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
        { x: from.x + NODE.width * 0.7, y: from.y + NODE.height },
        { x: to.x + NODE.width * 0.3, y: to.y + NODE.height + 2 },
      ];
  const pieces = points.slice(1).map((end, n) => bend(points[n] ?? end, end, forward));
  const path = pieces
    .map(([a, b, c, d], n) => `${n === 0 ? `M${a.x} ${a.y}` : ""}C${b.x} ${b.y} ${c.x} ${c.y} ${d.x} ${d.y}`)
    .join("");
  // Near the callee, where the labels of one caller do not pile up; of a long edge on its way, where it is alone.
  const last = pieces.at(-1);
  const stop = stops[Math.floor(stops.length / 2)];
  const beside = last ? curve(...last, forward ? 0.62 : 0.5) : to;
  const at = stop ? { x: stop.x + NODE.width / 2, y: stop.y + middle } : beside;
  const protocols = protocolsOf(arrow);
  const texts = [
    protocols.length > 2 ? `${protocols.length} protocols` : protocols.join(", "),
    [compact(arrow.calls), pace(arrow)].filter((part) => part !== "").join(" · "),
  ] as const;
  const width = LETTER * Math.max(...texts.map((text) => text.length));
  return { path, label: { id: arrow.id, x: at.x, y: at.y, width, weight: arrow.calls }, texts };
}

function protocolsOf(arrow: Arrow): string[] {
  return [...new Set(arrow.edges.map((edge) => edge.protocol))];
}

interface LineProps {
  arrow: Arrow;
  line: Drawn | undefined;
  weight: number;
  faded: boolean;
  /** Its label has no room: it is shown when the line is pointed at, chosen, or one of its ends is. */
  quiet: boolean;
  chosen: boolean;
  choose: (id: string) => void;
}

function Line({ arrow, line, weight, faded, quiet, chosen, choose }: LineProps) {
  if (!line) return null;
  const { path, label, texts } = line;
  const bad = arrow.errors > 0 || arrow.failed > 0;
  const width = 1.2 + 3 * Math.sqrt(weight);
  const name = `${bare(arrow.from)} → ${bare(arrow.to)}, ${protocolsOf(arrow).join(", ")}: ${factsOf(arrow)}`;
  const head = chosen ? "arrow-chosen" : bad ? "arrow-bad" : "arrow";
  const open = () => choose(chosen ? "" : arrow.id);
  return (
    <g
      className={css.edge}
      data-bad={bad || undefined}
      data-faded={faded || undefined}
      data-quiet={quiet || undefined}
      data-chosen={chosen || undefined}
      role="button"
      tabIndex={0}
      aria-pressed={chosen}
      aria-label={name}
      onClick={open}
      onKeyDown={(event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        open();
      }}
    >
      {/* Wide and unseen: what the pointer hits. */}
      <path d={path} className={css.hit} />
      <path d={path} strokeWidth={width} markerEnd={`url(#${head})`}>
        <title>{name}</title>
      </path>
      <text x={label.x} y={label.y - 7}>
        {texts[0]}
      </text>
      <text x={label.x} y={label.y + 10}>
        {texts[1]}
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
  const mix = (k: keyof Spot) =>
    (1 - t) ** 3 * a[k] + 3 * (1 - t) ** 2 * t * b[k] + 3 * (1 - t) * t * t * c[k] + t ** 3 * d[k];
  return { x: mix("x"), y: mix("y") };
}

interface BoxProps {
  node: GraphNode;
  spot: Spot;
  hue: number | undefined;
  faded: boolean;
  focus: (name: string | null) => void;
}

/** What is said of a node that answered nothing. */
const FACTS: Record<string, string> = {
  caller: "caller, not observed",
  service: "only calls others",
  group: "only call others",
};

function Box({ node, spot, hue, faded, focus }: BoxProps) {
  const service = node.kind === "service";
  // No duration: nothing that was understood.
  const what = (node.p95 > 0 ? "call" : "connection") + (node.calls === 1 ? "" : "s");
  const facts =
    node.calls > 0
      ? `${compact(node.calls)} ${what}${node.p95 > 0 ? ` · p95 ${formatDuration(node.p95)}` : ""}`
      : (FACTS[node.kind] ?? "not observed");
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
      {node.errors > 0 && (
        <g transform={`translate(${NODE.width - 8} 0)`} className={css.errors}>
          <rect x="-46" y="-9" width="50" height="18" rx="9" />
          <text x="-21" y="4">
            {percent(node.errors, node.calls)}
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
