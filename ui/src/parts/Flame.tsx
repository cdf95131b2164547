import { useState } from "react";
import type { FlameBox } from "../api/types";
import { formatDuration } from "../domain/duration";
import { change, matches, placed } from "../domain/flame";
import css from "./Flame.module.css";

const ROW_REM = 1.15;

interface Props {
  boxes: readonly FlameBox[];
  /** Usual requests stand beside these: colours say what takes more time than usual. */
  compares?: boolean;
}

/** In which code requests ran and waited. A click makes a box as wide as the picture. */
export function Flame({ boxes, compares = false }: Props) {
  const [zoomed, setZoomed] = useState(0);
  const [searched, setSearched] = useState("");
  const all = Math.max(1, boxes[0]?.ns ?? 0);
  const at = zoomed < boxes.length ? zoomed : 0;
  const shown = placed(boxes, at);
  const rows = Math.max(0, ...shown.map(({ box }) => box.depth + 1));
  const found = boxes.filter(({ name }) => matches(name, searched)).length;
  const words = (box: FlameBox) => {
    const usual = compares ? `, usually ${formatDuration(box.usual_ns)}` : "";
    return `${box.name}: ${formatDuration(box.ns)}, ${((box.ns / all) * 100).toFixed(1)} %${usual}`;
  };
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
      {at !== 0 && (
        <button type="button" className={css.whole} onClick={() => setZoomed(0)}>
          Show all
        </button>
      )}
      <div className={css.boxes} style={{ height: `${rows * ROW_REM}rem` }}>
        {shown.map(({ box, at: place, left, width }) => (
          <button
            key={place}
            type="button"
            data-kind={box.kind}
            data-found={matches(box.name, searched) || undefined}
            style={{
              left: `${left}%`,
              width: `${width}%`,
              top: `${box.depth * ROW_REM}rem`,
              height: `${ROW_REM}rem`,
              background: compares && !matches(box.name, searched) ? change(box, all) : undefined,
            }}
            title={words(box)}
            onClick={() => setZoomed(place === at ? 0 : place)}
          >
            {box.name}
          </button>
        ))}
      </div>
      <p>
        Callers are above what they call.{" "}
        {compares
          ? "Red takes more time than usual, blue takes less; the width is the time of a slow request."
          : "Yellow ran in the program, orange in the kernel (a sample each 10 ms); blue waited."}
      </p>
    </div>
  );
}
