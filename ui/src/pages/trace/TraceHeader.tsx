import { useEffect } from "react";
import type { TraceView } from "../../api/types";
import { formatDuration } from "../../domain/duration";
import { formatExact, formatTime } from "../../domain/time";
import { Copy } from "../../parts/Copy";
import { Service } from "../../parts/Service";
import css from "./TraceHeader.module.css";

interface Props {
  trace: TraceView;
  colours: ReadonlyMap<string, number>;
  hideNetwork: boolean;
  hasNetwork: boolean;
  anyCollapsed: boolean;
  zoomed: boolean;
  resetZoom: () => void;
  toggleNetwork: () => void;
  toggleAll: () => void;
}

export function TraceHeader({
  trace,
  colours,
  hideNetwork,
  hasNetwork,
  anyCollapsed,
  zoomed,
  resetZoom,
  toggleNetwork,
  toggleAll,
}: Props) {
  const root = trace.spans[0]?.span;
  const title = root ? root.name : "Empty trace";
  useEffect(() => {
    document.title = `${title} – wirespan`;
  }, [title]);
  return (
    <header className={css.header}>
      <div className={css.title}>
        {root && <Service name={root.service} hue={colours.get(root.service)} />}
        <h1>{title}</h1>
        <strong className={css.duration}>{formatDuration(trace.duration_ns)}</strong>
        {trace.errors > 0 && (
          <span className={css.errors}>
            {trace.errors} {trace.errors === 1 ? "error" : "errors"}
          </span>
        )}
        {!trace.complete && <span className={css.cut}>cut short by a limit</span>}
      </div>
      <div className={css.actions}>
        {hasNetwork && (
          <label className={css.toggle}>
            <input type="checkbox" checked={!hideNetwork} onChange={toggleNetwork} /> network taps
          </label>
        )}
        {zoomed && (
          <button type="button" onClick={resetZoom}>
            All of the time
          </button>
        )}
        <button type="button" onClick={toggleAll}>
          {anyCollapsed ? "Expand all" : "Collapse all"}
        </button>
        <Copy label="Copy link" text={() => window.location.href} />
        <Copy label="Copy JSON" text={() => JSON.stringify(trace)} />
      </div>
      <div className={css.facts}>
        <time dateTime={formatExact(trace.start_ns)} title={formatExact(trace.start_ns)}>
          {formatTime(trace.start_ns, Date.now())}
        </time>
        <span>
          {trace.spans.length} {trace.spans.length === 1 ? "span" : "spans"}
        </span>
        <span className={css.services}>
          {trace.services
            .filter((s) => s.service)
            .map((s) => (
              <Service key={s.service} name={s.service} hue={colours.get(s.service)} count={s.spans} />
            ))}
        </span>
        <code className={css.id}>{trace.id}</code>
      </div>
    </header>
  );
}
