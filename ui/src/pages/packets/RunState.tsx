import type { ReactNode } from "react";
import type { FleetView, PacketsView } from "../../api/types";
import { formatDuration } from "../../domain/duration";
import css from "./PacketsPage.module.css";

type Run = Pick<PacketsView | FleetView, "state" | "elapsed_ms" | "limit_ms" | "changes">;

/** How a program goes, in one line. `missing`: what the tables do not have. */
export function RunState({ of, told, missing }: { of: Run; told: ReactNode; missing: ReactNode }) {
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
      {missing && <span className={css.bad}>{missing}</span>}
    </p>
  );
}
