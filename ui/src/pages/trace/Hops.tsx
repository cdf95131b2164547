import { formatDuration } from "../../domain/duration";
import { tapWords } from "../../domain/evidence";
import type { Measured, Stop } from "../../domain/hops";
import css from "./Hops.module.css";

interface Props {
  list: readonly Stop[];
  /** Id of the span whose panel this is. */
  current: string;
  show: (id: string) => void;
}

/** The way of a request: a strip with the share of each hop, and the points with the time between them. */
export function Hops({ list, current, show }: Props) {
  return (
    <div className={css.hops}>
      <div className={css.strip} aria-hidden="true">
        {list.slice(1).map((stop) => (
          <span
            key={stop.item.span.id}
            data-lossy={stop.lossy || undefined}
            style={{ flexGrow: stop.share }}
            title={`to ${stop.name}: ${stop.bothNs === null ? "not known" : formatDuration(stop.bothNs)}`}
          />
        ))}
      </div>
      <ol aria-label="Points of the way">
        {list.map((stop, n) => (
          <li key={stop.item.span.id} aria-current={stop.item.span.id === current || undefined}>
            {n > 0 && (
              <p className={css.leg}>
                <span className={css.share} style={{ width: `${stop.share * 100}%` }} />
                <span className={css.both}>{stop.bothNs === null ? "?" : formatDuration(stop.bothNs)}</span>
                <span>
                  ↓ {time(stop.request)} ↑ {time(stop.response)}
                </span>
              </p>
            )}
            <button type="button" onClick={() => show(stop.item.span.id)} title={tapWords(stop.item.span.tap)}>
              <strong>{stop.name}</strong>
              {stop.place && <span> {stop.place}</span>}
              {stop.name !== stop.item.span.tap && <small> {stop.item.span.tap}</small>}
            </button>
            {stop.notes.map((note) => (
              <p key={note} className={css.note} data-lossy={stop.lossy || undefined}>
                {note}
              </p>
            ))}
          </li>
        ))}
      </ol>
    </div>
  );
}

function time(of: Measured | null): string {
  if (!of) return "?";
  const error = of.errorNs > 0 ? ` ± ${formatDuration(of.errorNs)}` : "";
  return `${formatDuration(of.ns)}${error}`;
}
