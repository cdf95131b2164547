import { formatDuration } from "../../domain/duration";
import { most, type Part } from "../../domain/parts";
import css from "./Parts.module.css";

/** A bar in which each part of a span's time has its share; not in the order of time. */
export function PartsBar({ list }: { list: readonly Part[] }) {
  return (
    <span className={css.bar}>
      {list.map((part) => (
        <span
          key={part.key}
          data-part={part.key}
          style={{ width: `${part.share * 100}%` }}
          title={`${part.label}: ${formatDuration(part.ns)}, ${Math.round(part.share * 100)} %`}
        />
      ))}
    </span>
  );
}

/** The parts as a bar, a list, and the largest of them in words, unless `waitsSayMore`. */
export function PartsList({ list, waitsSayMore }: { list: readonly Part[]; waitsSayMore: boolean }) {
  const largest = waitsSayMore ? null : most(list);
  return (
    <div className={css.parts}>
      <PartsBar list={list} />
      <ul>
        {list.map((part) => (
          <li key={part.key}>
            <span className={css.swatch} data-part={part.key} />
            <span>{part.label}</span>
            <span className={css.number}>{formatDuration(part.ns)}</span>
            <span className={css.number}>{Math.round(part.share * 100)} %</span>
          </li>
        ))}
      </ul>
      {largest && (
        <p>
          For {formatDuration(largest.ns)} it {largest.words}.
        </p>
      )}
    </div>
  );
}
