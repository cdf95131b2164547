import type { TimeView } from "../api/types";
import { formatDuration } from "../domain/duration";
import { tapWords } from "../domain/evidence";
import type { Point } from "../domain/hops";
import { timeWords } from "../domain/times";
import css from "./Way.module.css";

interface Props {
  points: readonly Point[];
  /** Id of the point that is looked at. */
  current?: string;
  /** Packets of one direction only: there is no response. */
  oneWay?: boolean;
  /** Shows a point; without it the points are only named. */
  show?: (id: string) => void;
}

/** The way of a request: a strip with the share of each hop, and the points with the time between them. */
export function Way({ points, current, oneWay = false, show }: Props) {
  return (
    <div className={css.way}>
      <div className={css.strip} aria-hidden="true">
        {points.slice(1).map((point) => (
          <span
            key={point.id}
            data-lossy={point.lossy || undefined}
            style={{ flexGrow: point.share }}
            title={`to ${point.name}: ${timeWords(point.both, formatDuration)}`}
          />
        ))}
      </div>
      <ol aria-label="Points of the way">
        {points.map((point, n) => (
          <li key={point.id} aria-current={point.id === current || undefined}>
            {n > 0 && (
              <p className={css.leg}>
                <span className={css.share} style={{ width: `${point.share * 100}%` }} />
                <span className={css.both}>{time(point.both)}</span>
                {point.tail && <span>p99 {time(point.tail)}</span>}
                {!oneWay && (
                  <span>
                    ↓ {time(point.request)} ↑ {time(point.response)}
                  </span>
                )}
              </p>
            )}
            {show ? (
              <button type="button" className={css.point} onClick={() => show(point.id)} title={tapWords(point.tap)}>
                <Name of={point} />
              </button>
            ) : (
              <span className={css.point} title={point.tap && tapWords(point.tap)}>
                <Name of={point} />
              </span>
            )}
            {point.notes.map((note) => (
              <p key={note} className={css.note} data-lossy={point.lossy || undefined}>
                {note}
              </p>
            ))}
          </li>
        ))}
      </ol>
    </div>
  );
}

function Name({ of }: { of: Point }) {
  return (
    <>
      <strong>{of.name}</strong>
      {of.place && <span> {of.place}</span>}
      {of.tap && of.name !== of.tap && <small> {of.tap}</small>}
    </>
  );
}

function time(of: TimeView | null): string {
  return of ? timeWords(of, formatDuration) : "?";
}
