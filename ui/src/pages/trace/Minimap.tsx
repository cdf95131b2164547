import { useMemo } from "react";
import type { TraceView } from "../../api/types";
import { hueStyle } from "../../parts/Service";
import css from "./Minimap.module.css";

const WIDTH = 1000;
const HEIGHT = 100;

/** The whole trace at a glance: one line per span, one path per service. */
export function Minimap({ trace, colours }: { trace: TraceView; colours: ReadonlyMap<string, number> }) {
  const paths = useMemo(() => lines(trace), [trace]);
  if (trace.spans.length < 8) return null;
  const thickness = Math.max(0.8, Math.min(6, (HEIGHT / trace.spans.length) * 0.8));
  return (
    <svg className={css.map} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
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
  );
}

const ERRORS = "\u0000errors";

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
