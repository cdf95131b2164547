import { type PointerEvent, useMemo, useRef, useState } from "react";
import type { TraceView } from "../../api/types";
import type { TimeWindow } from "../../domain/waterfall";
import { hueStyle } from "../../parts/Service";
import css from "./Minimap.module.css";

const WIDTH = 1000;
const HEIGHT = 100;
const ERRORS = "\u0000errors";

interface Props {
  trace: TraceView;
  colours: ReadonlyMap<string, number>;
  window: TimeWindow;
  zoom: (part: TimeWindow | null) => void;
}

/** The whole trace at a glance: one line per span, one path per service. Dragging chooses a part of the time. */
export function Minimap({ trace, colours, window, zoom }: Props) {
  const paths = useMemo(() => lines(trace), [trace]);
  const frame = useRef<HTMLDivElement>(null);
  const [drag, setDrag] = useState<readonly [number, number] | null>(null);
  if (trace.spans.length < 8) return null;
  const at = (event: PointerEvent) => {
    const box = frame.current?.getBoundingClientRect();
    return box ? Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) : 0;
  };
  const finish = () => {
    if (!drag) return;
    setDrag(null);
    const [from, to] = [Math.min(...drag) * trace.duration_ns, Math.max(...drag) * trace.duration_ns];
    // A click without a drag shows everything again.
    zoom(Math.abs(drag[1] - drag[0]) < 0.004 ? null : { from, to });
  };
  const total = Math.max(1, trace.duration_ns);
  const [left, right] = drag
    ? [Math.min(...drag) * 100, Math.max(...drag) * 100]
    : [(window.from / total) * 100, Math.min(100, (window.to / total) * 100)];
  const thickness = Math.max(1.2, Math.min(6, (HEIGHT / trace.spans.length) * 0.8));
  return (
    <div className={css.map} aria-hidden="true" title="Drag to see a part of the time, click for all of it">
      <div
        ref={frame}
        className={css.frame}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          setDrag([at(event), at(event)]);
        }}
        onPointerMove={(event) => drag && setDrag([drag[0], at(event)])}
        onPointerUp={finish}
        onPointerCancel={() => setDrag(null)}
      >
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="presentation">
          {[...paths].map(([service, path]) => (
            <path
              key={service}
              d={path}
              strokeWidth={thickness}
              className={service === ERRORS ? css.errors : "service-colour"}
              style={hueStyle(colours.get(service) ?? 195)}
            />
          ))}
        </svg>
        <span className={css.shade} style={{ left: 0, width: `${left}%` }} />
        <span className={css.shade} style={{ left: `${right}%`, right: 0 }} />
      </div>
    </div>
  );
}

function lines(trace: TraceView): Map<string, string> {
  const paths = new Map<string, string>();
  const total = Math.max(1, trace.duration_ns);
  trace.spans.forEach(({ span, offset_ns }, n) => {
    const key = span.error ? ERRORS : span.service;
    const x = (offset_ns / total) * WIDTH;
    const width = Math.max(1.5, (span.duration_ns / total) * WIDTH);
    const y = ((n + 0.5) / trace.spans.length) * HEIGHT;
    paths.set(key, `${paths.get(key) ?? ""}M${x.toFixed(1)} ${y.toFixed(2)}h${width.toFixed(1)}`);
  });
  return paths;
}
