import { useMemo } from "react";
import type { TraceSummary } from "../../api/types";
import { formatDuration } from "../../domain/duration";
import { scatter } from "../../domain/scatter";
import { formatTime } from "../../domain/time";
import { go } from "../../routing/url";
import css from "./Scatter.module.css";
import { traceHref } from "./SearchPage";

/** When the traces began and how long they took. Hidden from screen readers: the list below says the same in words. */
export function Scatter({ traces, selected }: { traces: readonly TraceSummary[]; selected: string | undefined }) {
  const chart = useMemo(() => scatter(traces), [traces]);
  if (!chart || traces.length < 2) return null;
  const now = Date.now();
  const at = (ms: number) => formatTime(`${BigInt(Math.round(ms)) * 1_000_000n}`, now).slice(0, -4);
  return (
    <figure className={css.chart} aria-hidden="true">
      <div className={css.plot}>
        {chart.lines.map((line) => (
          <div key={line.ns} className={css.line} style={{ bottom: `${line.y * 100}%` }}>
            <span>{formatDuration(line.ns)}</span>
          </div>
        ))}
        {chart.points.map((point, n) => {
          const trace = traces[n];
          if (!trace) return null;
          return (
            <button
              key={point.id}
              type="button"
              tabIndex={-1}
              className={css.point}
              data-error={trace.error || undefined}
              data-selected={point.id === selected || undefined}
              style={{ left: `${point.x * 100}%`, bottom: `${point.y * 100}%` }}
              title={`${trace.service} ${trace.name}: ${formatDuration(trace.duration_ns)}`}
              onClick={() => go(traceHref(trace))}
            />
          );
        })}
      </div>
      <figcaption>
        <span>{at(chart.startMs)}</span>
        <span>{at(chart.endMs)}</span>
      </figcaption>
    </figure>
  );
}
