import { useEffect, useMemo, useRef } from "react";
import { useHues } from "../../api/queries";
import type { TraceSummary } from "../../api/types";
import { formatDuration } from "../../domain/duration";
import { formatAgo, formatExact, formatTime } from "../../domain/time";
import { Service } from "../../parts/Service";
import { Link } from "../../routing/Link";
import { traceHref } from "./SearchPage";
import css from "./TraceRows.module.css";

export function TraceRows({ traces, cursor }: { traces: readonly TraceSummary[]; cursor: number }) {
  const colours = useHues(useMemo(() => traces.flatMap((trace) => trace.services.map((s) => s.service)), [traces]));
  const slowest = Math.max(1, ...traces.map((trace) => trace.duration_ns));
  const now = Date.now();
  return (
    <ol className={css.rows} aria-label="Traces">
      {traces.map((trace, n) => (
        <TraceRow key={trace.id} trace={trace} selected={n === cursor} slowest={slowest} now={now} colours={colours} />
      ))}
    </ol>
  );
}

interface RowProps {
  trace: TraceSummary;
  selected: boolean;
  slowest: number;
  now: number;
  colours: ReadonlyMap<string, number>;
}

function TraceRow({ trace, selected, slowest, now, colours }: RowProps) {
  const link = useRef<HTMLAnchorElement>(null);
  useEffect(() => {
    if (selected) link.current?.focus();
  }, [selected]);
  return (
    <li>
      <Link ref={link} href={traceHref(trace)} className={css.row} data-error={trace.error || undefined}>
        <span className={css.what}>
          <Service name={trace.service} hue={colours.get(trace.service)} />
          <span className={css.name}>{trace.name}</span>
          {trace.errors > 0 && (
            <span className={css.errors}>
              {trace.errors} {trace.errors === 1 ? "error" : "errors"}
            </span>
          )}
          {!trace.complete && <span className={css.cut}>cut short</span>}
        </span>
        <span className={css.services}>
          {trace.services
            .filter((s) => s.service)
            .map((s) => (
              <Service key={s.service} name={s.service} hue={colours.get(s.service)} count={s.spans} />
            ))}
        </span>
        <span className={css.spans}>
          {trace.spans} {trace.spans === 1 ? "span" : "spans"}
        </span>
        <span className={css.duration}>
          {formatDuration(trace.duration_ns)}
          <span className={css.bar} aria-hidden="true">
            <span style={{ width: `${Math.max(1, (trace.duration_ns / slowest) * 100)}%` }} />
          </span>
        </span>
        <time className={css.time} dateTime={formatExact(trace.start_ns)} title={formatExact(trace.start_ns)}>
          {formatTime(trace.start_ns, now)} <span className={css.ago}>{formatAgo(trace.start_ns, now)}</span>
        </time>
      </Link>
    </li>
  );
}
