import type { ReactNode } from "react";
import type { FleetView, PacketsView } from "../../api/types";
import { formatDuration } from "../../domain/duration";
import css from "./PacketsPage.module.css";

type Run = Pick<PacketsView | FleetView, "state" | "elapsed_ms" | "limit_ms" | "changes">;

interface Props {
  of: Run;
  told: ReactNode;
  /** What the tables do not have. */
  missing: ReactNode;
  /** What they do not have yet, while the program runs. */
  late: ReactNode;
}

/** How a program goes, in one line. */
export function RunState({ of, told, missing, late }: Props) {
  const running = of.state === "running";
  return (
    <p className={css.state} role="status" data-running={running || undefined}>
      <strong>{running ? "Runs" : "Has ended"}</strong>
      <span>
        {formatDuration(Math.round(of.elapsed_ms / 100) * 1e8)}
        {running && ` of ${formatDuration(of.limit_ms * 1e6)}`}
      </span>
      {told}
      {of.changes > 0 && <span>changed {of.changes === 1 ? "once" : `${of.changes} times`} without a gap</span>}
      {running && late && <span>{late}</span>}
      {missing && <span className={css.bad}>{missing}</span>}
    </p>
  );
}
