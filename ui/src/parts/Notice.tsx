import type { ReactNode } from "react";
import { ApiProblem, Unreachable } from "../api/client";
import css from "./Notice.module.css";

/** A page's or list's worth of nothing, and what to do about it. */
export function Notice({
  title,
  tone = "plain",
  children,
}: {
  title: string;
  tone?: "plain" | "bad";
  children?: ReactNode;
}) {
  return (
    <section className={css.notice} data-tone={tone} role={tone === "bad" ? "alert" : "status"}>
      <h2>{title}</h2>
      {children && <div className={css.body}>{children}</div>}
    </section>
  );
}

/** What went wrong when asking the server. */
export function Failure({ error, retry }: { error: Error; retry: () => void }) {
  const again = (
    <button type="button" className={css.button} onClick={retry}>
      Try again
    </button>
  );
  if (error instanceof Unreachable) {
    return (
      <Notice title="The server does not answer" tone="bad">
        <p>
          wirespan at <code>{window.location.host}</code> is not running, or cannot be reached from here. This page asks
          again every few seconds.
        </p>
        {again}
      </Notice>
    );
  }
  const problem = error instanceof ApiProblem ? error.problem : null;
  return (
    <Notice title={problem?.code === "not_found" ? "Not found" : "The server could not answer"} tone="bad">
      <p>{error.message}</p>
      {problem?.hint && <p>{problem.hint}</p>}
      {problem?.code !== "not_found" && again}
    </Notice>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <p className={css.loading} role="status">
      Loading {what}…
    </p>
  );
}
