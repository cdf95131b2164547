import type { HeatView } from "../../api/types";
import { formatDuration } from "../../domain/duration";
import { begin, type Cell, picture, place } from "../../domain/heat";
import css from "./HeatMap.module.css";

const WIDTH = 900;
const HEIGHT = 240;
const LEFT = 64;
/** Room for the bars at the right, and between them and the map. */
const BARS = 150;
const GAP = 12;

export interface HeatMapProps {
  readonly title: string;
  readonly heat: HeatView;
  /** In words, with their errors if they have any. */
  readonly p50: string;
  readonly p99: string;
  readonly p999: string;
}

/** How long packets took, by second; and by size, on the same axis. */
export function HeatMap({ title, heat, p50, p99, p999 }: HeatMapProps) {
  const shown = picture(heat);
  if (!shown) return <p className={css.none}>No packet has gone this way yet. A way is known three seconds later.</p>;
  const { low, high, first, seconds, cells, bars, ticks } = shown;
  const step = (WIDTH - LEFT - BARS - GAP) / seconds;
  // Without times by second there is only the histogram.
  const only = heat.seconds.length === 0;
  const room = only ? WIDTH - LEFT : BARS;
  const row = HEIGHT / (high - low);
  const y = (at: number) => HEIGHT - (at - low) * row;
  const words = ({ half, count }: Cell) =>
    `${count.toLocaleString("en")} of ${formatDuration(begin(half))} to ${formatDuration(begin(half + 1))}`;
  const clock = (second: number) => new Date(second * 1000).toLocaleTimeString("en-GB");
  const quantiles = `p50 ${p50}, p99 ${p99}, p99.9 ${p999}`;
  const facts = `${heat.packets.toLocaleString("en")} packets, ${quantiles}`;
  return (
    <figure className={css.heat}>
      <figcaption>
        <strong>{title}</strong> <span>{facts}</span>
      </figcaption>
      <svg viewBox={`0 -8 ${WIDTH} ${HEIGHT + 28}`} role="img" aria-label={`${title} by second: ${facts}`}>
        {ticks.map((ns) => (
          <g key={ns} className={css.tick}>
            <line x1={LEFT} x2={WIDTH} y1={y(place(ns))} y2={y(place(ns))} />
            <text x={LEFT - 8} y={y(place(ns)) + 4} textAnchor="end">
              {formatDuration(ns)}
            </text>
          </g>
        ))}
        {cells.map((cell) => (
          <rect
            key={`${cell.second} ${cell.half}`}
            className={css.cell}
            x={LEFT + (cell.second - first) * step}
            y={y(cell.half + 1)}
            width={step}
            height={row}
            // A single packet is still seen.
            fillOpacity={0.15 + 0.85 * Math.sqrt(cell.share)}
          >
            <title>{`${clock(cell.second)}: ${words(cell)}`}</title>
          </rect>
        ))}
        {bars.map((bar) => (
          <rect
            key={bar.half}
            className={css.bar}
            x={WIDTH - room}
            y={y(bar.half + 1) + 0.5}
            width={Math.max(1.5, bar.share * room)}
            height={Math.max(1, row - 1)}
          >
            <title>{words(bar)}</title>
          </rect>
        ))}
        <g className={css.axis}>
          {!only && (
            <>
              <text x={LEFT} y={HEIGHT + 16}>
                {clock(first)}
              </text>
              <text x={WIDTH - BARS - GAP} y={HEIGHT + 16} textAnchor="end">
                {clock(first + seconds)}
              </text>
            </>
          )}
          <text x={WIDTH} y={HEIGHT + 16} textAnchor="end">
            since the start
          </text>
        </g>
      </svg>
    </figure>
  );
}
