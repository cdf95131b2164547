import { useState } from "react";
import type { FlameBox } from "../../api/types";
import { formatDuration } from "../../domain/duration";
import { matches, placed } from "../../domain/flame";
import css from "./Flame.module.css";

const ROW_REM = 1.15;

/** In which code a span ran and waited. A click makes a box as wide as the picture. */
export function Flame({ boxes }: { boxes: readonly FlameBox[] }) {
  const [zoomed, setZoomed] = useState(0);
  const [searched, setSearched] = useState("");
  const all = Math.max(1, boxes[0]?.ns ?? 0);
  const shown = placed(boxes, zoomed);
  const rows = Math.max(0, ...shown.map(({ box }) => box.depth + 1));
  const found = boxes.filter(({ name }) => matches(name, searched)).length;
  return (
    <div className={css.flame}>
      <input
        type="search"
        placeholder="Find a function"
        aria-label="Find a function in the flame graph"
        value={searched}
        onChange={(event) => setSearched(event.target.value)}
      />
      {searched !== "" && <span className={css.found}>{found} found</span>}
      <div className={css.boxes} style={{ height: `${rows * ROW_REM}rem` }}>
        {shown.map(({ box, at, left, width }) => (
          <button
            key={at}
            type="button"
            data-kind={box.kind}
            data-found={matches(box.name, searched) || undefined}
            style={{ left: `${left}%`, width: `${width}%`, top: `${box.depth * ROW_REM}rem`, height: `${ROW_REM}rem` }}
            title={`${box.name}: ${formatDuration(box.ns)}, ${((box.ns / all) * 100).toFixed(1)} %`}
            onClick={() => setZoomed(at === zoomed ? 0 : at)}
          >
            {box.name}
          </button>
        ))}
      </div>
      <p>
        Callers are above what they call. Yellow ran in the program, orange in the kernel (a sample each 10 ms); blue
        waited.
      </p>
    </div>
  );
}
